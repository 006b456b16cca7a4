/* reader/resp/resp_scan.c - SCAN, KEYS and DBSIZE, which look at every keyspace;
 * ZSCAN and HSCAN, which look at every key of one.
 *
 * The cursor of SCAN is the number of names listed before it, in byte order.
 * The last few ends of each client are remembered with their name, so that the
 * next SCAN goes on behind it; other cursors are reached by listing the names before them.
 * Keyspaces only come, so no name that was there is missed.
 *
 * The cursor of ZSCAN is the position in key order from which it goes on.  A
 * key that comes before it moves the others to the right: one may be given
 * twice, none is missed unless keys are deleted (countd del) meanwhile.  A
 * pattern that begins with literal bytes only looks at the keys that do.
 *
 *     resp_do_scan_keys()
 *     resp_do_scan(), resp_do_keys() -> begin_job()
 *     resp_step_job() -> step_list() -> list_some() -> add_name() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "reader/resp/resp_period.h"

#define SCAN_COUNT   10 /* without COUNT */
#define LOOKED_LEAST 16 /* keys, however late: half a millisecond at worst */

/* ---- SCAN ---------------------------------------------------------------- */

/* An unsigned integer; false: it is not one. */
static bool
parse_cursor(const struct resp_arg *arg, uint64_t *out)
{
    int64_t value;

    if (!resp_integer(arg, &value) || value < 0)
        return false;
    *out = (uint64_t)value;
    return true;
}

/* Compiles the pattern of a command; false: *answer has the error. */
static bool
compile_pattern(struct resp_call *call, const struct resp_arg *text,
                enum conn_next *answer)
{
    if (resp_pattern_compile(&call->service->pattern, text->at, text->size))
        return true;
    *answer =
        resp_error(call, "a pattern is longer than %d bytes", RESP_PATTERN_MAX);
    return false;
}

/* Options, from args[first] on; false: *answer has the error. */
static bool
parse_scan(struct resp_call *call, struct resp_job *job, size_t first,
           enum conn_next *answer)
{
    for (size_t i = first; i < call->count; i += 2) {
        const struct resp_arg *value = &call->args[i + 1];
        int64_t count;

        if (i + 1 == call->count) {
            *answer = resp_syntax_error(call);
            return false;
        }
        if (resp_is_word(&call->args[i], "match")) {
            if (!compile_pattern(call, value, answer))
                return false;
            job->has_pattern = true;
        } else if (resp_is_word(&call->args[i], "count")) {
            if (!resp_integer(value, &count)) {
                *answer = resp_not_integer(call);
                return false;
            }
            if (count < 1) {
                *answer = resp_syntax_error(call);
                return false;
            }
            job->left = (uint64_t)count;
        } else if (first == 2 && resp_is_word(&call->args[i], "type")) {
            job->matches_type = resp_is_word(value, "zset");
        } else {
            *answer = resp_syntax_error(call);
            return false;
        }
    }
    return true;
}

static const struct resp_scan_end *
find_end(const struct resp_service *r, uint64_t position)
{
    for (size_t i = 0; i < RESP_SCAN_ENDS; i++)
        if (position > 0 && r->ends[i].position == position)
            return &r->ends[i];
    return NULL;
}

static struct resp_scan_end *
older_end(struct resp_scan_end *a, struct resp_scan_end *b)
{
    return !a || b->number < a->number ? b : a;
}

/* The end to be forgotten for one of `client`: the oldest of those that it has,
 * if it has its share, else the oldest of all. */
static struct resp_scan_end *
choose_end(struct resp_service *r, uint64_t client)
{
    struct resp_scan_end *oldest = NULL, *oldest_own = NULL;
    unsigned own = 0;

    for (size_t i = 0; i < RESP_SCAN_ENDS; i++) {
        struct resp_scan_end *end = &r->ends[i];

        if (end->position == r->job.position)
            return end;
        oldest = older_end(oldest, end);
        if (end->position == 0 || end->client != client)
            continue;
        oldest_own = older_end(oldest_own, end);
        own++;
    }
    return own >= RESP_SCAN_SHARE ? oldest_own : oldest;
}

static void
remember_end(struct resp_call *call, const uint8_t *name, size_t size)
{
    struct resp_service *r = call->service;
    struct resp_scan_end *end = choose_end(r, call->state->client);

    end->position = r->job.position;
    end->number = ++r->scans;
    end->client = call->state->client;
    end->size = size;
    memcpy(end->name, name, size);
}

static enum conn_next
begin_job(struct resp_call *call, const struct resp_job *job)
{
    struct resp_service *r = call->service;
    const struct resp_scan_end *end = find_end(r, job->skip);

    if (!waiting_line_enter(&r->line, call->conn, &call->state->line))
        return CONN_PAUSE;
    r->job = *job;
    if (job->has_pattern)
        r->job_pattern = r->pattern;
    if (end) {
        r->job.position = job->skip;
        r->job.skip = 0;
    }
    store_listing_start(r->listing, end ? end->name : (const uint8_t *)"",
                        end ? end->size : 0);
    return CONN_LONG;
}

