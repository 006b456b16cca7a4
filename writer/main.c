/* writer/main.c - countd-write: increments from the network into logs, and
 * live counters and semaphores. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/net/loop.h"
#include "common/net/net.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/setup/privilege.h"
#include "writer/ingest.h"
#include "writer/limits.h"
#include "writer/lives.h"
#include "writer/logs.h"

#define BIND_WAIT_MS 3000 /* for a port that an outgoing connection has */
#define PORTS        (INGEST_PORTS + LIVES_KINDS) /* in this order */
#define PATIENCE_MS                                                            \
    1000 /* and write.drain: a stop waits for room in the logs */

/* A port, from the time that it is bound until somebody serves it. */
struct port {
    int fd;          /* -1: off, or handed over */
    const char *key; /* of the setting */
};

struct writer {
    struct config config;
    struct config_command command;
    struct datadir dir;
    int lock_fd;
    struct port ports[PORTS];
    struct loop *loop;
    struct logs logs;
    struct ingest ingest;
    size_t max_connections;
    struct lives lives;
    size_t live_connections[LIVES_KINDS];
    char ready[PORTS][NET_ADDRESS_SIZE + 16];
    size_t ready_count;
    bool asked_to_stop;
    bool stopping;
    bool failed;
};

/* ---- events ------------------------------------------------------------ */

static void
print_figures(const struct writer *w)
{
    const struct ingest_figures *i = &w->ingest.figures;
    const struct logs_figures *l = &w->logs.figures;

    diag(DIAG_INFO,
         "messages=%llu bytes=%llu connections=%llu replies=%llu "
         "malformed=%llu partial_disconnects=%llu appends=%llu syncs=%llu "
         "syncs_here=%llu logs=%llu pushed_back=%llu",
         (unsigned long long)i->messages, (unsigned long long)i->bytes,
         (unsigned long long)i->connections, (unsigned long long)i->replies,
         (unsigned long long)i->malformed,
         (unsigned long long)i->partial_disconnects,
         (unsigned long long)l->flushes, (unsigned long long)l->syncs,
         (unsigned long long)l->syncs_here, (unsigned long long)l->sealed,
         (unsigned long long)l->pushed_back);
    lives_print(&w->lives);
}

static void
logs_are_ready(void *ctx)
{
    struct writer *w = ctx;

    ingest_ready(&w->ingest);
    lives_ready(&w->lives);
}

static void
logs_are_synced(void *ctx)
{
    ingest_synced(&((struct writer *)ctx)->ingest);
}

static void
logs_are_finished(void *ctx)
{
    loop_stop(((struct writer *)ctx)->loop);
}

static void
logs_have_failed(void *ctx)
{
    struct writer *w = ctx;

    w->failed = true;
    loop_stop(w->loop);
}

static void
lives_have_finished(void *ctx)
{
    logs_finish(&((struct writer *)ctx)->logs);
}

static void
ingest_has_stopped(void *ctx)
{
    struct writer *w = ctx;

    lives_finish(&w->lives, w->config.write_drain_ms + PATIENCE_MS,
                 lives_have_finished, w);
}

/* Live connections end at once: what they hold is released, and that is the
 * last thing that history has to tell. */
static void
begin_stop(struct writer *w)
{
    lives_stop(&w->lives);
    ingest_stop(&w->ingest, w->config.write_drain_ms);
}

static void
take_signal(void *ctx, int signo)
{
    struct writer *w = ctx;

    if (signo == SIGUSR2)
        logs_rotate(&w->logs);
    else if (signo == SIGUSR1)
        print_figures(w);
    else
        w->asked_to_stop = true;
}

static bool
after_turn(void *ctx)
{
    struct writer *w = ctx;
    bool more;

    /* Not before the requests of this turn are answered. */
    if (w->asked_to_stop && !w->stopping) {
        w->stopping = true;
        begin_stop(w);
    }
    more = lives_turn(&w->lives);
    /* The last: it writes what all others have put. */
    more |= ingest_turn(&w->ingest, lives_are_idle(&w->lives));
    return more;
}

/* ---- starting ---------------------------------------------------------- */

