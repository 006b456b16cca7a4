/* common/client/cmd/salvage.c - countd log salvage: merges what is valid in a
 * quarantined log, on the operator's word.
 *
 * The records go in through store_apply() under the log's own mark, as a
 * worker would have done it: what a worker had merged before the damage was
 * found is not merged again, and salvaging twice changes nothing.  Damaged
 * slots are lost; how many is said.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/client/cmd/inside.h"
#include "common/client/cmd/logfile.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/wait.h"
#include "common/log/inspect.h"
#include "common/log/slot.h"

/* One valid slot, its names kept in `bytes` of the salvage. */
struct record {
    size_t keyspace_at;
    uint16_t keyspace_size;
    uint16_t key_size; /* the key follows the keyspace */
    uint32_t minute;
    int64_t increment;
};

struct salvage {
    const struct cmd_line *line;
    const char *name;
    struct inside in;
    struct log_report report;
    struct store_mark mark;
    bool dry_run;

    struct record *records;
    size_t count, capacity;
    uint8_t *bytes;
    size_t bytes_size, bytes_capacity;
    struct store_delta *deltas; /* of one keyspace; room for all records */

    uint64_t merged;  /* records */
    uint64_t already; /* of keyspaces that had all of the log */
    uint64_t failed;  /* keyspaces that refused */
};

/* The sort has no argument for it. */
static const uint8_t *sort_bytes;

__extension__ typedef __int128 int128;

/* ---- reading the log --------------------------------------------------- */

static int
grow(void **at, size_t *capacity, size_t need, size_t item_size)
{
    size_t larger = *capacity ? *capacity : 1024;
    void *moved;

    if (need <= *capacity)
        return 0;
    while (larger < need)
        larger *= 2;
    moved = realloc(*at, larger * item_size);
    if (moved == NULL)
        return -ENOMEM;
    *at = moved;
    *capacity = larger;
    return 0;
}

static int
keep_slot(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    struct salvage *s = ctx;
    const size_t names = (size_t)m->keyspace_size + m->key_size;
    void *records = s->records;
    void *bytes = s->bytes;
    int rc;

    (void)number; /* records of one log have no order */
    if (m->increment == 0)
        return 0; /* it changes nothing and makes no key */
    rc = grow(&records, &s->capacity, s->count + 1, sizeof *s->records);
    s->records = records;
    if (rc == 0)
        rc = grow(&bytes, &s->bytes_capacity, s->bytes_size + names, 1);
    s->bytes = bytes;
    if (rc < 0)
        return rc;
    s->records[s->count++] = (struct record){
        .keyspace_at = s->bytes_size,
        .keyspace_size = m->keyspace_size,
        .key_size = m->key_size,
        .minute = (uint32_t)(stamp->received_ms / 60000),
        .increment = m->increment,
    };
    memcpy(s->bytes + s->bytes_size, m->keyspace, m->keyspace_size);
    memcpy(s->bytes + s->bytes_size + m->keyspace_size, m->key, m->key_size);
    s->bytes_size += names;
    return 0;
}

static int
read_log(struct salvage *s)
{
    uint32_t skipped;
    int fd, rc;

    fd = logfile_open(s->in.dir.log_fd, s->name);
    if (fd < 0)
        return fd;
    rc = log_inspect(fd, UINT64_MAX, &s->report);
    if (rc == 0 && s->report.headers_rc == 0)
        rc = logfile_each(fd, &s->report.header, s->report.end, keep_slot, s,
                          &skipped);
    (void)close(fd); /* only read */
    return rc;
}

/* ---- summing ----------------------------------------------------------- */

static int
compare_names(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    const int c = memcmp(a, b, a_size < b_size ? a_size : b_size);

    if (c != 0)
        return c;
    return a_size < b_size ? -1 : a_size > b_size;
}

static int
compare_keyspaces(const struct record *x, const struct record *y)
{
    return compare_names(sort_bytes + x->keyspace_at, x->keyspace_size,
                         sort_bytes + y->keyspace_at, y->keyspace_size);
}

