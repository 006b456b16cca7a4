/* common/client/cmd/held.c - countd held: what waits for a keyspace that cannot
 * take it; held drop gives it up; held salvage finds it again in a damaged
 * file.
 *
 * Salvage applies a record as a worker would, under its own marks, and only
 * when they say that it is in no part of its keyspace, or in the same part of
 * all its logs.  It may meet records that were applied and deleted long ago,
 * since it reads any bytes: when all their fills are done they are in, and when
 * a later fill of one of their logs is done nobody can tell (the records of
 * this file no longer held back the later ones once it was set aside).  Those
 * are told and left to the operator.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/store_session.h"
#include "common/client/cmd/wait_merged.h"

/* ---- list -------------------------------------------------------------- */

static const struct output_column columns[] = {
    {"records", "records", true},   {"fills", "fills", true},
    {"bytes", "bytes", true},       {"oldest", "oldest_ms", true},
    {"since", "since_ms", true},    {"why", "why", false},
    {"keyspace", "keyspace", false}};

#define WHY_SIZE 96

struct list {
    const struct config *config;
    struct output out;
    uint64_t now_ms;
    bool any;
};

/* Unix time; for people how long ago that is. */
static struct cell
time_cell(const struct list *l, uint64_t unix_ms, char age[32])
{
    if (l->out.format != OUTPUT_PEOPLE)
        return cell_number((int64_t)unix_ms);
    output_age((int64_t)(l->now_ms - unix_ms), age);
    return cell_text(age);
}

/* Why a keyspace refused, with the settings and their values where it may be
 * one of these. */
static const char *
why_text(const struct config *c, int error, char text[WHY_SIZE])
{
    if (error == 0)
        return "waits behind records that were held before it";
    if (abs(error) != EDQUOT)
        return diag_text(error);
    if (c->keyspace_max_keys == 0)
        (void)snprintf(text, WHY_SIZE, "over keyspace.max=%" PRIu64,
                       c->keyspace_max);
    else
        (void)snprintf(text, WHY_SIZE,
                       "over keyspace.max=%" PRIu64
                       " or keyspace.max_keys=%" PRIu64,
                       c->keyspace_max, c->keyspace_max_keys);
    return text;
}

static int
list_row(void *ctx, const struct held_summary *s)
{
    struct list *l = ctx;
    char oldest[32], since[32], why[WHY_SIZE];

    l->any = true;
    output_row(&l->out, (const struct cell[]){
                            cell_number((int64_t)s->records),
                            cell_number((int64_t)s->fills),
                            cell_number((int64_t)s->bytes),
                            time_cell(l, s->oldest_ms, oldest),
                            time_cell(l, s->since_ms, since),
                            cell_text(why_text(l->config, s->error, why)),
                            cell_name(s->name, s->name_size),
                        });
    return 0;
}

static int
held_list(struct cmd_line *line)
{
    struct list l = {.config = &line->config, .now_ms = clock_unix_ms()};
    struct store_session in;
    struct unmerged kept;
    int rc, status;

    status = store_session_open(line, false, &in);
    if (status != 0)
        return status;
    rc = unmerged_look(in.held);
    if (rc == 0) {
        output_init(&l.out, line, columns, sizeof columns / sizeof columns[0]);
        rc = held_each(in.held, list_row, &l);
        held_snapshot_end(in.held);
        output_rows_end(&l.out);
        status = output_fini(&l.out);
    }
    if (rc == 0)
        rc = unmerged_read(&in.dir, in.held, &kept);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read " HELD_FILE);
        status = CONFIG_EXIT_SYSTEM;
    } else if (status == 0 && (l.any || kept.damaged > 0)) {
        kept.held = kept.logs = 0; /* the rows say it; countd log list */
        unmerged_warn(&kept, "not merged");
        status = CONFIG_EXIT_NEGATIVE;
    }
    store_session_close(&in);
    return status;
}

/* ---- drop -------------------------------------------------------------- */

/* Returns an exit status. */
static int
drop_one(const struct cmd_line *line, struct store_session *in,
         const char *text, struct wait_turn *turn)
{
    struct cmd_name name;
    uint64_t records;
    int rc, status;

    status = cmd_name(line, text, "keyspace", &name);
    if (status != 0)
        return status;
    do
        rc = held_drop(in->held, name.bytes, name.size, &records);
    while (wait_turn(turn, rc, held_holder(in->held)));
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "drop what is held of keyspace %s", text);
        return CONFIG_EXIT_SYSTEM;
    }
    (void)printf("dropped keyspace=%s held=%" PRIu64 "\n", text,
                 records); /* the end of it tells what stdout did not take */
    return records > 0 ? CONFIG_EXIT_OK : CONFIG_EXIT_NEGATIVE;
}

