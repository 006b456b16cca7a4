/* reader/resp/resp_scan.c - SCAN, KEYS and DBSIZE, which look at every keyspace;
 * ZSCAN and HSCAN, which look at every key of one.
 *
 * The cursor of SCAN is the number of names listed before it, in byte order.
 * A connection knows the name behind which its last one ended; other cursors are
 * reached by listing the names before them.
 * Keyspaces only come, so no name that was there is missed.
 *
 * The cursor of ZSCAN is the position in key order from which it goes on.  A
 * key that comes before it moves the others to the right: one may be given
 * twice, none is missed unless keys are deleted (countd del) meanwhile.  A
 * pattern that begins with literal bytes only looks at the keys that do.
 *
 *     resp_do_scan_keys()
 *     resp_do_scan(), resp_do_keys(), resp_do_dbsize() -> begin_list()
 *     step_list() -> take_name() -> add_name() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "reader/answer.h"

#define SCAN_COUNT   10 /* without COUNT */
#define LOOKED_LEAST 16 /* keys, however late: half a millisecond at worst */

/* ---- SCAN, KEYS, DBSIZE --------------------------------------------------- */

/* Compiles the pattern of a command; false: call->next. */
static bool
compile_pattern(struct resp_call *call, const struct resp_arg *text)
{
    return resp_pattern_compile(&call->service->pattern, text->at,
                                text->size) ||
           resp_stop(call, resp_error(call, "a pattern is longer than %d bytes",
                                      RESP_PATTERN_MAX));
}

/* The cursor args[cursor] and the options behind it; false: call->next. */
static bool
parse_scan(struct resp_call *call, struct resp_wanted *wanted, size_t cursor)
{
    int64_t count;

    if (!resp_integer(&call->args[cursor], &count) || count < 0)
        return resp_stop(call, resp_error(call, "invalid cursor"));
    wanted->skip = (uint64_t)count;
    for (size_t i = cursor + 1; i < call->count; i += 2) {
        const struct resp_arg *option = &call->args[i], *value = option + 1;

        count = 1;
        if (i + 1 < call->count && resp_is_word(option, "match")) {
            if (!compile_pattern(call, value))
                return false;
            wanted->has_pattern = true;
        } else if (i + 1 < call->count && resp_is_word(option, "count")) {
            if (!resp_integer(value, &count))
                return resp_stop(call, resp_not_integer(call));
            wanted->left = (uint64_t)count;
        } else if (i + 1 < call->count && cursor == 1 &&
                   resp_is_word(option, "type")) {
            wanted->matches_type = resp_is_word(value, "zset");
        } else
            count = 0;
        if (count < 1)
            return resp_stop(call, resp_syntax_error(call));
    }
    return true;
}

/* A keyspace that was listed and not skipped. */
static void
add_name(struct resp_job *j, const struct store_listed *found)
{
    const struct resp_service *r = conn_ctx(j->job.conn);

    if (found->keys == 0 || bytes_compare(found->name, found->name_size,
                                          r->strings.at, r->strings.size) == 0)
        return;
    j->keyspaces++;
    if (!j->wanted.matches_type ||
        (j->wanted.has_pattern &&
         !resp_pattern_matches(&j->pattern, found->name, found->name_size)))
        return;
    if (j->count == RESP_ROWS_MAX) { /* of KEYS */
        j->wanted.left = 0;
        j->error = -E2BIG;
        return;
    }
    j->size += resp_put_bulk(j->rows + j->size, found->name, found->name_size);
    j->count++;
}

static void
take_name(struct resp_job *j, const struct store_listed *found)
{
    struct resp_wanted *wanted = &j->wanted;
    struct resp_state *s = conn_state(j->job.conn);

    j->position++;
    if (wanted->skip > 0) {
        wanted->skip--;
        return;
    }
    wanted->left--;
    add_name(j, found);
    if (wanted->list == RESP_SCAN && j->count == RESP_ROWS_MAX)
        wanted->left = 0;
    if (wanted->left > 0)
        return;
    /* Here it ends, and a SCAN goes on behind it. */
    s->scanned = j->position;
    s->scan_end.size = found->name_size;
    memcpy(s->scan_end.bytes, found->name, found->name_size);
}

