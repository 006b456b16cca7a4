/* common/client/cmd/explain.c - countd explain: where a count came from, as far
 * as history and the archived logs show.
 *
 * The count, its history and the marks of its keyspace are read in one turn of
 * the store, so that the marks show which fills this very count contains.  Then
 * the logs are read: each log with the key is a row, and is in the count or not
 * (waiting, or merged since).  After them each step of history is a row, with the
 * part of it that is in archived logs.
 *
 * The output states what is unknown: logs that are missing or damaged, fills
 * that were merged and not archived, records quarantined or waiting, a saturated
 * count; and that no log records del, drop and salvage.
 *
 * Read from the end: cmd_explain(), explain_count().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd_data.h"
#include "common/client/cmd/cmd_terminal.h"
#include "common/client/cmd/key_history.h"
#include "common/store/history/history.h"

/* ---- what is explained --------------------------------------------------- */

struct explain_mark {
    struct log_fill m;
    bool done;
    bool archived; /* this very fill is */
};

/* What one archived log has for the key. */
struct share {
    struct explain *e;
    bool in;                    /* the count */
    uint64_t first_ms, last_ms; /* of its increments of the key */
    uint64_t increments;
    int128 sum;
};

struct explain {
    const struct cmd_line *line;
    struct increment_name keyspace, key;
    bool utc;
    struct store_session in;

    bool found; /* the key has a count */
    struct store_row row;
    struct explain_mark *marks;
    size_t mark_count, mark_capacity;
    bool steady; /* marks, count and history are of one moment */
    struct key_history history;

    struct archived_list list;
    struct progress progress;
    struct output out;
    uint64_t begins_ms; /* the archive; UINT64_MAX: there is none */
    uint64_t logs, increments;
    int128 sum;       /* of what is in the count */
    uint64_t waiting; /* increments that are not in it yet */
    uint64_t missing, damaged, unarchived;
};

/* ---- the count and its marks ------------------------------------------- */

static int
keep_mark(void *ctx, const struct log_fill *m,
          const struct store_mark_info *info)
{
    struct explain *e = ctx;

    if (array_grow(&e->marks, &e->mark_capacity, e->mark_count + 1,
                   sizeof *e->marks) < 0)
        return -ENOMEM;
    e->marks[e->mark_count++] =
        (struct explain_mark){.m = *m, .done = info->state == STORE_MARK_DONE};
    return 0;
}

/* Asks the store one question about the keyspace. */
static int
read_one(struct explain *e, struct store_query *q)
{
    q->name = e->keyspace.bytes;
    q->name_size = e->keyspace.size;
    return store_read(e->in.store, q, NULL, 0);
}

/* Reads the count, the marks and the history in one turn, and so of one moment:
 * only of a history that takes very many queries a part may be later. */
static int
read_count(struct explain *e)
{
    struct store_query before = {.op = STORE_TOTAL}, after = before;
    struct store_query row = {
        .op = STORE_GET, .key = e->key.bytes, .key_size = e->key.size};
    int rc = read_one(e, &before);

    if (rc == 0)
        rc = store_each_mark(e->in.store, e->keyspace.bytes, e->keyspace.size,
                             keep_mark, e);
    if (rc == 0)
        rc = key_history_read(&e->history, e->in.store, &e->keyspace, &e->key,
                              clock_unix_ms());
    if (rc == 0)
        rc = read_one(e, &row);
    e->found = rc == 0;
    e->row = row.row;
    (void)read_one(e, &after); /* after an error it is another state */
    store_read_end(e->in.store);
    e->steady = before.totals.nonce == after.totals.nonce &&
                before.totals.change == after.totals.change;
    return rc == -ENOENT ? 0 : rc;
}

/* Whether a fill is in the count. */
static bool
is_in(struct explain *e, const struct archive_header *h)
{
    for (size_t i = 0; i < e->mark_count; i++) {
        struct explain_mark *k = &e->marks[i];
        const bool same = k->m.epoch == h->epoch;

        if (memcmp(k->m.uuid, h->uuid, sizeof h->uuid) != 0)
            continue;
        if (same && k->m.first_ms == h->first_ms) {
            k->archived = true;
            return k->done;
        }
        return k->m.epoch > h->epoch || (same && k->m.first_ms > h->first_ms);
    }
    return false;
}

/* ---- the logs ---------------------------------------------------------- */

static bool
is_ours(const struct explain *e, const struct message *m)
{
    return m->increment != 0 &&
           bytes_equal(m->key, m->key_size, e->key.bytes, e->key.size) &&
           bytes_equal(m->keyspace, m->keyspace_size, e->keyspace.bytes,
                       e->keyspace.size);
}

/* The time at which history has it: that which it was given, unless that was so
 * far ahead that the merge did not believe it.  The time of the merge is not
 * known; it follows the receipt. */
