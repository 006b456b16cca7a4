/* reader/resp/resp_server.c - what operators ask about the server and its
 * clients.
 *
 *     resp_do_client_info()   append_client()
 *     resp_do_client_list() -> step_clients(), answer_clients()
 *     resp_do_help()          names of subcommands
 *     resp_do_info()          append_process(), append_service() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/version.h"
#include "common/setup/figures.h"
#include "common/wire/name.h"

#define CLIENT_LINE_MAX 512

/* A text of INFO or HELP. */
struct info {
    char text[4096];
    size_t size;
};

/* ---- clients ------------------------------------------------------------- */

/* The address of an end of a connection, as Redis writes it. */
static const char *
format_end(int fd, int (*get)(int, struct sockaddr *, socklen_t *),
           char text[NET_ADDRESS_SIZE])
{
    struct net_address a = {.size = sizeof a.sa};

    if (get(fd, (struct sockaddr *)&a.sa, &a.size) < 0)
        return "-"; /* it has gone */
    if (a.sa.ss_family == AF_UNIX)
        return "socket/resp:0";
    net_format(&a, text);
    return text;
}

/* Writes the line of a connection; returns its bytes. */
static size_t
append_client(const struct resp_service *r, struct conn *c,
              char line[CLIENT_LINE_MAX])
{
    const struct resp_state *s = conn_state(c);
    const uint64_t now_ms = loop_now_ms(r->jobs->loop);
    char peer[NET_ADDRESS_SIZE], own[NET_ADDRESS_SIZE];
    int size;

    size = snprintf(
        line, CLIENT_LINE_MAX,
        "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%.*s age=%" PRIu64
        " idle=%" PRIu32 " flags=%s db=0 sub=0 psub=0 multi=%" PRId64
        " qbuf=%" PRIu32 " multi-mem=%" PRIu32 " omem=%" PRIu32
        " cmd=%s user=default redir=-1 resp=%d\n",
        s->id, format_end(c->source.fd, getpeername, peer),
        format_end(c->source.fd, getsockname, own), c->source.fd, s->name_size,
        (const char *)s->name, (now_ms - s->began_ms) / 1000,
        ((uint32_t)now_ms - c->moved_ms) / 1000,
        s->job && s->job->job.state == JOB_WAITS ? "b"
        : s->is_queueing                         ? "x"
                                                 : "N",
        s->is_queueing ? (int64_t)s->queued_count : -1, c->in.size,
        s->queued.size, c->out.size, s->last ? s->last->name : "NULL",
        s->protocol);
    assert(size > 0 && size < CLIENT_LINE_MAX);
    return (size_t)size;
}

enum conn_next
resp_do_client_info(struct resp_call *call)
{
    char line[CLIENT_LINE_MAX];

    return resp_answer_bulk(call, line,
                            append_client(call->service, call->conn, line));
}

static bool
step_clients(struct job *job, uint64_t until_ns)
{
    struct resp_job *j = LOOP_OWNER(job, struct resp_job, job);
    const struct listener *d = job->conn->listener;

    while (j->position < d->row->max) {
        struct conn *c = listener_open_conn(d, (uint32_t)j->position++);

        if (c && j->size + CLIENT_LINE_MAX > RESP_ROWS_BYTES) {
            j->error = -E2BIG;
            return true;
        }
        if (c)
            j->size += append_client(d->row->ctx, c, (char *)j->rows + j->size);
        if (clock_ns() >= until_ns)
            break;
    }
    return j->position == d->row->max;
}

static enum conn_next
answer_clients(struct resp_call *call, struct resp_job *job)
{
    return job->error < 0 ? resp_too_many_rows(call)
                          : resp_answer_bulk(call, job->rows, job->size);
}

