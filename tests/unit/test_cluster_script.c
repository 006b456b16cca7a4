/* tests/unit/test_cluster_script.c - the engine on a Redis Cluster before
 * servers of a few lines, which answer as real ones do while slots move,
 * masters change or replicas are missing: each time exactly what the test says,
 * also every error, replies that are cut at any byte, and none. */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/setup/datadir.h"
#include "common/store/cluster/cluster.h"
#include "common/store/cluster/cluster_key.h"
#include "common/store/cluster/cluster_store.h"
#include "common/store/cluster/functions.h"
#include "tests/lib/capture.h"
#include "tests/lib/daemon.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define SERVERS     2
#define CONNECTIONS 16
#define WORDS       32 /* of a command that are looked at */
#define WAIT_MS     30000

/* A server is the master of all slots, as server `master` says.  It answers a
 * function that is called as `error` says, `times` times, and then well. */
static struct server {
    int listener, port, wake[2];
    struct pollfd fds[2 + CONNECTIONS];
    const char *error, *info;
    unsigned times, asking, reads, applied;
    const char *raw; /* to every GET, cut at `raw_size`; empty: nothing */
    size_t raw_size;
    bool cuts; /* the connection is closed then */
    unsigned gets;
} servers[SERVERS];

static char have[24], digest[8]; /* of the part's last entry */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t thread;
static unsigned master;
static bool stops;

struct command {
    const char *words[WORDS];
    size_t sizes[WORDS], count;
};

static bool
is_word(const struct command *m, size_t at, const char *word)
{
    return at < m->count && m->sizes[at] == strlen(word) &&
           memcmp(m->words[at], word, strlen(word)) == 0;
}

/* Cuts a command from the bytes at *at; false: it is not whole. */
static bool
cut_command(const char **at, struct command *m)
{
    char *end;
    unsigned long words = strtoul(*at + 1, &end, 10);

    m->count = 0;
    if (**at != '*' || *end != '\r')
        return false;
    end += 2;
    for (unsigned long i = 0; i < words; i++) {
        const unsigned long size = strtoul(end + 1, &end, 10);

        if (m->count < WORDS) {
            m->words[m->count] = end + 2;
            m->sizes[m->count++] = size;
        }
        end += 2 + size + 2;
    }
    *at = end;
    return true;
}

/* ---- replies ------------------------------------------------------------- */

static size_t
put_text(char *out, const char *text)
{
    return (size_t)sprintf(out, "$%zu\r\n%s\r\n", strlen(text), text);
}

static size_t
put_map(char *out)
{
    return (size_t)sprintf(out,
                           "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n"
                           "$9\r\n127.0.0.1\r\n:%d\r\n",
                           servers[master].port);
}

/* Number and digest of the last entry. */
static size_t
put_mark(char *out)
{
    size_t size = put_text(out, have);

    size += (size_t)sprintf(out + size, "$8\r\n");
    memcpy(out + size, digest, 8);
    return size + 8 + (size_t)sprintf(out + size + 8, "\r\n");
}

/* An entry: the fourth and fifth word after the keys are its mark. */
static size_t
apply_entry(struct server *s, const struct command *m, char *out)
{
    const size_t at = 3 + strtoul(m->words[2], NULL, 10) + 3;
    size_t size = (size_t)sprintf(out, "*5\r\n:0\r\n");

    assert_true(at + 1 < m->count);
    (void)snprintf(have, sizeof have, "%.*s", (int)m->sizes[at], m->words[at]);
    memcpy(digest, m->words[at + 1], 8);
    s->applied++;
    size += put_mark(out + size);
    return size + (size_t)sprintf(out + size, ":1\r\n:0\r\n");
}