static uint64_t
counted_ms(const struct message *m, uint64_t received_ms)
{
    const uint64_t minute = m->minute;

    return minute > 0 && minute <= received_ms / 60000 + HISTORY_AHEAD_MAX
               ? minute * 60000
               : received_ms;
}

static int
add_record(void *ctx, uint32_t number, const struct message *m,
           const struct slot_stamp *stamp)
{
    const uint64_t received_ms = stamp->received_ms;
    struct share *s = ctx;

    (void)number;
    if (!is_ours(s->e, m))
        return 0;
    if (s->increments++ == 0)
        s->first_ms = received_ms;
    s->last_ms = received_ms;
    s->sum += m->increment;
    if (!s->in)
        return 0;
    return key_history_add(&s->e->history, counted_ms(m, received_ms),
                           m->increment);
}

static const struct table_column columns[] = {
    {"first received", "first_received", false},
    {"last", "last_received", false},
    {"log", "log", true},
    {"epoch", "epoch", true},
    {"increments", "increments", true},
    {"sum", "sum", true},
    {"in the count", "in", false},
};

static struct cell
cell_time(const struct explain *e, uint64_t ms, char text[TIME_TEXT_SIZE])
{
    if (e->out.format != OUTPUT_PEOPLE)
        return cell_number((int64_t)(ms / 1000));
    cmd_time_format(ms, e->utc, text);
    return cell_text(text);
}

static void
print_share(struct explain *e, const struct archived *a, const struct share *s)
{
    char first[TIME_TEXT_SIZE], last[TIME_TEXT_SIZE], sum[CELL_SUM_SIZE];

    progress_clear(&e->progress);
    output_row(&e->out, (const struct cell[]){
                            cell_time(e, s->first_ms, first),
                            cell_time(e, s->last_ms, last),
                            cell_number((int64_t)a->header.index),
                            cell_number((int64_t)a->header.epoch),
                            cell_number((int64_t)s->increments),
                            cell_sum(s->sum, sum),
                            cell_bool(s->in),
                        });
}

static int
read_archived(struct explain *e, const struct archived *a)
{
    struct share s = {.e = e};
    int rc;

    if (a->header.first_ms < e->begins_ms)
        e->begins_ms = a->header.first_ms;
    if (a->missing) {
        e->missing++;
        return 0;
    }
    s.in = a->error == 0 && is_in(e, &a->header);
    rc = a->error < 0 ? a->error : archived_each(a, add_record, &s);
    if (rc < 0 && rc != -ENOMEM) {
        progress_clear(&e->progress);
        archived_report(a->path, rc);
        e->damaged++;
        return 0;
    }
    if (rc < 0 || s.increments == 0)
        return rc;
    print_share(e, a, &s);
    e->logs++;
    e->increments += s.in ? s.increments : 0;
    e->sum += s.in ? s.sum : 0;
    e->waiting += s.in ? 0 : s.increments;
    return 0;
}

static int
read_archive(struct explain *e)
{
    uint64_t done = 0;
    int rc = 0;

    archived_sort(&e->list);
    e->begins_ms = UINT64_MAX;
    progress_init(&e->progress, "reading", e->list.size);
    for (size_t i = 0; rc == 0 && i < e->list.count; i++) {
        rc = read_archived(e, &e->list.logs[i]);
        done += e->list.logs[i].size;
        progress_show(&e->progress, done, i + 1, "log");
    }
    progress_clear(&e->progress);
    for (size_t i = 0; i < e->mark_count; i++)
        e->unarchived +=
            !e->marks[i].archived && e->marks[i].m.first_ms >= e->begins_ms;
    return rc;
}

/* ---- telling ----------------------------------------------------------- */

static int64_t
count_of(const struct explain *e)
{
    return e->found ? e->row.count : 0;
}

static int128
rest_of(const struct explain *e)
{
    return (int128)count_of(e) - e->sum;
}

static void
print_facts(struct explain *e)
{
    struct output *o = &e->out;
    char sum[CELL_SUM_SIZE], rest[CELL_SUM_SIZE];

    key_history_facts(&e->history, &e->out, count_of(e));
    output_count(o, "increments", e->increments);
    output_fact(o, "sum", cell_sum(e->sum, sum));
    output_fact(o, "rest", cell_sum(rest_of(e), rest));
    output_fact(o, "archive_begins",
                e->begins_ms == UINT64_MAX
                    ? cell_none()
                    : cell_number((int64_t)(e->begins_ms / 1000)));
    output_count(o, "not_in_the_count", e->waiting);
    output_fact(o, "saturated", cell_number(e->found && e->row.saturated));
    output_count(o, "logs_missing", e->missing);
    output_count(o, "logs_damaged", e->damaged);
    output_count(o, "logs_not_archived", e->unarchived);
    output_fact(o, "one_moment", cell_bool(e->steady));
}