enum conn_next
resp_do_client_list(struct resp_call *call)
{
    static const char *const others[] = {"master", "replica", "slave",
                                         "pubsub"};
    const struct resp_arg *type = &call->args[3];
    struct resp_job *job;
    char text[NAME_SHOWN_SIZE];

    if (call->count != 2 &&
        (call->count != 4 || !resp_is_word(&call->args[2], "type")))
        return resp_syntax_error(call);
    if (call->count == 4 && !resp_is_word(type, "normal")) {
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            if (resp_is_word(type, others[i]))
                return resp_answer_bulk(call, "", 0); /* there are none */
        return resp_error(call, "Unknown client type '%s'",
                          name_show(type->at, type->size, text));
    }
    job = resp_job_enter(call, RESP_ROWS_BYTES);
    return job ? resp_job_run(job, step_clients, answer_clients) : call->next;
}

/* ---- CONFIG -------------------------------------------------------------- */

enum conn_next
resp_do_config_get(struct resp_call *call)
{
    static const char *const known[][2] = {{"save", ""}, {"appendonly", "yes"}};
    uint8_t pairs[4 * RESP_NUMBER_SIZE] = "", out[5 * RESP_NUMBER_SIZE];
    size_t found = 0, size = 0, head;

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 2; i < call->count; i++)
            if (resp_is_word(&call->args[i], known[k][0])) {
                size += resp_put_pair(pairs + size, known[k][0], known[k][1]);
                found++;
                break;
            }
    head = resp_put_map(call, out, found);
    memcpy(out + head, pairs, size);
    return resp_answer_bytes(call, out, head + size);
}

/* ---- HELP, INFO ---------------------------------------------------------- */

/* Appends as printf does. */
__attribute__((format(printf, 2, 3))) static void
append(struct info *info, const char *format, ...)
{
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(info->text + info->size, sizeof info->text - info->size,
                     format, args);
    va_end(args);
    assert(size >= 0 && (size_t)size < sizeof info->text - info->size);
    info->size += (size_t)size;
}

/* The names of a command's subcommands. */
enum conn_next
resp_do_help(struct resp_call *call)
{
    const char *name = call->command->name; /* client|help */
    const size_t size = strcspn(name, "|") + 1;
    struct info names = {.size = 0}, all = {.size = 0};
    int count = 1;

    for (const struct resp_command *c = resp_commands; c->name; c++)
        if (strncmp(c->name, name, size) == 0 && c->name[size] != '\0') {
            append(&names, "+%s\r\n", c->name + size);
            count++;
        }
    append(&all, "*%d\r\n+Subcommands; see countd-resp(7):\r\n%s", count,
           names.text);
    return resp_answer(call, all.text);
}

static size_t
count_blocked(const struct resp_call *call)
{
    const struct list_link *waiting = &call->service->jobs->waiting;
    size_t blocked = 0;

    for (struct list_link *l = waiting->next; l != waiting; l = l->next)
        blocked += LOOP_OWNER(l, struct job, link)->conn->listener ==
                   call->conn->listener;
    return blocked;
}