static size_t
call_function(struct server *s, const struct command *m, char *out)
{
    static const char row[] =
        "*5\r\n:1\r\n:1\r\n$8\r\n\0\0\0\0\0\0\0\7\r\n:0\r\n:0\r\n";
    size_t size;

    if (is_word(m, 1, "countd1_revision"))
        return (size_t)sprintf(out, ":999999\r\n");
    if (is_word(m, 1, "countd1_state")) {
        size = (size_t)sprintf(out, "*6\r\n");
        size += put_mark(out + size);
        return size + (size_t)sprintf(out + size, ":0\r\n:0\r\n:0\r\n:0\r\n");
    }
    if (is_word(m, 1, "countd1_place"))
        return (size_t)sprintf(out,
                               "*3\r\n:1\r\n$3\r\n0 1\r\n$13\r\n1700000000000"
                               "\r\n");
    if (s->times > 0) {
        s->times--;
        return (size_t)sprintf(out, "-%s\r\n", s->error);
    }
    if (is_word(m, 1, "countd1_apply"))
        return apply_entry(s, m, out);
    s->reads++;
    assert_true(is_word(m, 1, "countd1_get"));
    memcpy(out, row, sizeof row - 1);
    return sizeof row - 1;
}

static size_t
answer_command(struct server *s, const struct command *m, char *out)
{
    if (is_word(m, 0, "GET")) {
        s->gets++;
        memcpy(out, s->raw, s->raw_size);
        return s->raw_size;
    }
    if (is_word(m, 0, "CLUSTER"))
        return put_map(out);
    if (is_word(m, 0, "FCALL") || is_word(m, 0, "FCALL_RO"))
        return call_function(s, m, out);
    if (is_word(m, 0, "HGET"))
        return put_text(out, "0 1");
    if (is_word(m, 0, "INFO"))
        return put_text(out, s->info);
    if (is_word(m, 0, "CONFIG") || is_word(m, 0, "HVALS"))
        return (size_t)sprintf(out, "*0\r\n");
    s->asking += is_word(m, 0, "ASKING");
    return (size_t)sprintf(out, "+OK\r\n");
}

/* ---- the thread ---------------------------------------------------------- */

static void
serve(struct server *s, struct pollfd *at)
{
    char text[16384], out[16384];
    const char *next = text;
    struct command m;
    size_t size = 0;
    const ssize_t got = recv(at->fd, text, sizeof text - 1, 0);
    bool ends = got <= 0;

    text[ends ? 0 : got] = '\0';
    while (!ends && next < text + got && cut_command(&next, &m)) {
        size += answer_command(s, &m, out + size);
        ends = s->cuts && is_word(&m, 0, "GET");
    }
    (void)send(at->fd, out, size, MSG_NOSIGNAL);
    if (!ends)
        return;
    (void)close(at->fd);
    at->fd = -1;
}

static void
accept_connection(struct server *s)
{
    const int fd = accept(s->listener, NULL, NULL);

    for (size_t i = 1; fd >= 0 && i <= CONNECTIONS; i++)
        if (s->fds[i].fd < 0) {
            s->fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
            return;
        }
}

static void
serve_all(struct server *s)
{
    if (poll(s->fds, 1 + CONNECTIONS, 1) <= 0)
        return;
    (void)pthread_mutex_lock(&mutex);
    if (s->fds[0].revents != 0)
        accept_connection(s);
    for (size_t i = 1; i <= CONNECTIONS; i++)
        if (s->fds[i].fd >= 0 && s->fds[i].revents != 0)
            serve(s, &s->fds[i]);
    (void)pthread_mutex_unlock(&mutex);
}

static void *
run_servers(void *ctx)
{
    bool is_over = false;

    while (!is_over) {
        for (unsigned i = 0; i < SERVERS; i++)
            serve_all(&servers[i]);
        (void)pthread_mutex_lock(&mutex);
        is_over = stops;
        (void)pthread_mutex_unlock(&mutex);
    }
    return ctx;
}

static void
open_server(struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    *s = (struct server){.error = "", .info = "redis_version:7.0.0"};
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(s->listener, 64), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&at, &size),
                     0);
    s->port = ntohs(at.sin_port);
    for (size_t i = 0; i <= CONNECTIONS; i++)
        s->fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    s->fds[0].fd = s->listener;
}

/* ---- the fixture --------------------------------------------------------- */

struct fixture {
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    struct store *s;
};

