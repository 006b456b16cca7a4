/* common/client/cmd/store.c - countd store: the parts and senders of a store in
 * a Redis Cluster; store move, store accept, store forget.
 *
 * Entry point: cmd_store(), at the end. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd_data.h"
#include "common/client/cmd/cmd_terminal.h"
#include "common/store/cluster/cluster_admin.h"

#define SENDER_DIGITS 16

/* What the words of a command say; checked before the store is opened. */
struct store_words {
    struct cmd_name keyspace;
    int64_t part, parts; /* parts 0: as many as it has */
    uint64_t sender;
};

struct store_list {
    struct output out;
    uint64_t now_ms;
    bool is_bad; /* an operator must act */
};

/* ---- parts ------------------------------------------------------------- */

static const struct table_column part_columns[] = {
    {"rows", "rows", true},
    {"sent", "sent", true},
    {"waiting", "waiting", true},
    {"retained", "retained", true},
    {"state", "state", false},
    {"master", "master", false},
    {"generation", "generation", true},
    {"part", "part", true},
    {"keyspace", "keyspace", false}};

static const char *const state_texts[] = {
    [CLUSTER_PART_GOOD] = "good",     [CLUSTER_PART_MOVING] = "moving",
    [CLUSTER_PART_FULL] = "full",     [CLUSTER_PART_LOST] = "lost",
    [CLUSTER_PART_FOREIGN] = "other", [CLUSTER_PART_SILENT] = "silent",
};

static int
print_part(void *ctx, const struct cluster_part_info *p)
{
    struct store_list *l = ctx;
    const uint64_t waiting = p->have < p->last ? p->last - p->have : 0;
    const bool is_known = p->state != CLUSTER_PART_SILENT;

    l->is_bad = l->is_bad || (p->state != CLUSTER_PART_GOOD &&
                              p->state != CLUSTER_PART_MOVING);
    output_row(&l->out,
               (const struct cell[]){
                   is_known ? cell_number((int64_t)p->rows) : cell_none(),
                   is_known ? cell_number((int64_t)p->have) : cell_none(),
                   is_known ? cell_number((int64_t)waiting) : cell_none(),
                   cell_number((int64_t)p->retained),
                   cell_text(state_texts[p->state]),
                   cell_text(p->node),
                   cell_number(p->generation),
                   cell_number(p->part),
                   cell_name(p->name, p->name_size),
               });
    return 0;
}

static int
list_parts(struct cmd_line *line, const struct store_words *words,
           struct store *s)
{
    static struct store_list l;
    int rc, status;

    (void)words;
    output_init(&l.out, line, OUTPUT_COLUMNS(part_columns));
    rc = cluster_admin_parts(s, print_part, &l);
    output_rows_end(&l.out);
    status = output_fini(&l.out);
    if (rc < 0 && rc != -ENOENT)
        return cmd_failed(rc, "read data/outbox");
    return status == 0 && l.is_bad ? CONFIG_EXIT_NEGATIVE : status;
}

/* ---- senders ----------------------------------------------------------- */

static const struct table_column sender_columns[] = {
    {"as of", "as_of_ms", true},
    {"written", "written_ms", true},
    {"version", "version", false},
    {"this", "this", false},
    {"sender", "sender", false}};

/* Unix time; for people how long ago that is. */
static struct cell
time_cell(const struct store_list *l, uint64_t unix_ms, char age[32])
{
    if (l->out.format != OUTPUT_PEOPLE)
        return cell_number((int64_t)unix_ms);
    output_age((int64_t)(l->now_ms - unix_ms), age);
    return cell_text(age);
}

static int
print_sender(void *ctx, const struct cluster_sender_info *i)
{
    struct store_list *l = ctx;
    char as_of[32], written[32], id[24];

    (void)snprintf(id, sizeof id, "%016" PRIx64, i->id);
    output_row(&l->out, (const struct cell[]){
                            time_cell(l, i->as_of_ms, as_of),
                            time_cell(l, i->written_ms, written),
                            cell_text(i->version),
                            cell_text(i->is_own ? "yes" : "no"),
                            cell_text(id),
                        });
    return 0;
}

static int
list_senders(struct cmd_line *line, const struct store_words *words,
             struct store *s)
{
    static struct store_list l;
    int rc, status;

