/* writer/main.c - countd-write: increments from the network into logs. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/config.h"
#include "common/datadir.h"
#include "common/diag.h"
#include "common/loop.h"
#include "common/net.h"
#include "writer/ingest.h"
#include "writer/logs.h"

#define BIND_WAIT_MS 3000 /* for a port that an outgoing connection has */
#define RESERVED_FDS                                                           \
    ((size_t)128) /* descriptors for logs, threads, the rest                   \
                   */

struct writer {
    struct config config;
    struct config_command command;
    struct datadir dir;
    int lock_fd;
    struct loop *loop;
    struct logs logs;
    struct ingest ingest;
    size_t max_connections;
    char ready[INGEST_PORTS][NET_ADDRESS_SIZE + 16];
    size_t ready_count;
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
         "logs=%llu pushed_back=%llu",
         (unsigned long long)i->messages, (unsigned long long)i->bytes,
         (unsigned long long)i->connections, (unsigned long long)i->replies,
         (unsigned long long)i->malformed,
         (unsigned long long)i->partial_disconnects,
         (unsigned long long)l->flushes, (unsigned long long)l->syncs,
         (unsigned long long)l->sealed, (unsigned long long)l->pushed_back);
}

static void
logs_are_ready(void *ctx)
{
    ingest_ready(&((struct writer *)ctx)->ingest);
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
ingest_has_stopped(void *ctx)
{
    logs_finish(&((struct writer *)ctx)->logs);
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
        ingest_stop(&w->ingest, w->config.write_drain_ms);
}

static bool
after_turn(void *ctx)
{
    return ingest_turn(&((struct writer *)ctx)->ingest);
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
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "signals");
    else
        loop_after_turn(w->loop, after_turn, w);
    return rc;
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
    const size_t wanted = (size_t)w->config.write_max_connections;
    struct rlimit limit;

    w->max_connections = wanted;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return; /* accepting pauses when they run out all the same */
    if (limit.rlim_cur < wanted + RESERVED_FDS) {
        limit.rlim_cur = wanted + RESERVED_FDS;
        if (limit.rlim_max < limit.rlim_cur)
            limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0 &&
            getrlimit(RLIMIT_NOFILE, &limit) < 0)
            return; /* as above */
    }
    if (limit.rlim_cur >= wanted + RESERVED_FDS)
        return;
    w->max_connections = limit.rlim_cur > 2 * RESERVED_FDS
                             ? (size_t)limit.rlim_cur - RESERVED_FDS
                             : (size_t)limit.rlim_cur / 2;
    if (w->max_connections == 0)
        w->max_connections = 1;
    diag(DIAG_WARNING,
         "only %zu of write.max_connections=%zu: the limit of open files is "
         "%llu; raise it (ulimit -n, LimitNOFILE=) to %zu",
         w->max_connections, wanted, (unsigned long long)limit.rlim_cur,
         wanted + RESERVED_FDS);
}

/* Listens on one address and adds its line for --ready-fd. */
static int
listen_on(struct writer *w, enum ingest_port port, const char *key,
          const char *text, const char *name)
{
    struct net_address address, bound;
    char where[NET_ADDRESS_SIZE];
    int fd, rc;

    if (text[0] == '\0')
        return 0;
    rc = net_parse(text, &address);
    if (rc < 0) {
        diag(DIAG_ERROR, "%s=%s is not an address and a port", key, text);
        return rc;
    }
    if (!net_is_loopback(&address))
        diag(DIAG_WARNING,
             "%s=%s can be reached from other machines, and there is no "
             "authentication",
             key, text);
    fd = net_listen(&address, BIND_WAIT_MS, &bound);
    if (fd == -EADDRINUSE)
        diag(DIAG_ERROR,
             "%s=%s is in use by another process: stop it, or set %s to a "
             "free port",
             key, text, key);
    else if (fd < 0)
        diag_errno(DIAG_ERROR, fd, "listen %s=%s", key, text);
    if (fd < 0)
        return fd;
    rc = ingest_listen(&w->ingest, port, fd);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "listen %s=%s", key, text);
        (void)close(fd); /* nobody was accepted */
        return rc;
    }
    net_format(&bound, where);
    snprintf(w->ready[w->ready_count++], sizeof w->ready[0], "%s=%s", name,
             where);
    return 0;
}

static int
listen_all(struct writer *w)
{
    const struct config *c = &w->config;
    int rc;

    if (c->write_listen[0] == '\0' && c->write_ack_listen[0] == '\0') {
        diag(DIAG_ERROR, "write.listen and write.ack_listen are both empty: "
                         "there is nothing to do");
        return -EINVAL;
    }
    rc = listen_on(w, INGEST_SILENT, "write.listen", c->write_listen, "silent");
    if (rc == 0)
        rc = listen_on(w, INGEST_ACK, "write.ack_listen", c->write_ack_listen,
                       "ack");
    return rc;
}

static void
tell_ready(const struct writer *w)
{
    const char *lines[INGEST_PORTS];
    size_t i;

    for (i = 0; i < w->ready_count; i++)
        lines[i] = w->ready[i];
    config_ready(w->command.ready_fd, lines, w->ready_count);
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
    rc = ingest_init(&w->ingest, w->loop, &w->logs, w->max_connections,
                     ingest_has_stopped, w);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "memory for %zu connections",
                   w->max_connections);
        goto close_logs;
    }
    rc = listen_all(w);
    if (rc < 0)
        goto fini_ingest;
    tell_ready(w);
    rc = loop_run(w->loop);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "event loop");
    if (w->failed)
        rc = -EIO;
    print_figures(w);

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
    static struct writer w = {.lock_fd = -1};
    int status, rc;

    diag_init("countd-write", DIAG_INFO);
    status =
        config_daemon(&w.config, &w.command, argc, argv, "countd-write",
                      "takes increments from clients and fills commit logs");
    if (status >= 0)
        return status;
    rc = datadir_open(&w.dir, w.config.data_dir, DATADIR_WRITE);
    if (rc < 0)
        return datadir_exit_status(rc, DATADIR_WRITE);
    rc = lock_directory(&w);
    if (rc < 0)
        goto close_dir;
    limit_connections(&w);
    rc = open_loop(&w);
    if (rc == 0)
        rc = serve(&w);
    loop_free(w.loop);
    (void)close(w.lock_fd); /* gives up the lock; nothing was written */

close_dir:
    datadir_close(&w.dir);
    return exit_status(rc);
}