static int
compare_keys(const struct record *x, const struct record *y)
{
    return compare_names(
        sort_bytes + x->keyspace_at + x->keyspace_size, x->key_size,
        sort_bytes + y->keyspace_at + y->keyspace_size, y->key_size);
}

static int
compare_records(const void *a, const void *b)
{
    const struct record *x = a;
    const struct record *y = b;
    int c = compare_keyspaces(x, y);

    if (c == 0)
        c = compare_keys(x, y);
    if (c == 0)
        c = x->minute < y->minute ? -1 : x->minute > y->minute;
    return c;
}

/* Sums records [from, to) of one keyspace; returns the number of deltas. */
static size_t
sum_records(struct salvage *s, size_t from, size_t to)
{
    size_t count = 0;

    for (size_t i = from; i < to;) {
        const struct record *r = &s->records[i];
        const uint8_t *key = s->bytes + r->keyspace_at + r->keyspace_size;
        int128 sum = 0;
        size_t next = i;

        for (; next < to && compare_records(r, &s->records[next]) == 0; next++)
            sum += s->records[next].increment;
        i = next;
        s->deltas[count++] = (struct store_delta){
            .key = key,
            .key_size = r->key_size,
            .minute = r->minute,
            .sum_high = (int64_t)(sum >> 64),
            .sum_low = (uint64_t)sum,
        };
    }
    return count;
}

/* ---- applying ---------------------------------------------------------- */

static void
refuse(struct salvage *s, const char *name, int rc)
{
    s->failed++;
    if (rc == -ERANGE)
        diag(DIAG_ERROR,
             "keyspace %s has a later or another fill of this log: "
             "was the directory restored? nothing merged into it",
             name);
    else
        diag_errno(DIAG_ERROR, rc, "keyspace %s cannot take its records", name);
}

/* Merges records [from, to), all of one keyspace. */
static void
apply_keyspace(struct salvage *s, size_t from, size_t to)
{
    const struct record *r = &s->records[from];
    const uint8_t *name = s->bytes + r->keyspace_at;
    struct store_batch batch = {.name = name,
                                .name_size = r->keyspace_size,
                                .marks = &s->mark,
                                .mark_count = 1,
                                .deltas = s->deltas};
    char text[NAME_TEXT_SIZE];
    struct store_applied applied;
    struct store_mark_info info;
    int tries = 3; /* another process may merge in between */
    int rc;

    (void)name_escape(name, r->keyspace_size, text); /* the NUL ends it */
    do {
        rc = store_marks(s->in.store, name, r->keyspace_size, &s->mark, 1,
                         &info);
        /* Of another fill nobody can tell here whether it came before this
         * one or behind it. */
        if (rc == 0 &&
            (info.state == STORE_MARK_AHEAD || info.state == STORE_MARK_OTHER))
            rc = -ERANGE;
        if (rc < 0)
            break;
        if (info.state == STORE_MARK_DONE) {
            s->already += to - from;
            return;
        }
        batch.delta_count = sum_records(s, from, to);
        if (!s->dry_run)
            rc = store_apply(s->in.store, &batch, &applied);
    } while (rc == -ESTALE && --tries > 0);

    if (rc < 0)
        refuse(s, text, rc);
    else
        s->merged += to - from;
}

static int
apply_all(struct salvage *s)
{
    if (s->count == 0)
        return 0;
    s->deltas = malloc(s->count * sizeof *s->deltas);
    if (s->deltas == NULL)
        return -ENOMEM;
    sort_bytes = s->bytes;
    qsort(s->records, s->count, sizeof *s->records, compare_records);
    for (size_t from = 0; from < s->count;) {
        size_t to = from + 1;

        while (to < s->count &&
               compare_keyspaces(&s->records[from], &s->records[to]) == 0)
            to++;
        apply_keyspace(s, from, to);
        from = to;
    }
    return 0;
}