/* Prints sentences for people. */
static void
print_sentences(const struct explain *e)
{
    char when[TIME_TEXT_SIZE], sum[CELL_SUM_SIZE], rest[CELL_SUM_SIZE];

    if (e->found)
        (void)printf("count now: %" PRId64 "%s\n", e->row.count,
                     e->row.saturated ? ", saturated" : "");
    else
        (void)printf("count now: none\n");
    key_history_summarize(&e->history, count_of(e), e->utc);
    (void)printf("from %" PRIu64 " increment%s in archived logs: %s\n",
                 e->increments, output_plural(e->increments),
                 cell_sum_text(e->sum, sum));
    if (e->begins_ms == UINT64_MAX) {
        (void)printf("the rest: %s; no log is archived\n",
                     cell_sum_text(rest_of(e), rest));
        return;
    }
    cmd_time_format(e->begins_ms, e->utc, when);
    (void)printf("the rest, from before the archive begins at %s: %s\n", when,
                 cell_sum_text(rest_of(e), rest));
}

/* Warns on stderr of everything that can make the logs and the count differ. */
static void
print_warnings(struct explain *e)
{
    const struct {
        uint64_t count;
        const char *what, *end;
    } counts[] = {
        {e->missing, "logs that were merged and could not be archived",
         "; the rest may be theirs"},
        {e->damaged, "archived logs that cannot be read",
         "; the rest may be theirs"},
        {e->unarchived, "logs merged since the archive begins and not in it",
         "; the rest may be theirs"},
        {e->waiting, "increments in archived logs that are not in the count",
         ""},
    };
    struct unmerged unmerged;

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].count > 0)
            diag(DIAG_WARNING, "%s: %" PRIu64 "%s", counts[i].what,
                 counts[i].count, counts[i].end);
    if (e->found && e->row.saturated)
        diag(DIAG_WARNING, "the count has reached a limit of int64: what was "
                           "beyond it is lost, the rest says nothing");
    if (rest_of(e) != 0 && e->begins_ms != UINT64_MAX)
        diag(DIAG_INFO, "del, drop and salvage are in no archived log: the "
                        "rest is also what these took away or added");
    if (!e->steady)
        diag(DIAG_WARNING, "merges came too fast: count and history are not of "
                           "one moment");
    diag(DIAG_INFO, "what is acknowledged and not merged yet is in none of it; "
                    "countd flush waits for that");
    if (unmerged_read(&e->in.dir, &e->in.waiting, e->in.store, &unmerged) == 0)
        unmerged_warn(&unmerged, "not in the count");
}

static int
explain_count(struct explain *e)
{
    int rc;

    rc = read_count(e);
    if (rc < 0)
        return cmd_failed(rc, "read the count");
    output_init(&e->out, e->line, OUTPUT_COLUMNS(columns));
    output_fact(&e->out, "keyspace",
                cell_name(e->keyspace.bytes, e->keyspace.size));
    output_fact(&e->out, "key", cell_name(e->key.bytes, e->key.size));
    output_fact(&e->out, "count",
                e->found ? cell_number(e->row.count) : cell_none());
    rc = read_archive(e);
    output_rows_end(&e->out);
    key_history_print(&e->history, &e->out, e->utc);
    print_facts(e);
    if (e->out.format == OUTPUT_PEOPLE)
        print_sentences(e);
    output_fini(&e->out);
    if (rc < 0)
        return cmd_failed(rc, "read the archive");
    print_warnings(e);
    return e->damaged > 0 || (!e->found && e->logs == 0) ? CONFIG_EXIT_NEGATIVE
                                                         : CONFIG_EXIT_OK;
}

/* ---- the subcommand ---------------------------------------------------- */

/* The archive that --archive names, or that of the data directory, which may
 * have none. */
static int
list_archive(struct explain *e)
{
    const char *given = cmd_value(e->line, "archive");
    char *path = NULL;
    int rc = 0;

    if (given == NULL && e->in.dir.archive_fd < 0)
        return 0;
    if (given == NULL &&
        asprintf(&path, "%s/%s", e->line->config.data_dir, ARCHIVE_FOLDER) < 0)
        return cmd_failed(-ENOMEM, "list the archive");
    rc = archived_add(&e->list, given ? given : path);
    free(path);
    return rc == 0                          ? 0
           : rc == -EINVAL || rc == -ENOENT ? CONFIG_EXIT_USAGE
                                            : CONFIG_EXIT_SYSTEM;
}

int
cmd_explain(struct cmd_line *line)
{
    struct explain e = {.line = line, .utc = cmd_value(line, "utc") != NULL};
    int status;

    e.keyspace = cmd_name(line, line->args[0], "keyspace");
    e.key = cmd_name(line, line->args[1], "key");
    status = store_session_open(line, SESSION_READ, &e.in);
    if (status != 0)
        return status;
    status = list_archive(&e);
    if (status == 0)
        status = explain_count(&e);
    archived_free(&e.list);
    free(e.marks);
    free(e.history.rows);
    store_session_close(&e.in);
    return status;
}