static int
open_loop(struct writer *w)
{
    const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t mask;
    size_t i;
    int rc;

    w->loop = loop_new();
    if (!w->loop) {
        rc = -errno;
        diag_errno(DIAG_ERROR, rc, "event loop");
        return rc;
    }
    /* These cannot fail: the numbers are valid. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)sigemptyset(&mask);
    for (i = 0; i < sizeof signals / sizeof signals[0]; i++)
        (void)sigaddset(&mask, signals[i]);
    rc = loop_signals(w->loop, &mask, take_signal, w);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "signals");
        loop_free(w->loop);
        return rc;
    }
    loop_after_turn(w->loop, after_turn, w);
    return 0;
}

static int
lock_directory(struct writer *w)
{
    long pid = 0;
    int rc;

    rc = datadir_writer_lock(&w->dir, &w->lock_fd, &pid);
    if (rc == -EBUSY)
        diag(DIAG_ERROR,
             "another countd-write has data_dir=%s pid=%ld: stop it, or use "
             "another data_dir",
             w->config.data_dir, pid);
    else if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "lock data_dir=%s", w->config.data_dir);
    return rc;
}

/* As many connections as there are descriptors for. */
static void
limit_connections(struct writer *w)
{
    struct limit limits[1 + LIVES_KINDS] = {
        {.key = "write.max_connections",
         .wanted = (size_t)w->config.write_max_connections}};
    size_t count = 1;

    for (int kind = 0; kind < LIVES_KINDS; kind++) {
        const struct lives_settings s =
            lives_settings(&w->config, (enum live_kind)kind);

        if (s.enable)
            limits[count++] = (struct limit){
                .key = s.max_key, .wanted = (size_t)s.max_connections};
    }
    limits_take(limits, count);
    w->max_connections = limits[0].got;
    count = 1;
    for (int kind = 0; kind < LIVES_KINDS; kind++)
        if (lives_settings(&w->config, (enum live_kind)kind).enable)
            w->live_connections[kind] = limits[count++].got;
}

/* Listens: the descriptor, and in *bound the address it got. */
static int
listen_at(const char *key, const char *text, struct net_address *bound)
{
    struct net_address address;
    char where[NET_ADDRESS_SIZE];
    int fd, rc;

    rc = net_resolve(text, &address, 1);
    if (rc < 0) {
        diag(DIAG_ERROR, "%s=%s %s", key, text, net_resolve_error(rc));
        return rc == -EADDRNOTAVAIL ? -EINVAL : rc; /* of the setting */
    }
    net_format(&address, where);
    if (strcmp(text, where) != 0)
        diag(DIAG_INFO, "%s=%s is %s", key, text, where);
    if (!net_is_loopback(&address))
        diag(DIAG_WARNING,
             "%s=%s can be reached from other machines, and there is no "
             "authentication",
             key, text);
    fd = net_listen(&address, BIND_WAIT_MS, bound);
    if (fd < 0 && fd != -EADDRINUSE)
        diag_errno(DIAG_ERROR, fd, "listen %s=%s", key, text);
    return fd;
}

/* Keeps the socket and adds the port's line for --ready-fd. */
static void
keep_port(struct writer *w, size_t index, int fd, const char *key,
          const char *name, const struct net_address *bound)
{
    char where[NET_ADDRESS_SIZE];

    w->ports[index] = (struct port){fd, key};
    net_format(bound, where);
    snprintf(w->ready[w->ready_count++], sizeof w->ready[0], "%s=%s", name,
             where);
}

/* Listens for increments. */
static int
bind_ingest(struct writer *w, enum ingest_port port, const char *key,
            const char *text, const char *name)
{
    struct net_address bound;
    int fd;

    if (text[0] == '\0')
        return 0;
    fd = listen_at(key, text, &bound);
    if (fd == -EADDRINUSE)
        diag(DIAG_ERROR,
             "%s=%s is in use by another process: stop it, or set %s to a "
             "free port",
             key, text, key);
    if (fd < 0)
        return fd;
    keep_port(w, (size_t)port, fd, key, name, &bound);
    return 0;
}

/* The same for counters or semaphores. */
static int
bind_live(struct writer *w, enum live_kind kind)
{
    const struct lives_settings s = lives_settings(&w->config, kind);
    char text[CONFIG_TEXT_SIZE + 8];
    struct net_address bound;
    int fd;

    if (!s.enable)
        return 0;
    snprintf(text, sizeof text, "%s:%u", w->config.live_address,
             (unsigned)s.port);
    fd = listen_at(s.port_key, text, &bound);
    if (fd == -EADDRINUSE)
        diag(DIAG_ERROR,
             "%s: %s is in use by another process: stop it, set %s to a free "
             "port, or %s to false",
             s.port_key, text, s.port_key, s.enable_key);
    if (fd < 0)
        return fd;
    keep_port(w, INGEST_PORTS + (size_t)kind, fd, s.port_key, s.name, &bound);
    return 0;
}

/* Listens before there are threads, each of which would keep the right to
 * bind.  Who connects now is accepted when all is open. */
static int
bind_ports(struct writer *w)
{
    const struct config *c = &w->config;
    int rc;

    if (c->write_listen[0] == '\0' && c->write_ack_listen[0] == '\0' &&
        !c->counter_enable && !c->semaphore_enable) {
        diag(DIAG_ERROR, "write.listen and write.ack_listen are empty, "
                         "counter.enable and semaphore.enable are false: "
                         "there is nothing to do");
        return -EINVAL;
    }
    rc = bind_ingest(w, INGEST_SILENT, "write.listen", c->write_listen,
                     "silent");
    if (rc == 0)
        rc = bind_ingest(w, INGEST_ACK, "write.ack_listen", c->write_ack_listen,
                         "ack");
    if (rc == 0)
        rc = bind_live(w, LIVE_COUNTER);
    if (rc == 0)
        rc = bind_live(w, LIVE_SEMAPHORE);
    return rc < 0 ? rc : privilege_drop();
}

static void
close_ports(struct writer *w)
{
    for (size_t i = 0; i < PORTS; i++) {
        if (w->ports[i].fd >= 0)
            (void)close(w->ports[i].fd); /* nobody was accepted */
        w->ports[i].fd = -1;
    }
}

/* Gives the sockets to those who serve them. */
static int
serve_ports(struct writer *w)
{
    for (size_t i = 0; i < PORTS; i++) {
        struct port *p = &w->ports[i];
        int rc;

        if (p->fd < 0)
            continue;
        rc = i < INGEST_PORTS
                 ? ingest_listen(&w->ingest, (enum ingest_port)i, p->fd)
                 : lives_listen(&w->lives, (enum live_kind)(i - INGEST_PORTS),
                                p->fd);
        if (rc < 0) {
            diag_errno(DIAG_ERROR, rc, "listen %s", p->key);
            return rc;
        }
        p->fd = -1;
    }
    return 0;
}

static void
tell_ready(const struct writer *w)
{
    const char *lines[PORTS];
    size_t i;

    for (i = 0; i < w->ready_count; i++)
        lines[i] = w->ready[i];
    config_ready(w->command.ready_fd, lines, w->ready_count);
}

static int
open_ingest(struct writer *w)
{
    const int rc = ingest_init(&w->ingest, w->loop, &w->logs,
                               w->max_connections, ingest_has_stopped, w);

    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "memory for %zu connections",
                   w->max_connections);
    return rc;
}

