/* common/client/cmd/status.c - countd status: once, for people and scripts. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/overview.h"

static const struct table_column columns[] = {
    {"process", "process", false}, {"pid", "pid", true},
    {"alive", "alive", false},     {"figure", "figure", false},
    {"value", "value", true},
};

static void
say_trouble(void *ctx, const char *text)
{
    (void)ctx; /* needs none */
    (void)printf("! %s\n", text);
}

static void
count_trouble(void *ctx, const char *text)
{
    (void)ctx;  /* overview_troubles() counts */
    (void)text; /* the facts say it */
}

/* Every figure of a row, under its name. */
static void
print_row(struct output *out, const struct overview_row *r)
{
    const bool listener = r->kind == STATUS_LISTENER;
    char name[32] = "port ";

    if (listener)
        overview_port_name(r, name + 5);
    for (size_t i = listener ? (size_t)STATUS_L_OPEN : STATUS_STARTED_MS;
         status_name(r->kind, i); i++)
        output_row(out,
                   (const struct cell[]){
                       cell_text(listener ? name : status_kind_name(r->kind)),
                       cell_number(r->pid < 0 ? -r->pid : r->pid),
                       cell_bool(r->pid > 0),
                       cell_text(status_name(r->kind, i)),
                       cell_number(r->values[i]),
                   });
}

static int
print_machine(struct output *out, const struct overview *o)
{
    const int troubles = overview_troubles(o, count_trouble, NULL);

    output_fact(out, "writer_alive", cell_bool(o->alive));
    output_fact(out, "troubles", cell_number(troubles));
    output_fact(out, "lag_ms", cell_number(o->lag_ms));
    output_fact(out, "unmerged", cell_number(o->messages));
    output_fact(out, "logs_uncounted", cell_number((int64_t)o->uncounted));
    for (int i = STATUS_LOG_EMPTY; i < STATUS_LOG_STATES; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "logs_%s", status_log_name(i));
        output_fact(out, name, cell_number((int64_t)o->by_state[i]));
    }
    for (size_t i = 0; i < o->count; i++)
        print_row(out, &o->rows[i]);
    output_rows_end(out);
    return troubles;
}

static void
print_statsd(const int64_t *v)
{
    (void)printf("statsd  %" PRId64 " datagrams, %" PRId64
                 " dropped by the kernel; %" PRId64 " lines, %" PRId64
                 " malformed, %" PRId64 " ignored\n",
                 v[STATUS_W_STATSD_DATAGRAMS], v[STATUS_W_STATSD_DROPPED],
                 v[STATUS_W_STATSD_LINES], v[STATUS_W_STATSD_BAD],
                 v[STATUS_W_STATSD_IGNORED]);
}

static void
print_daemon(const struct overview *o, const struct overview_row *r)
{
    char age[32];

    output_age((int64_t)o->now_ms - r->values[STATUS_STARTED_MS], age);
    (void)printf("%-7s pid %-7ld %s %s", status_kind_name(r->kind),
                 (long)(r->pid < 0 ? -r->pid : r->pid),
                 r->pid < 0 ? "died, began" : "runs for", age);
    if (r->kind == STATUS_WRITER)
        (void)printf(", %" PRId64 " messages, %" PRId64 " syncs, %" PRId64
                     " logs handed on",
                     r->values[STATUS_W_MESSAGES], r->values[STATUS_W_SYNCS],
                     r->values[STATUS_W_LOGS]);
    else if (r->kind == STATUS_WORKER)
        (void)printf(", %" PRId64 " increments of %" PRId64 " logs merged",
                     r->values[STATUS_M_RECORDS], r->values[STATUS_M_LOGS]);
    else
        (void)printf(", %" PRId64 " requests", r->values[STATUS_R_REQUESTS]);
    (void)putchar('\n');
    if (r->kind == STATUS_WRITER && (r->values[STATUS_W_STATSD_DATAGRAMS] > 0 ||
                                     r->values[STATUS_W_STATSD_LINES] > 0 ||
                                     r->values[STATUS_W_STATSD_DROPPED] > 0))
        print_statsd(r->values);
}

static int
print_people(const struct overview *o)
{
    char lag[32];
    int troubles;

    if (!o->alive)
        (void)printf("the writer is dead: this is what it told last\n");
    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i].kind != STATUS_LISTENER)
            print_daemon(o, &o->rows[i]);
    output_age(o->lag_ms, lag);
    (void)printf(
        "logs    %zu empty, %zu open, %zu full, %zu merging; %s%" PRId64
        " increments not merged, the oldest is %s old\n",
        o->by_state[STATUS_LOG_EMPTY], o->by_state[STATUS_LOG_OPEN],
        o->by_state[STATUS_LOG_FULL], o->by_state[STATUS_LOG_MERGING],
        o->uncounted > 0 ? "at least " : "", o->messages, lag);
    troubles = overview_troubles(o, say_trouble, NULL);
    if (troubles == 0)
        (void)printf("nothing needs an operator\n");
    return troubles;
}

int
cmd_status(struct cmd_line *line)
{
    static struct overview o;
    struct output out;
    int rc, status, troubles;

    status = overview_open(&o, line);
    if (status != 0)
        return status;
    rc = overview_read(&o);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read %s", o.path);
        overview_close(&o);
        return CONFIG_EXIT_SYSTEM;
    }
    output_init(&out, line, columns, sizeof columns / sizeof columns[0]);
    troubles = out.format == OUTPUT_PEOPLE ? print_people(&o)
                                           : print_machine(&out, &o);
    status = output_fini(&out);
    overview_close(&o);
    return status == 0 && troubles > 0 ? CONFIG_EXIT_NEGATIVE : status;
}