static int
held_drop_named(struct cmd_line *line)
{
    struct wait_turn turn = {0};
    struct cmd_name name;
    uint64_t timeout_ms;
    struct store_session in;
    int status;

    status = cmd_option_ms(line, "timeout", 30000, &timeout_ms);
    for (int i = 1; status == 0 && i < line->arg_count; i++)
        status = cmd_name(line, line->args[i], "keyspace", &name);
    if (status == 0)
        status = store_session_open(line, true, &in);
    if (status != 0)
        return status;
    turn.deadline_ms = clock_ms() + timeout_ms;
    for (int i = 1; i < line->arg_count; i++) {
        const int one = drop_one(line, &in, line->args[i], &turn);

        status = one > status ? one : status;
    }
    store_session_close(&in);
    return fflush(stdout) == 0 ? status : CONFIG_EXIT_SYSTEM;
}

/* ---- salvage ----------------------------------------------------------- */

struct salvage {
    const struct config *config;
    struct store_session in;
    struct wait_turn turn;
    bool dry_run;
    struct store_mark_info *infos;
    size_t room;

    uint64_t merged, already; /* records */
    uint64_t doubtful;        /* nobody can tell whether they are in */
    uint64_t failed;          /* their keyspace refused */
    uint64_t broken;          /* not whole; some were applied and deleted */
};

enum verdict { TAKE, IS_IN, MIXED, PASSED };

static enum verdict
judge(const struct store_mark_info *infos, size_t count)
{
    const struct store_mark_info *first = &infos[0];

    for (size_t i = 0; i < count; i++)
        if (infos[i].state == STORE_MARK_AHEAD ||
            infos[i].state == STORE_MARK_OTHER)
            return PASSED;
    for (size_t i = 1; i < count; i++)
        if (!store_marks_agree(first, &infos[i]))
            return MIXED;
    return count > 0 && first->state == STORE_MARK_DONE ? IS_IN : TAKE;
}

/* A record that is not merged, for the operator. */
static void
tell(const struct held_record *r, const char *why)
{
    char text[NAME_TEXT_SIZE];

    (void)name_escape(r->batch.name, r->batch.name_size,
                      text); /* the NUL ends it */
    diag(DIAG_ERROR, "record %" PRIu64 " of keyspace %s with keys=%zu: %s",
         r->id, text, r->batch.delta_count, why);
}

static int
grow_infos(struct salvage *s, size_t count)
{
    struct store_mark_info *more;

    if (count <= s->room)
        return 0;
    more = realloc(s->infos, count * sizeof *more);
    if (more == NULL)
        return -ENOMEM;
    s->infos = more;
    s->room = count;
    return 0;
}

/* Asks the marks and does what they say; again when a worker was faster. */
static int
take(struct salvage *s, const struct store_batch *b, enum verdict *verdict)
{
    struct store_applied applied = {0};
    int rc, tries = 3;

    do {
        do
            rc = store_marks(s->in.store, b->name, b->name_size, b->marks,
                             b->mark_count, s->infos);
        while (wait_turn(&s->turn, rc, 0));
        if (rc < 0)
            return rc;
        *verdict = judge(s->infos, b->mark_count);
        if (*verdict != TAKE || s->dry_run)
            return 0;
        do
            rc = store_apply(s->in.store, b, &applied);
        while (wait_turn(&s->turn, rc, applied.holder));
    } while ((rc == -ESTALE || rc == -EOVERFLOW) && --tries > 0);
    return rc;
}

static int
found(void *ctx, const struct held_record *r)
{
    struct salvage *s = ctx;
    enum verdict verdict = TAKE;
    char why[WHY_SIZE];
    int rc;

    rc = grow_infos(s, r->batch.mark_count);
    if (rc < 0)
        return rc;
    rc = take(s, &r->batch, &verdict);
    if (rc < 0) {
        s->failed++;
        tell(r, why_text(s->config, rc, why));
        return rc == -ENOSPC ? rc : 0;
    }
    switch (verdict) {
    case TAKE:
        s->merged++;
        break;
    case IS_IN:
        s->already++;
        break;
    case MIXED:
        s->doubtful++;
        tell(r, "only some of its logs are merged, it is not");
        break;
    case PASSED:
        s->doubtful++;
        tell(r, "a later or another fill of its logs is merged, it is not: "
                "nobody can tell whether it is in");
        break;
    }
    return 0;
}