/* Bytes of memory that this process has; 0: unknown. */
static long
used_memory(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char text[64] = "", *resident; /* SIZE RESIDENT ..., in pages */

    if (!file)
        return 0;
    resident = fgets(text, sizeof text, file) ? strchr(text, ' ') : NULL;
    (void)fclose(file);
    return resident ? strtol(resident, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
}

/* Sections about the process. */
static void
append_process(const struct resp_call *call, struct info *info)
{
    const struct listener *d = call->conn->listener;
    const uint64_t up_s =
        (loop_now_ms(call->service->jobs->loop) - call->service->started_ms) /
        1000;
    const long rss = used_memory();
    char own[NET_ADDRESS_SIZE];
    const char *port =
        strrchr(format_end(call->conn->source.fd, getsockname, own), ':');
    struct rusage used = {.ru_maxrss = 0};
    struct utsname os = {.sysname = ""};

    /* Cannot fail: the arguments are good. */
    (void)getrusage(RUSAGE_SELF, &used);
    (void)uname(&os);
    append(info,
           "# Server\r\nredis_version:" RESP_REDIS_VERSION
           "\r\nredis_mode:standalone\r\nos:%s %s %s\r\narch_bits:%zu\r\n"
           "multiplexing_api:epoll\r\nprocess_id:%ld\r\ntcp_port%s\r\n"
           "server_time_usec:%" PRIu64 "\r\nuptime_in_seconds:%" PRIu64
           "\r\nuptime_in_days:%" PRIu64 "\r\ncountd_version:" VERSION "\r\n",
           os.sysname, os.release, os.machine, 8 * sizeof(void *),
           (long)getpid(), port ? port : ":0", clock_unix_ms() * 1000, up_s,
           up_s / 86400);
    append(info,
           "# Clients\r\nconnected_clients:%zu\r\nmaxclients:%zu\r\n"
           "blocked_clients:%zu\r\n",
           d->open, d->row->max, count_blocked(call));
    append(info,
           "# Memory\r\nused_memory:%ld\r\nused_memory_rss:%ld\r\n"
           "used_memory_peak:%ld\r\nmaxmemory:0\r\n"
           "maxmemory_policy:noeviction\r\n",
           rss, rss, used.ru_maxrss * 1024);
    append(info,
           "# CPU\r\nused_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n",
           (long)used.ru_stime.tv_sec, (long)used.ru_stime.tv_usec,
           (long)used.ru_utime.tv_sec, (long)used.ru_utime.tv_usec);
}

/* Sections about what is served. */
static void
append_service(const struct resp_call *call, struct info *info)
{
    struct resp_service *r = call->service;
    const struct listener_stats *d = &call->conn->listener->stats;
    int64_t v[STATUS_FIGURES] = {0};

    resp_service_fill(r, v);
    v[STATUS_R_AS_OF_MS] = as_of_get(r->jobs->as_of, NULL, 0);
    append(info,
           "# Stats\r\ntotal_connections_received:%" PRIu64
           "\r\ntotal_commands_processed:%" PRIu64
           "\r\ntotal_net_input_bytes:%" PRIu64
           "\r\ntotal_net_output_bytes:%" PRIu64
           "\r\nrejected_connections:%" PRIu64
           "\r\nexpired_keys:0\r\nevicted_keys:0\r\n",
           d->accepted, r->commands, d->received, d->sent,
           d->turned_away + d->not_allowed);
    /* Those of the protocol; the others are in countd status. */
    for (int i = STATUS_R_AS_OF_MS; i <= STATUS_R_TRANSACTIONS; i++)
        append(info, "countd_%s:%" PRIi64 "\r\n", figures[i].name, v[i]);
    append(info, "# Persistence\r\nloading:0\r\nasync_loading:0\r\n"
                 "rdb_bgsave_in_progress:0\r\naof_enabled:1\r\n"
                 "aof_rewrite_in_progress:0\r\n"
                 "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
                 "master_repl_offset:0\r\n"
                 "# Cluster\r\ncluster_enabled:0\r\n");
}

/* Whether the arguments name a section, or all. */
static bool
wants_section(const struct resp_call *call, const char *title, size_t size)
{
    for (size_t i = 1; i < call->count; i++)
        if ((call->args[i].size == size &&
             strncasecmp((const char *)call->args[i].at, title, size) == 0) ||
            resp_is_word(&call->args[i], "all") ||
            resp_is_word(&call->args[i], "default") ||
            resp_is_word(&call->args[i], "everything"))
            return true;
    return call->count == 1;
}

/* Sections are parted by an empty line. */
enum conn_next
resp_do_info(struct resp_call *call)
{
    struct info all = {.size = 0}, wanted = {.size = 0};
    const char *next;

    append_process(call, &all);
    append_service(call, &all);
    for (const char *at = all.text; at; at = next) {
        next = strstr(at, "\r\n# ");
        next = next ? next + 2 : NULL;
        if (wants_section(call, at + 2, strcspn(at + 2, "\r")))
            append(&wanted, "%s%.*s", wanted.size > 0 ? "\r\n" : "",
                   (int)(next ? (size_t)(next - at) : strlen(at)), at);
    }
    return resp_answer_bulk(call, wanted.text, wanted.size);
}
