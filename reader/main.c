/* reader/main.c - countd-read: wiring only. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/bus.h"
#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/net/loop.h"
#include "common/net/net.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/setup/privilege.h"
#include "common/store/lmdb/engine.h"
#include "reader/range.h"

#define FILES_MIN      256 /* fewer are refused */
#define LISTEN_WAIT_MS 5000
#define TEND_MS        1000

struct reader {
    struct config config;
    struct config_command command;
    struct datadir datadir;
    struct layout layout;
    struct store *store;
    struct fresh fresh;
    struct answer answer;
    struct loop *loop;
    struct loop_timer tend;
    struct range range;
    size_t conn_max;
    char ready[NET_ADDRESS_SIZE + 8]; /* read=ADDRESS:PORT; empty: no port */
};

/* Raises the limit of descriptors to what the settings may use, and uses less
 * where it stays too low. */
static int
limit_files(struct reader *r)
{
    int rc;

    r->conn_max = r->config.read_max_connections;
    rc = files_raise(r->conn_max, FILES_MIN);
    if (rc < 0 || r->conn_max <= files_left())
        return rc;
    r->conn_max = files_left();
    diag(DIAG_WARNING, "connections limited to %zu by descriptors=%llu",
         r->conn_max, (unsigned long long)files_limit());
    return 0;
}

/* Those that mean a clean stop. */
static sigset_t
stop_signals(void)
{
    sigset_t mask;

    /* sigset calls fail for bad signal numbers only. */
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGHUP);
    return mask;
}

/* Waits until somebody who writes has made the data directory; false: a signal
 * came first. */
static bool
await_directory(const struct reader *r)
{
    static struct diag_repeat waits;
    const struct timespec second = {.tv_sec = 1};
    const sigset_t mask = stop_signals();

    /* Cannot fail.  One that comes behind this wait is the loop's. */
    (void)sigprocmask(SIG_BLOCK, &mask, NULL);
    while (!datadir_is_made(r->config.data_dir)) {
        diag_repeating(&waits, DIAG_WARNING,
                       "waits for data directory %s to be made (it has no "
                       "keyspace/%%key yet): start countd-write or "
                       "countd-worker on it, or set data_dir",
                       r->config.data_dir);
        if (sigtimedwait(&mask, NULL, &second) > 0)
            return false;
    }
    return true;
}

static int
open_files(struct reader *r)
{
    struct lmdb_options options;
    struct layout found;
    int rc;

    options = (struct lmdb_options){
        .keyspace_fd = r->datadir.keyspace_fd,
        .hash_key = r->datadir.hash_key,
        .keyspace_size = (uint16_t)r->config.keyspace_size,
        .key_size = (uint16_t)r->config.key_size,
        .open_max = files_keyspaces(),
        .keyspace_max = r->config.keyspace_max,
    };
    rc = lmdb_store_open(&r->store, &options);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open keyspaces");
        return rc;
    }
    rc = fresh_init(&r->fresh, r->store, &r->datadir, &r->layout,
                    r->config.log_size);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open logs");
        goto close_store;
    }
    rc = logdir_check_sizes(&r->fresh.logs, &found);
    if (rc == -EPROTO)
        diag(DIAG_ERROR,
             "data/log was written with message.keyspace_size=%u and "
             "message.key_size=%u: set these, or use another data_dir",
             found.keyspace_size, found.key_size);
    else if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "read data/log");
    if (rc < 0)
        goto fini_fresh;
    return 0;

fini_fresh:
    fresh_fini(&r->fresh);
close_store:
    store_close(r->store);
    return rc;
}

static void
on_signal(void *ctx, int signo)
{
    struct reader *r = ctx;

    (void)signo; /* each means a clean stop */
    range_stop(&r->range);
}

static void
on_tend(struct loop_timer *timer)
{
    struct reader *r = LOOP_OWNER(timer, struct reader, tend);
    const struct store_tending once = {.until_ns = 0};

    (void)store_tend(r->store, &once); /* what there is more is soon enough */
    /* Who has a replaced held.mdb open keeps others from the new one. */
    fresh_look(&r->fresh, loop_now_ms(r->loop));
    fresh_end_turn(&r->fresh);
    /* Cannot fail: its place is its own. */
    (void)loop_arm(r->loop, timer, loop_now_ms(r->loop) + TEND_MS);
}