static int
print_result(const struct cmd_line *line, const char *file,
             const struct salvage *s)
{
    struct output out;

    output_init(&out, line, NULL, 0);
    output_fact(&out, "file", cell_name(file, strlen(file)));
    output_fact(&out, "merged", cell_number((int64_t)s->merged));
    output_fact(&out, "already_merged", cell_number((int64_t)s->already));
    output_fact(&out, "doubtful", cell_number((int64_t)s->doubtful));
    output_fact(&out, "failed", cell_number((int64_t)s->failed));
    output_fact(&out, "not_whole", cell_number((int64_t)s->broken));
    output_fact(&out, "dry_run", cell_bool(s->dry_run));
    if (out.format != OUTPUT_JSON) /* output_fini() tells */
        (void)printf("%s: %" PRIu64 " record%s %s, %" PRIu64
                     " merged already, %" PRIu64 " doubtful, %" PRIu64
                     " refused, %" PRIu64 " not whole\n",
                     file, s->merged, output_plural(s->merged),
                     s->dry_run ? "would be merged" : "merged", s->already,
                     s->doubtful, s->failed, s->broken);
    return output_fini(&out);
}

/* With the directory open and the file at `fd`. */
static int
salvage(struct salvage *s, const struct cmd_line *line, const char *file,
        int fd)
{
    char to[NAME_MAX_SIZE];
    int rc, status;

    rc = held_salvage(fd, found, s, &s->broken);
    if (rc == 0 && !s->dry_run && s->doubtful + s->failed == 0) {
        /* "bad-held-N.mdb" becomes "salvaged-held-N.mdb". */
        (void)snprintf(to, sizeof to, "salvaged-%s",
                       file + strlen("bad-")); /* has room */
        if (renameat2(s->in.dir.fd, file, s->in.dir.fd, to, RENAME_NOREPLACE) <
                0 ||
            fsync(s->in.dir.fd) < 0)
            rc = -errno;
    }
    status = print_result(line, file, s);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "salvage %s", file);
        return CONFIG_EXIT_SYSTEM;
    }
    if (s->failed > 0)
        return CONFIG_EXIT_SYSTEM;
    return status == 0 && s->doubtful > 0 ? CONFIG_EXIT_NEGATIVE : status;
}

static int
held_salvage_file(struct cmd_line *line)
{
    struct salvage s = {.config = &line->config,
                        .dry_run = cmd_value(line, "dry-run") != NULL};
    const char *file = line->args[1];
    uint64_t timeout_ms;
    int fd, status;

    if (strncmp(file, UNMERGED_BAD_HELD, strlen(UNMERGED_BAD_HELD)) != 0 ||
        strchr(file, '/') != NULL || strlen(file) > NAME_MAX_SIZE / 2) {
        diag(DIAG_ERROR, "only %sN.mdb in the data directory is salvaged",
             UNMERGED_BAD_HELD);
        return CONFIG_EXIT_USAGE;
    }
    status = cmd_option_ms(line, "timeout", 30000, &timeout_ms);
    if (status == 0)
        status = store_session_open(line, true, &s.in);
    if (status != 0)
        return status;
    s.turn.deadline_ms = clock_ms() + timeout_ms;
    fd = openat(s.in.dir.fd, file,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        status = salvage(&s, line, file, fd);
        (void)close(fd); /* only read */
    } else {
        diag(DIAG_ERROR, "there is no %s to be read: %s", file,
             diag_text(errno));
        status = CONFIG_EXIT_NEGATIVE;
    }
    store_session_close(&s.in);
    free(s.infos);
    return status;
}

/* ---- which ------------------------------------------------------------- */

int
cmd_held(struct cmd_line *line)
{
    const char *what = line->arg_count > 0 ? line->args[0] : "";

    if (line->arg_count == 0)
        return held_list(line);
    if (strcmp(what, "drop") == 0 && line->arg_count > 1)
        return held_drop_named(line);
    if (strcmp(what, "salvage") == 0 && line->arg_count == 2)
        return held_salvage_file(line);
    diag(DIAG_ERROR, "usage: countd held [options] %s; see countd held -h",
         line->cmd->arguments);
    return CONFIG_EXIT_USAGE;
}