    (void)words;
    l.now_ms = clock_unix_ms();
    output_init(&l.out, line, OUTPUT_COLUMNS(sender_columns));
    rc = cluster_admin_senders(s, print_sender, &l);
    output_rows_end(&l.out);
    status = output_fini(&l.out);
    return rc < 0 ? cmd_failed(rc, "read the senders") : status;
}

/* ---- changes ----------------------------------------------------------- */

static int
parse_accept(struct cmd_line *line, struct store_words *out)
{
    out->keyspace = cmd_name(line, line->args[1], "keyspace");
    out->part = cmd_number(line, line->args[2], "part", 0, PARTS_MAX - 1);
    return *line->status;
}

static int
accept_loss(struct cmd_line *line, const struct store_words *words,
            struct store *s)
{
    const struct cmd_name *name = &words->keyspace;
    int rc;

    (void)line;
    rc =
        cluster_admin_accept(s, name->bytes, name->size, (uint32_t)words->part);
    if (rc == 0)
        return CONFIG_EXIT_OK;
    if (rc != -ENOENT && rc != -EALREADY && rc != -EPERM && rc != -EAGAIN)
        return cmd_failed(rc, "change the part's mark");
    return cmd_fail(
        CONFIG_EXIT_NEGATIVE, "nothing was changed: %s",
        rc == -ENOENT     ? "this directory never counted into such a part; "
                            "countd store lists them"
        : rc == -EALREADY ? "the part has lost nothing that is not sent again"
        : rc == -EAGAIN
            ? "the part is closed by countd store move or countd backup, or "
              "changed just now; try again"
            : "the part's mark is not of this directory: one of both is an "
              "older copy");
}

static int
parse_forget(struct cmd_line *line, struct store_words *out)
{
    const char *text = line->args[1];

    if (strlen(text) != SENDER_DIGITS ||
        strspn(text, "0123456789abcdefABCDEF") != SENDER_DIGITS)
        return cmd_misuse(line, text,
                          "give the 16 digits that countd store senders shows");
    out->sender = strtoull(text, NULL, 16);
    return 0;
}

static int
forget_sender(struct cmd_line *line, const struct store_words *words,
              struct store *s)
{
    int rc;

    (void)line;
    rc = cluster_admin_forget(s, words->sender);
    if (rc == 0)
        return CONFIG_EXIT_OK;
    if (rc != -ENOENT && rc != -EBUSY)
        return cmd_failed(rc, "remove the sender");
    return cmd_fail(CONFIG_EXIT_NEGATIVE, "nothing was changed: %s",
                    rc == -ENOENT
                        ? "there is no such sender; countd store senders lists "
                          "them"
                        : "that is this directory");
}

/* ---- moving ------------------------------------------------------------ */

static const struct table_column move_columns[] = {
    {"rows", "rows", true},
    {"parts before", "parts_before", true},
    {"parts", "parts", true},
    {"generation", "generation", true},
    {"keyspace", "keyspace", false}};

static bool
show_move(void *ctx, enum cluster_move_step step, uint64_t rows,
          uint64_t of_rows)
{
    struct progress *p = ctx;

    if (step == CLUSTER_MOVE_CLOSED)
        p->total = of_rows;
    if (step != CLUSTER_MOVE_COPYING)
        progress_due(p);
    progress_show(p, rows, rows, "row");
    return true;
}

static int
print_move(struct cmd_line *line, const struct cmd_name *name,
           const struct cluster_move_result *result)
{
    static struct output out;

    output_init(&out, line, OUTPUT_COLUMNS(move_columns));
    output_row(&out, (const struct cell[]){
                         cell_number((int64_t)result->rows),
                         cell_number(result->from.parts),
                         cell_number(result->to.parts),
                         cell_number(result->to.generation),
                         cell_name(name->bytes, name->size),
                     });
    output_rows_end(&out);
    return output_fini(&out);
}

/* Why nothing was changed, if that is known. */
static const char *
explain_refusal(int rc)
{
    switch (rc) {
    case -ENOENT:
        return "there is no such keyspace in the cluster";
    case -EALREADY:
        return "it has as many parts already, and they are there";
    case -EBUSY:
        return "another countd store move works on it";
    case -ENXIO:
        return "is not a master of the cluster";
    case -EADDRNOTAVAIL:
        return "cannot get slots for all parts: too many of those of other "
               "masters have keys";
    case -EHOSTUNREACH:
        return "does not answer";
    default:
        return NULL;
    }
}