static int
start_loop(struct reader *r)
{
    const sigset_t mask = stop_signals();
    int rc;

    r->loop = loop_new();
    if (!r->loop)
        return -errno;
    rc = loop_signals(r->loop, &mask, on_signal, r);
    if (rc < 0)
        goto free_loop;
    r->tend = (struct loop_timer){.slot = -1, .due = on_tend};
    rc = loop_arm(r->loop, &r->tend, loop_now_ms(r->loop) + TEND_MS);
    if (rc < 0)
        goto free_loop;
    rc = answer_init(&r->answer, r->store, &r->fresh);
    if (rc < 0)
        goto free_loop;
    rc = range_init(&r->range, r->loop, &r->answer, r->conn_max);
    if (rc < 0)
        goto fini_answer;
    return 0;

fini_answer:
    answer_fini(&r->answer);
free_loop:
    loop_free(r->loop);
    return rc;
}

/* The address of read.listen.  -EINVAL: it has none. */
static int
find_address(const struct reader *r, struct net_address *address)
{
    const char *text = r->config.read_listen;
    char where[NET_ADDRESS_SIZE];
    int rc;

    rc = net_resolve(text, address, 1);
    if (rc < 0) {
        diag(DIAG_ERROR, "read.listen=%s %s", text, net_resolve_error(rc));
        return rc == -EADDRNOTAVAIL ? -EINVAL : rc;
    }
    net_format(address, where);
    if (strcmp(text, where) != 0)
        diag(DIAG_INFO, "read.listen=%s is %s", text, where);
    if (!net_is_loopback(address))
        diag(DIAG_WARNING,
             "read.listen=%s can be reached from other machines, and there is "
             "no authentication",
             text);
    return 0;
}

/* Listens, and makes the line that says where. */
static int
start_listening(struct reader *r)
{
    char text[NET_ADDRESS_SIZE];
    struct net_address address, bound;
    int fd, rc;

    if (r->config.read_listen[0] == 0)
        return 0;
    rc = find_address(r, &address);
    if (rc < 0)
        return rc;
    fd = net_listen(&address, LISTEN_WAIT_MS, &bound);
    rc = fd < 0 ? fd : range_listen(&r->range, fd);
    if (rc == -EADDRINUSE)
        diag(DIAG_ERROR,
             "read.listen=%s is in use by another process: stop it, or set "
             "read.listen to a free port",
             r->config.read_listen);
    else if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "listen read.listen=%s",
                   r->config.read_listen);
    if (rc < 0)
        return rc;
    net_format(&bound, text);
    (void)snprintf(r->ready, sizeof r->ready, "read=%s", text); /* it fits */
    return 0;
}

static void
tell_ready(const struct reader *r)
{
    const char *lines[] = {r->ready};
    const size_t count = r->ready[0] != '\0';

    config_ready(r->command.ready_fd, lines, count);
    if (count > 0)
        diag(DIAG_INFO, "serving %s", r->ready);
}

static int
run(struct reader *r)
{
    int rc;

    rc = start_listening(r);
    if (rc == 0)
        rc = privilege_drop();
    if (rc < 0)
        return rc;
    tell_ready(r);
    rc = loop_run(r->loop);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "wait for events");
    return rc;
}

int
main(int argc, char **argv)
{
    static struct reader r;
    int rc;

    rc = config_daemon(&r.config, &r.command, argc, argv, "countd-read",
                       "answers ranges from the merged counters");
    if (rc >= 0)
        return rc;
    bus_init("countd-read");
    rc = layout_init(&r.layout, (unsigned)r.config.keyspace_size,
                     (unsigned)r.config.key_size);
    if (rc < 0)
        return CONFIG_EXIT_USAGE;
    rc = limit_files(&r);
    if (rc < 0)
        return CONFIG_EXIT_SYSTEM;
    rc = privilege_become(&r.config, DATADIR_READ);
    if (rc != 0)
        return rc;
    if (!await_directory(&r))
        return CONFIG_EXIT_OK;
    rc = datadir_open(&r.datadir, r.config.data_dir, DATADIR_READ);
    if (rc < 0)
        return datadir_exit_status(rc, DATADIR_READ);
    rc = open_files(&r);
    if (rc < 0)
        return rc == -EPROTO || rc == -EPROTONOSUPPORT ? CONFIG_EXIT_USAGE
                                                       : CONFIG_EXIT_SYSTEM;
    rc = start_loop(&r);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "start");
        return CONFIG_EXIT_SYSTEM;
    }
    rc = run(&r);
    range_fini(&r.range);
    answer_fini(&r.answer);
    fresh_fini(&r.fresh);
    store_close(r.store);
    datadir_close(&r.datadir);
    loop_free(r.loop);
    if (rc == -EINVAL || rc == -EACCES)
        return CONFIG_EXIT_USAGE; /* no such host; a port below 1024 */
    return rc < 0 ? CONFIG_EXIT_SYSTEM : CONFIG_EXIT_OK;
}