enum conn_next
resp_do_scan(struct resp_call *call)
{
    struct resp_job job = {
        .kind = RESP_JOB_SCAN, .left = SCAN_COUNT, .matches_type = true};
    enum conn_next answer;

    if (!parse_cursor(&call->args[1], &job.skip))
        return resp_error(call, "invalid cursor");
    if (!parse_scan(call, &job, 2, &answer))
        return answer;
    return begin_job(call, &job);
}

enum conn_next
resp_do_dbsize(struct resp_call *call)
{
    const struct resp_job job = {.kind = RESP_JOB_DBSIZE, .left = UINT64_MAX};

    return begin_job(call, &job);
}

/* As SCAN has them, at once; too many are an error. */
enum conn_next
resp_do_keys(struct resp_call *call)
{
    const struct resp_job job = {.kind = RESP_JOB_KEYS,
                                 .left = UINT64_MAX,
                                 .matches_type = true,
                                 .has_pattern = true};
    enum conn_next answer;

    if (!compile_pattern(call, &call->args[1], &answer))
        return answer;
    return begin_job(call, &job);
}

/* ---- ZSCAN, HSCAN ------------------------------------------------------- */

/* Writes the keys that match, each with its count, until it is time to give
 * way; returns the bytes.  *looked is how many rows it looked at, *found how
 * many match. */
static size_t
put_keys(struct resp_call *call, uint8_t *out, bool has_pattern,
         const struct store_query *q, int64_t counts[2])
{
    const struct resp_pattern *p = &call->service->pattern;
    const uint8_t *at = q->bytes;
    int64_t *looked = &counts[0], *found = &counts[1];
    size_t size = 0;

    *looked = *found = 0;
    while (*looked < (int64_t)q->rows) {
        const uint8_t *key = at + QUERY_ROW_SIZE;
        const uint16_t key_size = get_le16(at + 8);

        if (!has_pattern || resp_pattern_matches(p, key, key_size)) {
            size += resp_put_bulk(out + size, key, key_size);
            size += resp_put_number_bulk(out + size, get_le64s(at));
            ++*found;
        }
        at = key + key_size;
        ++*looked;
        if (*looked >= LOOKED_LEAST && resp_is_late(call))
            break;
    }
    return size;
}

/* Whether the row's key is before the query's prefix. */
static bool
is_before_prefix(const uint8_t *row, const void *bound)
{
    const struct store_query *q = bound;

    return bytes_compare(row + QUERY_ROW_SIZE, get_le16(row + 8), q->prefix,
                         q->prefix_size) < 0;
}

/* Lets the query begin where keys with the pattern's literal beginning do, if
 * the cursor is before them.  Positions between two snapshots may be too low,
 * never too high, unless keys are deleted.  0, or negative: it cannot be read.
 */
static int
seek_prefix(struct resp_call *call, const struct resp_pattern *p,
            struct store_query *q)
{
    const struct resp_arg *keyspace = &call->args[1];
    int64_t first;

    q->prefix = p->prefix;
    q->prefix_size = p->prefix_size;
    if (q->prefix_size == 0)
        return 0;
    first =
        resp_count_before(call, STORE_KEYS, keyspace,
                          resp_count_keys(call, keyspace), is_before_prefix, q);
    if (first > q->offset)
        q->offset = first;
    return first < 0 ? (int)first : 0;
}

/* The cursor comes back with fewer keys when it is time to give way. */
static enum conn_next
answer_keys(struct resp_call *call, bool has_pattern, struct store_query *q)
{
    struct resp_service *r = call->service;
    uint8_t head[3 * RESP_NUMBER_SIZE], *out;
    int64_t counts[2], *looked = &counts[0], *found = &counts[1];
    size_t head_size, size;
    int rc = 0;

    out = resp_space(call, RESP_ROWS_SIZE(q->length));
    if (!out)
        return CONN_FULL;
    if (has_pattern)
        rc = seek_prefix(call, &r->pattern, q);
    if (rc == 0)
        rc = resp_query(call, q, r->rows, RESP_ROWS_BYTES);
    if (rc < 0 && rc != -ENOENT)
        return resp_unreadable(call);
    size = put_keys(call, out + sizeof head, has_pattern, q, counts);
    head_size = resp_put_number(head, '*', 2);
    head_size += resp_put_number_bulk(head + head_size,
                                      *looked < (int64_t)q->length &&
                                              *looked == (int64_t)q->rows
                                          ? 0
                                          : q->offset + *looked);
    head_size += resp_put_number(head + head_size, '*', 2 * *found);
    memcpy(out, head, head_size);
    memmove(out + head_size, out + sizeof head, size);
    resp_put(call, head_size + size);
    return CONN_MORE;
}