static int
report_move(int rc, const char *to, const struct cluster_move_result *result)
{
    const bool is_target =
        rc == -ENXIO || rc == -EADDRNOTAVAIL || rc == -EHOSTUNREACH;
    const char *why = explain_refusal(rc);

    if (rc == -EINVAL)
        diag(DIAG_ERROR,
             "nothing was changed: it has parts=%" PRIu32
             ", and may get a multiple of that, 256 at most",
             result->from.parts);
    else if (why != NULL)
        diag(DIAG_ERROR, "nothing was changed: %s%s%s", is_target ? to : "",
             is_target ? " " : "", why);
    else
        diag(DIAG_ERROR,
             "%s; counting goes on as before the move, or behind it, within "
             "%u s: countd store shows the generation; try again",
             rc == -ESTALE   ? "a part or a slot changed, or a master lost "
                               "something"
             : rc == -EAGAIN ? "replicas do not follow their masters"
                             : strerror(-rc),
             CLUSTER_MOVE_LEASE_MS / 1000);
    return rc == -EINVAL || (why != NULL && rc != -EHOSTUNREACH)
               ? CONFIG_EXIT_NEGATIVE
               : CONFIG_EXIT_SYSTEM;
}

static int
parse_move(struct cmd_line *line, struct store_words *out)
{
    const char *text = cmd_value(line, "parts");

    if (text == NULL && cmd_value(line, "to") == NULL)
        return cmd_misuse(line, "move",
                          "give --parts N, --to HOST:PORT or both");
    out->keyspace = cmd_name(line, line->args[1], "keyspace");
    if (text != NULL)
        out->parts = cmd_number(line, text, "parts", 1, PARTS_MAX);
    return *line->status;
}

static int
move_keyspace(struct cmd_line *line, const struct store_words *words,
              struct store *s)
{
    const struct cmd_name *name = &words->keyspace;
    struct progress progress;
    const struct cluster_move_options options = {
        .parts = (uint32_t)words->parts,
        .to = cmd_value(line, "to"),
        .lease_ms = CLUSTER_MOVE_LEASE_MS,
        .progress = show_move,
        .ctx = &progress};
    struct cluster_move_result result;
    int rc;

    progress_init(&progress, "moving", 0);
    rc = cluster_admin_move(s, name->bytes, name->size, &options, &result);
    progress_clear(&progress);
    return rc < 0 ? report_move(rc, options.to, &result)
                  : print_move(line, name, &result);
}

/* ---- which ------------------------------------------------------------- */

static int
restore_backup(struct cmd_line *line, const struct store_words *words,
               struct store *s)
{
    (void)words;
    return backup_cluster_restore(line->args[1], s);
}

/* `args`: all, with the name.  The first has none. */
static const struct store_command {
    const char *name;
    int args;
    int (*parse)(struct cmd_line *line, struct store_words *out); /* or NULL */
    int (*run)(struct cmd_line *line, const struct store_words *words,
               struct store *s);
} commands[] = {{"", 0, NULL, list_parts},
                {"senders", 1, NULL, list_senders},
                {"move", 2, parse_move, move_keyspace},
                {"accept", 3, parse_accept, accept_loss},
                {"forget", 2, parse_forget, forget_sender},
                {"restore", 2, NULL, restore_backup}};

static const struct store_command *
find_command(const struct cmd_line *line)
{
    const char *name = line->arg_count > 0 ? line->args[0] : "";

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(name, commands[i].name) == 0 &&
            line->arg_count == commands[i].args)
            return &commands[i];
    return NULL;
}

int
cmd_store(struct cmd_line *line)
{
    const struct store_command *command = find_command(line);
    struct store_words words = {.parts = 0};
    struct store_session in;
    int status = 0;

    if (command == NULL)
        return cmd_usage(line);
    if (!line->config.store_cluster && command->args > 0)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "store = lmdb: countd store %s needs store = cluster",
                        command->name);
    if (!line->config.store_cluster)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "store = lmdb: the counters are files of %s; countd "
                        "status and countd check are about these",
                        line->config.data_dir);
    if (command->parse != NULL)
        status = command->parse(line, &words);
    if (status == 0)
        status = store_session_open(line, false, &in);
    if (status != 0)
        return status;
    status = command->run(line, &words, in.store);
    store_session_close(&in);
    return status;
}