/* True: the list is as long as it has to be. */
static bool
step_list(struct job *job, uint64_t until_ns)
{
    struct resp_job *j = LOOP_OWNER(job, struct resp_job, job);
    struct store_listed found;
    int rc;

    do {
        rc = store_listing_next(j->listing, until_ns, &found);
        if (rc == 1)
            take_name(j, &found);
    } while (rc == 1 && j->wanted.left > 0 && clock_ns() < until_ns);
    if (rc == -EAGAIN || (rc == 1 && j->wanted.left > 0))
        return false;
    j->at_end = rc == 0;
    if (rc < 0) {
        j->error = rc;
        answer_report(NULL, 0, rc);
    }
    return true;
}

/* The names, behind a cursor of SCAN; of DBSIZE a number. */
static enum conn_next
answer_list(struct resp_call *call, struct resp_job *j)
{
    int64_t keys = 0;
    uint8_t *out;
    size_t size = 0;

    if (j->error == -E2BIG)
        return resp_too_many_rows(call);
    call->service->read_error = j->error;
    if (j->error == 0 && j->wanted.list == RESP_DBSIZE)
        keys = resp_count_keys(call, &call->service->strings);
    if (j->error < 0 || keys < 0)
        return resp_unreadable(call);
    if (j->wanted.list == RESP_DBSIZE)
        return resp_answer_number(call, keys + (int64_t)j->keyspaces);
    out = conn_space(call->conn, j->size + 4 * RESP_NUMBER_SIZE);
    if (!out)
        return CONN_FULL;
    if (j->wanted.list == RESP_SCAN) {
        size = resp_put_number(out, '*', 2);
        size += resp_put_number_bulk(out + size,
                                     j->at_end ? 0 : (int64_t)j->position);
    }
    size += resp_put_number(out + size, '*', (int64_t)j->count);
    memcpy(out + size, j->rows, j->size);
    resp_put(call, size + j->size);
    return CONN_ANSWERED;
}

static enum conn_next
begin_list(struct resp_call *call, const struct resp_wanted *wanted)
{
    struct resp_service *r = call->service;
    const struct resp_state *s = call->state;
    const bool goes_on = wanted->skip > 0 && wanted->skip == s->scanned;
    const size_t rows =
        wanted->left < RESP_ROWS_MAX ? wanted->left : RESP_ROWS_MAX;
    struct resp_job *j = resp_job_enter(call, RESP_ROWS_SIZE(rows));

    if (!j)
        return call->next;
    if (store_listing_open(r->jobs->store, &j->listing) < 0)
        return resp_job_no_memory(call);
    j->wanted = *wanted;
    if (wanted->has_pattern)
        j->pattern = r->pattern;
    if (goes_on) {
        j->position = wanted->skip;
        j->wanted.skip = 0;
    }
    store_listing_start(j->listing, s->scan_end.bytes,
                        goes_on ? s->scan_end.size : 0);
    return resp_job_run(j, step_list, answer_list);
}

enum conn_next
resp_do_scan(struct resp_call *call)
{
    struct resp_wanted wanted = {
        .list = RESP_SCAN, .left = SCAN_COUNT, .matches_type = true};

    return parse_scan(call, &wanted, 1) ? begin_list(call, &wanted)
                                        : call->next;
}

enum conn_next
resp_do_dbsize(struct resp_call *call)
{
    const struct resp_wanted wanted = {.list = RESP_DBSIZE, .left = UINT64_MAX};

    return begin_list(call, &wanted);
}