/* What becomes of the file once all of it is in. */
static int
put_away(struct salvage *s)
{
    char to[LOGFILE_NAME_SIZE + 16];
    int rc = 0;

    if (cmd_value(s->line, "keep") != NULL || s->dry_run || s->failed > 0)
        return 0;
    if (cmd_value(s->line, "remove") != NULL) {
        if (unlinkat(s->in.dir.log_fd, s->name, 0) < 0)
            rc = -errno;
    } else {
        /* "bad-N-EPOCH" becomes "salvaged-N-EPOCH". */
        (void)snprintf(to, sizeof to, "salvaged-%s",
                       s->name + strlen("bad-")); /* has room */
        if (renameat2(s->in.dir.log_fd, s->name, s->in.dir.log_fd, to,
                      RENAME_NOREPLACE) < 0)
            rc = -errno;
    }
    if (rc == 0 && fsync(s->in.dir.log_fd) < 0)
        rc = -errno;
    return rc;
}

/* ---- the subcommand ---------------------------------------------------- */

static int
print_result(struct salvage *s)
{
    struct output out;

    output_init(&out, s->line, NULL, 0);
    output_fact(&out, "log", cell_name(s->name, strlen(s->name)));
    output_fact(&out, "merged", cell_number((int64_t)s->merged));
    output_fact(&out, "already_merged", cell_number((int64_t)s->already));
    output_fact(&out, "damaged", cell_number(s->report.damaged));
    output_fact(&out, "keyspaces_failed", cell_number((int64_t)s->failed));
    output_fact(&out, "dry_run", cell_bool(s->dry_run));
    if (out.format != OUTPUT_JSON) /* output_fini() tells */
        (void)printf("%s: %" PRIu64 " increment%s %s, %" PRIu64
                     " merged already, %" PRIu32 " damaged and lost\n",
                     s->name, s->merged, output_plural(s->merged),
                     s->dry_run ? "would be merged" : "merged", s->already,
                     s->report.damaged);
    return output_fini(&out);
}

/* With the directory open. */
static int
run(struct salvage *s)
{
    int rc, status;

    rc = read_log(s);
    if (rc == -ENOENT) {
        diag(DIAG_ERROR, "there is no log %s; countd log list shows them",
             s->name);
        return CONFIG_EXIT_NEGATIVE;
    }
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read %s", s->name);
        return CONFIG_EXIT_SYSTEM;
    }
    if (s->report.headers_rc < 0) {
        diag(DIAG_ERROR,
             "%s: both headers are damaged or newer; without one "
             "no slot can be told from an old one, nothing can be merged",
             s->name);
        return CONFIG_EXIT_NEGATIVE;
    }
    memcpy(s->mark.uuid, s->report.header.uuid, sizeof s->mark.uuid);
    s->mark.epoch = s->report.header.epoch;
    s->mark.first_ms = s->report.header.first_ms;
    rc = apply_all(s);
    if (rc == 0)
        rc = put_away(s);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "salvage %s", s->name);
        return CONFIG_EXIT_SYSTEM;
    }
    status = print_result(s);
    return status == 0 && s->failed > 0 ? CONFIG_EXIT_SYSTEM : status;
}

int
cmd_salvage(struct cmd_line *line, const char *file)
{
    struct salvage s = {
        .line = line,
        .name = file,
        .dry_run = cmd_value(line, "dry-run") != NULL,
    };
    uint64_t index;
    int status;

    if (logfile_parse(file, &index) != LOGFILE_BAD) {
        diag(DIAG_ERROR,
             "%s: only quarantined logs, bad-N-EPOCH, are "
             "salvaged; daemons take care of the others",
             file);
        return CONFIG_EXIT_USAGE;
    }
    if (cmd_value(line, "keep") && cmd_value(line, "remove")) {
        diag(DIAG_ERROR, "give --keep or --remove, not both");
        return CONFIG_EXIT_USAGE;
    }
    status = inside_open(line, true, &s.in);
    if (status != 0)
        return status;
    status = run(&s);
    inside_close(&s.in);
    free(s.deltas);
    free(s.records);
    free(s.bytes);
    return status;
}