static int
setup(void **state)
{
    static struct fixture x;
    const struct cluster_store_options options = {
        .config = &x.config, .dir = &x.dir, .writable = true, .sends = true};

    (void)signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < SERVERS; i++)
        open_server(&servers[i]);
    master = 0;
    (void)snprintf(have, sizeof have, "0");
    memset(digest, 0, sizeof digest);
    stops = false;
    assert_int_equal(pthread_create(&thread, NULL, run_servers, NULL), 0);
    config_defaults(&x.config);
    x.config.store_cluster = true;
    (void)snprintf(x.config.store_nodes, sizeof x.config.store_nodes,
                   "127.0.0.1:%d", servers[0].port);
    tmpdir_make_in_memory(&x.tmp);
    assert_rc(datadir_open(&x.dir, x.tmp.path, DATADIR_WRITE), 0);
    assert_rc(cluster_store_open(&x.s, &options), 0);
    *state = &x;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    store_close(x->s);
    datadir_close(&x->dir);
    tmpdir_remove(&x->tmp);
    (void)pthread_mutex_lock(&mutex);
    stops = true;
    (void)pthread_mutex_unlock(&mutex);
    (void)pthread_join(thread, NULL);
    for (unsigned i = 0; i < SERVERS; i++)
        for (size_t j = 0; j <= CONNECTIONS; j++)
            if (servers[i].fds[j].fd >= 0)
                (void)close(servers[i].fds[j].fd);
    return 0;
}

#define CASE(name, x) TEST_IN(name, struct fixture *x, setup, teardown)

/* Lets a server answer its next functions with an error. */
static void
set_error(unsigned server, const char *error, unsigned times)
{
    (void)pthread_mutex_lock(&mutex);
    servers[server].error = error;
    servers[server].times = times;
    (void)pthread_mutex_unlock(&mutex);
}

/* Lets server 0 answer its next function with a redirect of "words". */
static void
redirect(const char *verb)
{
    static char text[64];
    struct cluster_part_keys keys =
        cluster_part_keys((const uint8_t *)"words", 5, 0, 0);

    (void)snprintf(text, sizeof text, "%s %u 127.0.0.1:%d", verb, keys.slot,
                   servers[1].port);
    set_error(0, text, 1);
}

static int
read_count(struct fixture *x)
{
    struct store_row row = {.count = 0};
    const int rc = stored_get(x->s, "words", "the", &row);

    if (rc == 0)
        assert_int_equal(row.count, 7);
    return rc;
}

/* ---- reading ------------------------------------------------------------- */

CASE(reads_of_a_cluster_that_cannot_now_are_to_be_asked_again, x)
{
    static const struct {
        const char *text;
        int error;
    } errors[] = {
        {"TRYAGAIN Multiple keys request during rehashing of slot", -EHOSTDOWN},
        {"CLUSTERDOWN The cluster is down", -EHOSTDOWN},
        {"LOADING Redis is loading the dataset in memory", -EHOSTDOWN},
        {"MASTERDOWN Link with MASTER is down", -EHOSTDOWN},
        {"NOREPLICAS Not enough good replicas to write.", -EHOSTDOWN},
        {"NOAUTH Authentication required.", -EIO},
        {"NOPERM this user has no permissions", -EIO},
        {"WRONGTYPE Operation against a key holding the wrong kind of value",
         -EIO},
        {"ERR unknown command", -EIO},
    };
    char expected[160];

    assert_rc(read_count(x), 0);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        (void)snprintf(expected, sizeof expected, "127.0.0.1:%d: %s",
                       servers[0].port, errors[i].text);
        set_error(0, errors[i].text, 1);
        assert_rc(read_count(x), errors[i].error);
        assert_string_equal(store_trouble(x->s), expected);
        assert_rc(read_count(x), 0);
    }
}

CASE(a_slot_that_has_moved_is_read_where_it_is, x)
{
    assert_rc(read_count(x), 0);
    redirect("MOVED");
    (void)pthread_mutex_lock(&mutex);
    master = 1;
    (void)pthread_mutex_unlock(&mutex);
    assert_rc(read_count(x), 0);
    assert_rc(read_count(x), 0);
    assert_int_equal(servers[0].reads, 1);
    assert_int_equal(servers[1].reads, 2);
    assert_int_equal(servers[1].asking, 0);
}

