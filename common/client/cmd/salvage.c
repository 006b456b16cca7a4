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
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/client/cmd/log_apply.h"
#include "common/client/cmd/logfile.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/store_session.h"
#include "common/client/cmd/wait_merged.h"
#include "common/log/inspect.h"
#include "common/log/slot.h"

#define WAIT_MS 30000 /* for another process that is writing */

struct salvage {
    const struct cmd_line *line;
    const char *name;
    struct store_session in;
    struct inspect report;
    struct store_fill mark;
    bool dry_run;
    struct log_apply sums;
    struct log_apply_result result;
};

/* ---- reading the log --------------------------------------------------- */

static int
keep_slot(void *ctx, uint32_t number, const struct message *m,
          const struct slot_stamp *stamp)
{
    struct salvage *s = ctx;

    (void)number; /* records of one log have no order */
    return log_apply_add(&s->sums, m, stamp->received_ms);
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
    if (rc == 0 && s->report.headers_rc == 0) {
        memcpy(s->mark.uuid, s->report.header.uuid, sizeof s->mark.uuid);
        s->mark.epoch = s->report.header.epoch;
        s->mark.first_ms = s->report.header.first_ms;
        rc = log_apply_log(&s->sums, &s->mark);
    }
    if (rc == 0 && s->report.headers_rc == 0)
        rc = logfile_each(fd, &s->report.header, s->report.end, keep_slot, s,
                          &skipped);
    (void)close(fd);
    return rc;
}

/* ---- applying ---------------------------------------------------------- */

static void
refused(void *ctx, const uint8_t *name, size_t name_size, int rc)
{
    char text[NAME_TEXT_SIZE];

    (void)ctx; /* nothing of it is needed */
    (void)name_escape(name, name_size, text);
    if (rc == -ERANGE)
        diag(DIAG_ERROR,
             "keyspace %s has a later or another fill of this log: "
             "was the directory restored? nothing merged into it",
             text);
    else
        diag_errno(DIAG_ERROR, rc, "keyspace %s cannot take its records", text);
}

/* If the keyspace has another fill of this epoch, their order is unknown:
 * refuse (-ERANGE). */
static int
apply_all(struct salvage *s)
{
    const struct log_apply_how how = {.held = s->in.held,
                                      .dry_run = s->dry_run,
                                      .wait_ms = WAIT_MS,
                                      .go_on = true,
                                      .refused = refused};

    return log_apply_apply(&s->sums, s->in.store, &how, &s->result);
}

/* Removes or renames the file after all of it is merged. */
static int
remove_salvaged(struct salvage *s)
{
    char to[LOGFILE_NAME_SIZE + 16];
    int rc = 0;

    if (cmd_value(s->line, "keep") != NULL || s->dry_run ||
        s->result.failed > 0)
        return 0;
    if (cmd_value(s->line, "remove") != NULL) {
        if (unlinkat(s->in.dir.log_fd, s->name, 0) < 0)
            rc = -errno;
    } else {
        /* "bad-N-EPOCH" becomes "salvaged-N-EPOCH". */
        (void)snprintf(to, sizeof to, "salvaged-%s", s->name + strlen("bad-"));
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
    output_fact(&out, "merged", cell_number((int64_t)s->result.merged));
    output_fact(&out, "already_merged",
                cell_number((int64_t)s->result.already));
    output_fact(&out, "held", cell_number((int64_t)s->result.held));
    output_fact(&out, "damaged", cell_number(s->report.damaged));
    output_fact(&out, "keyspaces_failed",
                cell_number((int64_t)s->result.failed));
    output_fact(&out, "dry_run", cell_bool(s->dry_run));
    if (out.format != OUTPUT_JSON)
        (void)printf("%s: %" PRIu64 " increment%s %s, %" PRIu64
                     " merged already, %" PRIu32 " damaged and lost",
                     s->name, s->result.merged, output_plural(s->result.merged),
                     s->dry_run ? "would be merged" : "merged",
                     s->result.already, s->report.damaged);
    if (out.format != OUTPUT_JSON && s->result.held > 0)
        (void)printf(", %" PRIu64
                     " held behind what is held for their keyspace",
                     s->result.held);
    if (out.format != OUTPUT_JSON)
        (void)printf("\n");
    return output_fini(&out);
}

/* Salvages one log of the open directory. */
static int
run_salvage(struct salvage *s)
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
             "%s: both headers are damaged or newer; without a "
             "header current and old slots look alike: nothing can be merged",
             s->name);
        return CONFIG_EXIT_NEGATIVE;
    }
    rc = apply_all(s);
    if (rc == 0)
        rc = remove_salvaged(s);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "salvage %s", s->name);
        return CONFIG_EXIT_SYSTEM;
    }
    status = print_result(s);
    return status == 0 && s->result.failed > 0 ? CONFIG_EXIT_SYSTEM : status;
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
    status = store_session_open(line, true, &s.in);
    if (status != 0)
        return status;
    status = run_salvage(&s);
    store_session_close(&s.in);
    log_apply_fini(&s.sums);
    return status;
}