static int
serve(struct writer *w)
{
    const struct logs_events events = {w, logs_are_ready, logs_are_synced,
                                       logs_are_finished, logs_have_failed};
    int rc;

    rc = logs_open(&w->logs, w->loop, &w->dir, &w->config, &events);
    if (rc < 0)
        return rc;
    rc = open_ingest(w);
    if (rc < 0)
        goto close_logs;
    rc = lives_open(&w->lives, w->loop, &w->logs, &w->config,
                    w->live_connections);
    if (rc < 0)
        goto fini_ingest;
    rc = serve_ports(w);
    if (rc < 0)
        goto close_lives;
    tell_ready(w);
    rc = loop_run(w->loop);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "event loop");
    if (w->failed)
        rc = -EIO;
    print_figures(w);

close_lives:
    lives_close(&w->lives);
fini_ingest:
    ingest_fini(&w->ingest);
close_logs:
    logs_close(&w->logs);
    return rc;
}

/* Other message sizes, settings that cannot work and what this user may not do
 * (a port below 1024) stay so after a restart; all else, another countd-write
 * included, may pass. */
static int
exit_status(int rc)
{
    if (rc == 0)
        return CONFIG_EXIT_OK;
    return rc == -EPROTO || rc == -EINVAL || rc == -EACCES ? CONFIG_EXIT_USAGE
                                                           : CONFIG_EXIT_SYSTEM;
}

int
main(int argc, char **argv)
{
    static struct writer w = {
        .lock_fd = -1,
        .ports = {{.fd = -1}, {.fd = -1}, {.fd = -1}, {.fd = -1}}};
    int status, rc;

    diag_init("countd-write", DIAG_INFO);
    status = config_daemon(
        &w.config, &w.command, argc, argv, "countd-write",
        "takes increments into commit logs; live counters and semaphores");
    if (status >= 0)
        return status;
    status = privilege_become(&w.config, DATADIR_WRITE);
    if (status != 0)
        return status;
    rc = datadir_open(&w.dir, w.config.data_dir, DATADIR_WRITE);
    if (rc < 0)
        return datadir_exit_status(rc, DATADIR_WRITE);
    /* Signals wait from here on: who sees the lock may send one. */
    rc = open_loop(&w);
    if (rc < 0)
        goto close_dir;
    rc = lock_directory(&w);
    if (rc < 0)
        goto free_loop;
    limit_connections(&w);
    rc = bind_ports(&w);
    if (rc == 0)
        rc = serve(&w);
    close_ports(&w);
    (void)close(w.lock_fd); /* gives up the lock; nothing was written */

free_loop:
    loop_free(w.loop);

close_dir:
    datadir_close(&w.dir);
    return exit_status(rc);
}