CASE(a_slot_on_its_way_is_asked_for_once, x)
{
    assert_rc(read_count(x), 0);
    redirect("ASK");
    assert_rc(read_count(x), 0);
    assert_rc(read_count(x), 0);
    assert_int_equal(servers[0].reads, 2);
    assert_int_equal(servers[1].reads, 1);
    assert_int_equal(servers[1].asking, 1);
}

/* ---- sending ------------------------------------------------------------- */

static void
await_sent(struct fixture *x)
{
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();

    while (store_pending(x->s)) {
        assert_true(clock_ms() < end_ms);
        (void)poll(NULL, 0, 2);
    }
}

CASE(an_entry_that_is_refused_is_sent_until_it_is_taken, x)
{
    static const struct {
        const char *text;
        int error;
    } errors[] = {
        {"TRYAGAIN Multiple keys request during rehashing of slot", -EAGAIN},
        {"CLUSTERDOWN The cluster is down", -EAGAIN},
        {"NOREPLICAS Not enough good replicas to write.", -EAGAIN},
        {"READONLY You can't write against a read only replica.", -EAGAIN},
        {"OOM command not allowed when used memory > 'maxmemory'.", -ENOSPC},
    };

    for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) {
        const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();
        struct store_outbox o = {.error = 0};

        set_error(0, errors[i].text, UINT32_MAX);
        assert_rc(stored_add(x->s, "words", NULL, "the", 1), 0);
        while (!store_outbox(x->s, &o) || o.error != errors[i].error) {
            assert_true(clock_ms() < end_ms);
            (void)poll(NULL, 0, 2);
        }
        assert_int_equal(o.waiting, 1);
        assert_int_equal(servers[0].applied, i);
        set_error(0, "", 0);
        await_sent(x);
        assert_int_equal(servers[0].applied, i + 1);
    }
}

/* ---- commands ------------------------------------------------------------ */

/* Runs GET on new connections while server 0 answers it so, and returns its
 * error. */
static int
run_get(const char *reply, size_t size, bool cuts, uint64_t timeout_ms)
{
    char nodes[32];
    const struct cluster_options options = {.nodes = nodes,
                                            .timeout_ms = timeout_ms};
    struct cluster *cluster;
    struct cluster_command m;
    int rc;

    (void)pthread_mutex_lock(&mutex);
    servers[0].raw = reply;
    servers[0].raw_size = size;
    servers[0].cuts = cuts;
    servers[0].gets = 0;
    (void)pthread_mutex_unlock(&mutex);
    (void)snprintf(nodes, sizeof nodes, "127.0.0.1:%d", servers[0].port);
    assert_rc(cluster_open(&cluster, &options), 0);
    cluster_begin(&m, 0, "GET a");
    cluster_run(cluster, &m, 1);
    rc = m.error;
    cluster_end(&m, 1);
    cluster_close(cluster);
    return rc;
}

CASE(each_error_has_its_meaning, x)
{
    static const struct {
        const char *reply;
        int error;
    } cases[] = {
        {"+OK\r\n", 0},
        {":12\r\n", 0},
        {"$-1\r\n", 0},
        {"-ERR no\r\n", -EPROTO},
        {"-\r\n", -EPROTO},
        {"-OOM command not allowed\r\n", -ENOSPC},
        {"-TRYAGAIN Multiple keys\r\n", -EAGAIN},
        {"-CLUSTERDOWN The cluster is down\r\n", -EAGAIN},
        {"-LOADING Redis\r\n", -EAGAIN},
        {"-MASTERDOWN Link\r\n", -EAGAIN},
        {"-NOREPLICAS Not enough\r\n", -EAGAIN},
        {"-READONLY You\r\n", -EAGAIN},
        {"-BUSY Redis is busy running a script\r\n", -EAGAIN},
        {"-MISCONF Redis is configured to save RDB snapshots\r\n", -ENOSPC},
        {"-WRONGPASS invalid username-password pair\r\n", -EACCES},
        {"-WRONGTYPE Operation against a key\r\n", -EPROTO},
        {"-NOSCRIPT No matching script\r\n", -EPROTO},
        {"-CROSSSLOT Keys in request\r\n", -EPROTO},
        {"-OOMX is another word\r\n", -EPROTO},
        {"-NOAUTH Authentication\r\n", -EACCES},
        {"-NOPERM this user\r\n", -EACCES},
        {"-MOVED\r\n", -EPROTO},
        {"-MOVED \r\n", -EPROTO},
        {"-MOVED x\r\n", -EPROTO},
        {"-MOVED 1\r\n", -EPROTO},
        {"-MOVED 99999 127.0.0.1:1\r\n", -EPROTO},
        {"-MOVED 1 127.0.0.1:0\r\n", -EPROTO},
        {"-MOVED 1 127.0.0.1:99999\r\n", -EPROTO},
        {"-MOVED 1 127.0.0.1\r\n", -EPROTO},
        {"-ASK\r\n", -EPROTO},
        {"-ASK 1 :\r\n", -EPROTO},
        {"-ASK 16384 127.0.0.1:1\r\n", -EPROTO},
        {"-ASK 1 127.0.0.1:1\r\n", -EHOSTDOWN},
        {"?\r\n", -EIO},
        {"$x\r\n", -EIO},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int rc =
            run_get(cases[i].reply, strlen(cases[i].reply), false, 2000);

        if (rc != cases[i].error)
            fail_msg("%s: %d, not %d", cases[i].reply, rc, cases[i].error);
    }
}