enum conn_next
resp_do_scan_keys(struct resp_call *call)
{
    struct resp_job job = {.left = SCAN_COUNT};
    struct store_query q = {.op = STORE_KEYS,
                            .name = call->args[1].at,
                            .name_size = call->args[1].size};
    enum conn_next answer;

    if (!parse_cursor(&call->args[2], &job.skip))
        return resp_error(call, "invalid cursor");
    if (!parse_scan(call, &job, 3, &answer))
        return answer;
    if (!resp_check_keyspace(call, false, &answer))
        return answer;
    q.offset = (int64_t)job.skip;
    q.length = job.left < RESP_ROWS_MAX ? job.left : RESP_ROWS_MAX;
    return answer_keys(call, job.has_pattern, &q);
}

/* ---- steps --------------------------------------------------------------- */

static bool
is_strings(const struct resp_call *call, const struct store_listed *found)
{
    const struct resp_arg strings = resp_strings(call);

    return found->name_size == strings.size &&
           memcmp(found->name, strings.at, strings.size) == 0;
}

/* A keyspace that was listed. */
static void
add_name(struct resp_call *call, const struct store_listed *found)
{
    struct resp_service *r = call->service;
    struct resp_job *job = &r->job;

    job->position++;
    if (job->skip > 0) {
        job->skip--;
        return;
    }
    job->left--;
    if (job->left == 0)
        remember_end(call, found->name, found->name_size);
    if (found->keys == 0 || is_strings(call, found))
        return;
    job->keyspaces++;
    if (job->kind == RESP_JOB_DBSIZE || !job->matches_type ||
        (job->has_pattern &&
         !resp_pattern_matches(&r->job_pattern, found->name, found->name_size)))
        return;
    if (job->count == RESP_ROWS_MAX) { /* of KEYS */
        job->left = 0;
        job->error = -E2BIG;
        return;
    }
    job->size +=
        resp_put_bulk(r->rows + job->size, found->name, found->name_size);
    job->count++;
    if (job->kind == RESP_JOB_SCAN && job->count == RESP_ROWS_MAX &&
        job->left > 0) {
        job->left = 0;
        remember_end(call, found->name, found->name_size);
    }
}

/* True: the list is as long as it has to be. */
static bool
list_some(struct resp_call *call)
{
    static struct diag_repeat failures;
    struct resp_service *r = call->service;
    struct resp_job *job = &r->job;
    const uint64_t until_ns = r->until_ns;
    struct store_listed found;
    int rc;

    do {
        rc = store_listing_next(r->listing, until_ns, &found);
        if (rc == 1)
            add_name(call, &found);
    } while (rc == 1 && job->left > 0 && clock_ns() < until_ns);
    if (rc == -EAGAIN || (rc == 1 && job->left > 0))
        return false;
    store_listing_stop(r->listing);
    job->at_end = rc == 0;
    if (rc < 0)
        job->error = rc;
    if (rc < 0)
        diag_repeating(&failures, DIAG_ERROR, "cannot list keyspaces: %s",
                       diag_text(rc));
    return true;
}

/* SCAN, or KEYS. */
static enum conn_next
answer_names(struct resp_call *call)
{
    const struct resp_service *r = call->service;
    const struct resp_job *job = &r->job;
    uint8_t *out = resp_space(call, job->size + 4 * RESP_NUMBER_SIZE);
    size_t size = 0;

    if (!out)
        return CONN_FULL;
    if (job->kind == RESP_JOB_SCAN) {
        size = resp_put_number(out, '*', 2);
        size += resp_put_number_bulk(out + size,
                                     job->at_end ? 0 : (int64_t)job->position);
    }
    size += resp_put_number(out + size, '*', (int64_t)job->count);
    memcpy(out + size, r->rows, job->size);
    resp_put(call, size + job->size);
    return CONN_MORE;
}

static enum conn_next
answer_dbsize(struct resp_call *call)
{
    const struct resp_arg strings = resp_strings(call);
    const int64_t keys = resp_count_keys(call, &strings);

    if (keys < 0)
        return resp_unreadable(call);
    return resp_answer_number(call,
                              keys + (int64_t)call->service->job.keyspaces);
}

static enum conn_next
step_list(struct resp_call *call)
{
    struct resp_job *job = &call->service->job;

    if (!job->is_done && !list_some(call))
        return CONN_LONG;
    job->is_done = true;
    if (job->error == -E2BIG)
        return resp_too_many_rows(call);
    if (job->error < 0) {
        call->service->read_error = job->error;
        return resp_unreadable(call);
    }
    return job->kind == RESP_JOB_DBSIZE ? answer_dbsize(call)
                                        : answer_names(call);
}

enum conn_next
resp_step_job(struct resp_call *call)
{
    struct resp_service *r = call->service;
    enum conn_next next;

    assert(r->line.served == call->conn);
    next = r->job.kind == RESP_JOB_PERIOD    ? resp_period_step(call)
           : r->job.kind == RESP_JOB_CLIENTS ? resp_clients_step(call)
                                             : step_list(call);
    if (next == CONN_MORE)
        waiting_line_leave(&r->line, call->conn, &call->state->line);
    return next;
}