/* As SCAN has them, at once; too many are an error. */
enum conn_next
resp_do_keys(struct resp_call *call)
{
    const struct resp_wanted wanted = {.list = RESP_KEYS,
                                       .left = UINT64_MAX,
                                       .matches_type = true,
                                       .has_pattern = true};

    return compile_pattern(call, &call->args[1]) ? begin_list(call, &wanted)
                                                 : call->next;
}

/* ---- ZSCAN, HSCAN ------------------------------------------------------- */

/* Writes a cursor and the keys that match, each with its count; returns the
 * bytes.  The cursor comes back with fewer keys when it is time to give way. */
static size_t
put_keys(struct resp_call *call, uint8_t *out, bool has_pattern,
         const struct store_query *q)
{
    const struct resp_pattern *p = &call->service->pattern;
    struct query_row rows[RESP_ROWS_MAX];
    const uint8_t *at = q->bytes;
    uint64_t looked = 0;
    size_t found = 0, size;

    while (looked < q->rows && (looked < LOOKED_LEAST || !resp_is_late(call))) {
        struct query_row *row = &rows[found];

        at = query_row_get(at, row);
        looked++;
        found +=
            !has_pattern || resp_pattern_matches(p, row->key, row->key_size);
    }
    size = resp_put_number(out, '*', 2);
    size +=
        resp_put_number_bulk(out + size, looked < q->length && looked == q->rows
                                             ? 0
                                             : q->offset + (int64_t)looked);
    size += resp_put_number(out + size, '*', 2 * (int64_t)found);
    for (size_t i = 0; i < found; i++) {
        size += resp_put_bulk(out + size, rows[i].key, rows[i].key_size);
        size += resp_put_number_bulk(out + size, rows[i].count);
    }
    return size;
}

/* Whether the row's key is before the query's prefix. */
static bool
is_before_prefix(const struct query_row *row, const void *bound)
{
    const struct store_query *q = bound;

    return bytes_compare(row->key, row->key_size, q->prefix, q->prefix_size) <
           0;
}

/* Lets the query begin where keys with the pattern's literal beginning do, if
 * the cursor is before them.  Positions between two snapshots may be too low,
 * never too high, unless keys are deleted.  0, or negative: it cannot be read.
 */
static int
seek_prefix(struct resp_call *call, const struct resp_pattern *p,
            struct store_query *q)
{
    int64_t first;

    q->prefix = p->prefix;
    q->prefix_size = p->prefix_size;
    if (q->prefix_size == 0)
        return 0;
    first = resp_count_before(call, STORE_KEYS,
                              resp_count_keys(call, &call->args[1]),
                              is_before_prefix, q);
    if (first > q->offset)
        q->offset = first;
    return first < 0 ? (int)first : 0;
}

static enum conn_next
answer_keys(struct resp_call *call, bool has_pattern, struct store_query *q)
{
    struct resp_service *r = call->service;
    uint8_t *out;
    int rc = 0;

    out = conn_space(call->conn, RESP_ROWS_SIZE(q->length));
    if (!out)
        return CONN_FULL;
    if (has_pattern)
        rc = seek_prefix(call, &r->pattern, q);
    if (rc == 0)
        rc = resp_query(call, q, r->rows, RESP_ROWS_BYTES);
    if (rc < 0)
        return resp_unreadable(call);
    resp_put(call, put_keys(call, out, has_pattern, q));
    return CONN_ANSWERED;
}

enum conn_next
resp_do_scan_keys(struct resp_call *call)
{
    struct resp_wanted wanted = {.left = SCAN_COUNT};
    struct store_query q = {.op = STORE_KEYS,
                            .name = call->args[1].at,
                            .name_size = call->args[1].size};

    if (!parse_scan(call, &wanted, 2))
        return call->next;
    q.offset = (int64_t)wanted.skip;
    q.length = wanted.left < RESP_ROWS_MAX ? wanted.left : RESP_ROWS_MAX;
    return answer_keys(call, wanted.has_pattern, &q);
}