CASE(redirects_without_an_end_end, x)
{
    char text[64];

    (void)snprintf(text, sizeof text, "-MOVED 0 127.0.0.1:%d\r\n",
                   servers[0].port);
    assert_rc(run_get(text, strlen(text), false, 2000), -EPROTO);
    assert_in_range(servers[0].gets, 2, 9);
    assert_rc(run_get("-ERR Function not found\r\n", 25, false, 2000), -EPROTO);
}

CASE(a_reply_that_is_cut_is_a_broken_connection, x)
{
    static const char reply[] = "*2\r\n$3\r\nabc\r\n*2\r\n:1\r\n$-1\r\n";

    for (size_t size = 1; size < sizeof reply - 1; size++) {
        assert_rc(run_get(reply, size, true, 2000), -EIO);
        assert_int_equal(servers[0].gets, 2);
    }
    assert_rc(run_get(reply, sizeof reply - 1, true, 2000), 0);
}

CASE(silence_is_a_timeout, x)
{
    assert_rc(run_get("", 0, false, 50), -ETIMEDOUT);
    assert_rc(run_get("*2\r\n$3\r\n", 8, false, 50), -ETIMEDOUT);
}

/* ---- versions ------------------------------------------------------------ */

/* Servers that have functions.lua get another text only with a higher REVISION:
 * raise it, then put the new hash here. */
TEST(functions_of_a_revision_are_one_text)
{
    const struct hash_key key = {.k0 = 1};

    assert_int_equal(hash_bytes_wide(&key, (const uint8_t *)functions_text,
                                     strlen(functions_text))
                         .low,
                     0x0a0e5becf4536674);
}

/* What server 0 answers to INFO. */
static void
set_info(const char *info)
{
    (void)pthread_mutex_lock(&mutex);
    servers[0].info = info;
    (void)pthread_mutex_unlock(&mutex);
}

CASE(servers_older_than_functions_are_refused, x)
{
    assert_rc(cluster_store_check(x->s), 0);
    set_info("# Server\r\nredis_version:6.2.14\r\nredis_mode:cluster");
    assert_rc(cluster_store_check(x->s), -EPERM);
    set_info("# Server\r\nredis_version:8.0.1\r\nredis_mode:cluster");
    assert_rc(cluster_store_check(x->s), 0);
}

CASE(a_master_with_too_few_replicas_is_reported, x)
{
    static struct capture c;

    set_info("redis_version:7.0.0\r\nrole:master\r\n"
             "connected_slaves:0\r\n");
    capture_start(&c);
    assert_rc(cluster_store_check(x->s), 0);
    assert_non_null(
        strstr(capture_stop(&c), ": replicas=0, fewer than store.replicas=1"));
    set_info("redis_version:7.0.0\r\nconnected_slaves:1\r\n");
    capture_start(&c);
    assert_rc(cluster_store_check(x->s), 0);
    assert_null(strstr(capture_stop(&c), "store.replicas"));
}
