/* tests/unit/test_quota_service.c - quotas over HTTP in one process, so that
 * the disk can fail under them: what was answered holds, what was refused does
 * not count, and it goes on by itself. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/turns.h"
#include "writer/quota/service.h"

#define PEERS  8
#define LIMIT  1000000
#define HEARD  (1 << 17)
#define CLOSED (-1) /* as a status */

struct peer {
    int fd;
    char heard[HEARD];
    size_t size;
    size_t answers; /* whole ones */
    bool ended;
};

struct rig {
    struct tmpdir dir;
    struct config config;
    struct loop *loop;
    struct conns *conns;
    struct http_site site;
    struct door_row row;
    struct quota_service service;
    struct peer peers[PEERS];
    struct peer *waits;
    size_t want;
    bool (*enough)(struct rig *r);
};

/* ---- peers ------------------------------------------------------- */

/* The status and body of the nth answer; CLOSED: it did not come. */
static int
answer(const struct peer *p, size_t nth, char body[64])
{
    const char *at = p->heard;

    body[0] = '\0';
    for (size_t i = 0;; i++) {
        const char *end = strstr(at, "\r\n\r\n");
        const char *length = strstr(at, "Content-length: ");
        int status, size;

        if (!end || !length || length > end)
            return CLOSED;
        assert_int_equal(sscanf(at, "HTTP/1.%*c %d", &status), 1);
        assert_int_equal(sscanf(length, "Content-length: %d", &size), 1);
        end += 4;
        if ((size_t)(end - p->heard) + (size_t)size > p->size)
            return CLOSED;
        if (i == nth) {
            (void)snprintf(body, 64, "%.*s", size < 63 ? size : 63, end);
            return status;
        }
        at = end + size;
    }
}

static void
hear(struct peer *p)
{
    char body[64];
    ssize_t n;

    if (p->fd < 0 || p->ended)
        return;
    while ((n = read(p->fd, p->heard + p->size, HEARD - 1 - p->size)) > 0)
        p->size += (size_t)n;
    p->ended = n == 0 || (n < 0 && errno != EAGAIN);
    p->heard[p->size] = '\0';
    while (answer(p, p->answers, body) != CLOSED)
        p->answers++;
}

static bool
after_turn(void *ctx)
{
    struct rig *r = ctx;
    bool more;

    more = conn_turn(r->conns);
    more |= quota_turn(&r->service);
    for (size_t i = 0; i < PEERS; i++)
        hear(&r->peers[i]);
    if (r->enough(r))
        loop_stop(r->loop);
    return more || conns_have_work(r->conns);
}

static bool
is_heard(struct rig *r)
{
    return r->waits->answers >= r->want || r->waits->ended;
}

static void
run(struct rig *r, bool (*enough)(struct rig *r))
{
    r->enough = enough;
    turns_run(r->loop);
}

static struct peer *
join(struct rig *r, size_t i)
{
    struct peer *p = &r->peers[i];
    int fds[2];

    if (p->fd >= 0)
        (void)close(p->fd); /* what it heard is not needed any more */
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
        0);
    assert_rc(conns_take(r->conns, 0, fds[0]), 0);
    *p = (struct peer){.fd = fds[1]};
    return p;
}

static void
ask(struct peer *p, const char *method, const char *target, const char *key)
{
    char text[512];
    int size;

    size =
        snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: x\r\n%s%s%s\r\n",
                 method, target, key ? "Idempotency-Key: " : "", key ? key : "",
                 key ? "\r\n" : "");
    assert_true(size < (int)sizeof text);
    assert_int_equal(send(p->fd, text, (size_t)size, MSG_NOSIGNAL), size);
}

/* One request of a fresh connection: its status, or CLOSED. */
static int
once_keyed(struct rig *r, const char *method, const char *target,
           const char *key, char body[64])
{
    struct peer *p = join(r, 0);

    ask(p, method, target, key);
    r->waits = p;
    r->want = 1;
    run(r, is_heard);
    return answer(p, 0, body);
}

static int
once(struct rig *r, const char *target, char body[64])
{
    return once_keyed(r, "POST", target, NULL, body);
}

#define expect(r, target, status, text)                                        \
    do {                                                                       \
        char body_[64];                                                        \
        assert_int_equal(once(r, target, body_), status);                      \
        assert_string_equal(body_, text);                                      \
    } while (0)

#define expect_keyed(r, method, target, key, status, text)                     \
    do {                                                                       \
        char body_[64];                                                        \
        assert_int_equal(once_keyed(r, method, target, key, body_), status);   \
        assert_string_equal(body_, text);                                      \
    } while (0)

/* ---- the rig ----------------------------------------------------- */

static int
try_start(struct rig *r)
{
    const struct conns_options o = {.rows = &r->row,
                                    .count = 1,
                                    .shared = PEERS + 2,
                                    .pool_size = 1 << 20,
                                    .answer_max = quota_answer_max(&r->config)};
    int rc;

    r->loop = loop_new();
    assert_non_null(r->loop);
    loop_after_turn(r->loop, after_turn, r);
    r->site = (struct http_site){.count = 0};
    r->row = (struct door_row){.name = "http",
                               .protocol = &http_protocol,
                               .ctx = &r->site,
                               .max = PEERS + 2};
    assert_rc(conns_init(&r->conns, r->loop, &o), 0);
    for (size_t i = 0; i < PEERS; i++)
        r->peers[i].fd = -1;
    quota_init(&r->service);
    rc = quota_open(&r->service, r->loop, r->dir.fd, &r->config, NULL,
                    PEERS + 2);
    if (rc == 0)
        http_site_add(&r->site, quota_routes, quota_route_count, &r->service);
    return rc;
}

static void
start(struct rig *r)
{
    assert_rc(try_start(r), 0);
}

/* As a kill: what is not durable is gone from memory.  (What a clean stop does
 * more is quota_close()'s mark.) */
static void
stop(struct rig *r)
{
    for (size_t i = 0; i < PEERS; i++)
        if (r->peers[i].fd >= 0)
            assert_int_equal(close(r->peers[i].fd), 0);
    conns_fini(r->conns);
    quota_close(&r->service);
    loop_free(r->loop);
}

static void
restart(struct rig *r)
{
    stop(r);
    start(r);
}

static int
setup(void **state)
{
    static struct rig r;
    char why[256];

    memset(&r, 0, sizeof r);
    tmpdir_make_in_memory(&r.dir);
    config_defaults(&r.config);
    assert_rc(config_set(&r.config, "quota.enable", "on", why, sizeof why), 0);
    r.config.quota_limit = LIMIT;
    *state = &r;
    return 0;
}

static int
teardown(void **state)
{
    struct rig *r = *state;

    fault_clear();
    tmpdir_remove(&r->dir);
    return 0;
}

/* ---- answers ----------------------------------------------------- */

static void
every_path_answers_as_documented(void **state)
{
    static const struct {
        const char *method, *target;
        int status;
        const char *body;
    } cases[] = {
        {"GET", "/query", 200, "1000000\n"},
        {"GET", "/apply?amt=1", 200, "1 999999\n"},
        {"POST", "/apply?amt=2&x=y", 200, "2 999997\n"},
        {"POST", "/apply?amt=0", 200, "3 999997\n"},
        {"POST", "/apply?amt=1000000", 200, "0\n"},
        {"POST", "/apply?amt=", 200, "-1\n"},
        {"POST", "/apply?amt=-1", 200, "-1\n"},
        {"POST", "/apply?amt=+1", 200, "-1\n"},
        {"POST", "/apply?amt=1z", 200, "-1\n"},
        {"POST", "/apply?amt=9223372036854775808", 200, "-1\n"},
        {"POST", "/apply?amt=00000000000000000001", 200, "-1\n"},
        {"POST", "/apply?x=1&amt=1", 404, "Not Found"},
        {"POST", "/apply", 404, "Not Found"},
        {"POST", "/cancel?jnlsno=0", 200, "-1\n"},
        {"POST", "/cancel?jnlsno=9", 200, "0\n"},
        {"POST", "/cancel?jnlsno=2", 200, "4 999999\n"},
        {"POST", "/cancel?jnlsno=2", 200, "0\n"},
        {"POST", "/cancel?jnlsno=4", 200, "0\n"},
        {"POST", "/increase?amt=9223372036854775807", 200, "-1\n"},
        {"POST", "/increase?amt=1", 200, "1000000\n"},
        {"POST", "/decrease?amt=999990", 200, "10\n"},
        {"GET", "/query?x", 404, "Not Found"},
        {"DELETE", "/apply?amt=1", 405, "Method Not Allowed"},
        {"POST", "/decrease?amt=11", 200, "0\n"},
        {"POST", "/apply?amt=0", 200, "0\n"},
        {"POST", "/increase?amt=7", 200, "7\n"},
        {"POST", "/empty", 200, "0\n"},
        {"POST", "/quota/tea?limit=5", 201, "5\n"},
        {"POST", "/quota/tea?limit=5", 409, "Conflict"},
        {"POST", "/quota/tea", 400, "Bad Request"},
        {"POST", "/quota/.tea?limit=5", 400, "Bad Request"},
        {"POST", "/quota/?limit=5", 400, "Bad Request"},
        {"POST", "/quota/cup?limit=-5", 400, "Bad Request"},
        {"GET", "/quota/tea", 405, "Method Not Allowed"},
        {"GET", "/quota/tea/query", 200, "5\n"},
        {"POST", "/quota/tea/apply?amt=3", 200, "1 2\n"},
        {"POST", "/quota/tea/apply?amt=3", 200, "0\n"},
        {"POST", "/quota/tea/apply?amt=x", 200, "-1\n"},
        {"POST", "/quota/tea/apply", 404, "Not Found"},
        {"POST", "/quota/tea/cancel?jnlsno=1", 200, "2 5\n"},
        {"POST", "/quota/tea/increase?amt=5", 200, "10\n"},
        {"POST", "/quota/tea/decrease?amt=1", 200, "9\n"},
        {"DELETE", "/quota/tea/empty", 405, "Method Not Allowed"},
        {"POST", "/quota/tea/brew", 404, "Not Found"},
        {"POST", "/quota/cup/apply?amt=1", 404, "Not Found"},
        {"GET", "/quota/cup/query", 404, "Not Found"},
        {"GET", "/quota", 200, "-\t1000000\t0\ntea\t5\t9\n"},
        {"POST", "/quota/tea/empty", 200, "0\n"},
        {"DELETE", "/quota/tea?limit=5", 404, "Not Found"},
        {"DELETE", "/quota/tea", 200, "0\n"},
        {"DELETE", "/quota/tea", 404, "Not Found"},
        {"GET", "/quota", 200, "-\t1000000\t0\n"},
    };
    struct rig *r = *state;

    start(r);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_keyed(r, cases[i].method, cases[i].target, NULL, cases[i].status,
                     cases[i].body);
    restart(r);
    expect(r, "/query", 200, "0\n");
    expect(r, "/cancel?jnlsno=1", 200, "5 1\n");
    stop(r);
}

static void
there_are_as_many_quotas_as_allowed(void **state)
{
    struct rig *r = *state;

    r->config.quota_max = 1;
    start(r);
    expect(r, "/quota/a?limit=1", 201, "1\n");
    expect(r, "/quota/b?limit=1", 507, "Insufficient Storage");
    expect_keyed(r, "DELETE", "/quota/a", NULL, 200, "1\n");
    expect(r, "/quota/b?limit=1", 201, "1\n");
    stop(r);
}

static void
another_limit_than_that_of_the_journal_is_refused(void **state)
{
    struct rig *r = *state;

    start(r);
    stop(r);
    r->config.quota_limit = LIMIT + 1;
    assert_rc(try_start(r), -EINVAL);
    stop(r);
    r->config.quota_limit = LIMIT;
    start(r);
    stop(r);
}

/* ---- keys -------------------------------------------------------- */

static void
a_key_repeats_the_first_answer(void **state)
{
    struct rig *r = *state;

    start(r);
    for (int i = 0; i < 3; i++) {
        expect_keyed(r, "POST", "/apply?amt=5", "k1", 200, "1 999995\n");
        expect_keyed(r, "GET", "/apply?amt=5", "k1", 200, "1 999995\n");
        expect_keyed(r, "POST", "/apply?amt=6", "k1", 422,
                     "Unprocessable Content");
        expect_keyed(r, "POST", "/increase?amt=5", "k1", 422,
                     "Unprocessable Content");
        expect_keyed(r, "POST", "/cancel?jnlsno=1", "k2", 200, "2 1000000\n");
        expect_keyed(r, "POST", "/apply?amt=5000000", "k3", 200, "0\n");
        expect_keyed(r, "POST", "/increase?amt=5000000", "k4", 200,
                     "6000000\n");
        expect_keyed(r, "POST", "/increase?amt=9223372036854775807", "k5", 200,
                     "-1\n");
        expect_keyed(r, "POST", "/decrease?amt=9000000", "k6", 200, "0\n");
        expect_keyed(r, "POST", "/empty", "k7", 200, "0\n");
        expect_keyed(r, "POST", "/quota/tea?limit=7", "k8", 201, "7\n");
        expect_keyed(r, "POST", "/quota/tea/apply?amt=7", "k9", 200, "1 0\n");
        expect_keyed(r, "POST", "/quota/cup/apply?amt=7", "k9", 422,
                     "Unprocessable Content");
        expect(r, "/query", 200, "0\n");
        restart(r);
    }
    /* What was not tried does not use its key up. */
    expect_keyed(r, "POST", "/apply?amt=x", "k10", 200, "-1\n");
    expect_keyed(r, "POST", "/quota/cup/apply?amt=1", "k10", 404, "Not Found");
    expect_keyed(r, "POST", "/increase?amt=3", "k10", 200, "3\n");
    expect_keyed(r, "DELETE", "/quota/tea", "k11", 200, "0\n");
    expect_keyed(r, "DELETE", "/quota/tea", "k11", 200, "0\n");
    expect_keyed(r, "DELETE", "/quota/tea", "k12", 404, "Not Found");
    stop(r);
}

static void
a_repeat_waits_for_the_first(void **state)
{
    struct rig *r = *state;
    struct peer *a, *b;
    char body[64];

    start(r);
    a = join(r, 1);
    b = join(r, 2);
    ask(a, "POST", "/apply?amt=5", "k");
    ask(b, "POST", "/apply?amt=5", "k");
    r->waits = b;
    r->want = 1;
    run(r, is_heard);
    /* One of them was first; the other one's answer came with it or after. */
    assert_int_equal(answer(a, 0, body), 200);
    assert_string_equal(body, "1 999995\n");
    assert_int_equal(answer(b, 0, body), 200);
    assert_string_equal(body, "1 999995\n");
    expect(r, "/query", 200, "999995\n");
    stop(r);
}

static void
a_bad_key_is_refused(void **state)
{
    struct rig *r = *state;
    char key[QUOTA_KEY_SIZE + 2];

    start(r);
    memset(key, 'k', sizeof key);
    key[QUOTA_KEY_SIZE + 1] = '\0';
    expect_keyed(r, "POST", "/apply?amt=5", key, 400, "Bad Request");
    key[QUOTA_KEY_SIZE] = '\0';
    expect_keyed(r, "POST", "/apply?amt=5", key, 200, "1 999995\n");
    stop(r);
}

/* ---- a failing disk ---------------------------------------------- */

static bool
is_ready(struct rig *r)
{
    return r->service.state == QUOTA_READY;
}

static long
remaining(struct rig *r)
{
    char body[64];

    assert_int_equal(once(r, "/query", body), 200);
    return strtol(body, NULL, 10);
}

/* Asks while the nth call fails; whatever the answer says must hold, then and
 * after a restart.  False: the fault was not met. */
static bool
ask_with_fault(struct rig *r, const char *call, unsigned n, int error,
               bool lasting)
{
    long before, after;
    char body[64];
    bool hit;
    int status;

    start(r);
    before = remaining(r);
    if (lasting)
        fault_inject_from(call, n, error);
    else
        fault_inject(call, n, error);
    status = once(r, "/apply?amt=7", body);
    hit = fault_hit();
    fault_clear();
    run(r, is_ready);
    after = remaining(r);
    if (status == 200)
        assert_int_equal(after, before - 7);
    else if (status == 503)
        assert_int_equal(after, before);
    else
        assert_true(status == CLOSED &&
                    (after == before || after == before - 7));
    assert_int_equal(once(r, "/apply?amt=1", body), 200);
    restart(r);
    assert_int_equal(remaining(r), after - 1);
    stop(r);
    return hit;
}

static void
whatever_call_fails_the_answer_is_true(void **state)
{
    static const char *const calls[] = {"pwrite", "fdatasync", "fsync",
                                        "openat", "pread",     "unlinkat"};
    static const int errors[] = {EIO, ENOSPC};
    struct rig *r = *state;
    unsigned hits = 0;

    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (int e = 0; e < 2; e++)
            for (unsigned n = 1; n < 5; n++)
                hits += ask_with_fault(r, calls[c], n, errors[e], false);
    for (int e = 0; e < 2; e++) {
        hits += ask_with_fault(r, "pwrite", 1, errors[e], true);
        hits += ask_with_fault(r, "fdatasync", 1, errors[e], true);
    }
    assert_true(hits >= 8);
}

/* All that waited behind one sync are refused, and none of it counts. */
static void
a_failed_sync_refuses_all_that_waited(void **state)
{
    struct rig *r = *state;
    char body[64];

    start(r);
    expect(r, "/apply?amt=1", 200, "1 999999\n");
    for (size_t i = 1; i < PEERS; i++) {
        struct peer *p = join(r, i);

        for (int k = 0; k < 10; k++)
            ask(p, "POST", k == 5 ? "/query" : "/apply?amt=1", NULL);
    }
    fault_inject("fdatasync", 1, EIO);
    for (size_t i = 1; i < PEERS; i++) {
        r->waits = &r->peers[i];
        r->want = 1000; /* until the end */
        run(r, is_heard);
        assert_int_equal(answer(r->waits, 0, body), 503);
        assert_int_equal(r->waits->answers, 1);
        assert_true(r->waits->ended);
    }
    fault_clear();
    run(r, is_ready);
    assert_int_equal(r->service.figures.failures, 1);
    expect(r, "/query", 200, "999999\n");
    expect(r, "/apply?amt=1", 200, "2 999998\n");
    restart(r);
    expect(r, "/query", 200, "999998\n");
    stop(r);
}

/* It cannot even be erased: nobody is told anything. */
static void
what_nobody_knows_is_not_answered(void **state)
{
    struct rig *r = *state;
    char body[64];

    start(r);
    expect(r, "/apply?amt=1", 200, "1 999999\n");
    fault_inject_from("fdatasync", 1, EIO);
    assert_int_equal(once(r, "/apply?amt=1", body), CLOSED);
    assert_true(r->peers[0].ended);
    expect(r, "/query", 503, "Service Unavailable");
    expect(r, "/apply?amt=1", 503, "Service Unavailable");
    expect_keyed(r, "GET", "/quota", NULL, 503, "Service Unavailable");
    fault_clear();
    run(r, is_ready);
    expect(r, "/query", 200, "999999\n");
    stop(r);
}

static void
a_key_that_was_refused_for_the_disk_is_free_again(void **state)
{
    struct rig *r = *state;

    start(r);
    fault_inject("fdatasync", 1, EIO);
    expect_keyed(r, "POST", "/apply?amt=5", "k", 503, "Service Unavailable");
    fault_clear();
    run(r, is_ready);
    expect_keyed(r, "POST", "/apply?amt=5", "k", 200, "1 999995\n");
    expect_keyed(r, "POST", "/apply?amt=5", "k", 200, "1 999995\n");
    stop(r);
}

static bool
is_extended(struct rig *r)
{
    return !journal_is_short(&r->service.store->journal);
}

/* A full disk: what is asked is answered, changes are refused, and all goes on
 * when there is room. */
static void
a_full_disk_refuses_changes_only(void **state)
{
    struct rig *r = *state;
    struct journal *j;
    long left = LIMIT;
    char body[64];
    int status = 200;

    start(r);
    /* fsync is of the zeros ahead, fdatasync of the groups. */
    fault_inject_from("fsync", 1, ENOSPC);
    while (status == 200) {
        status = once(r, "/apply?amt=1", body);
        left -= status == 200;
        j = &r->service.store->journal;
        /* Near the end at once: the room is what the file has. */
        if (left == LIMIT - 10)
            j->size = RECORDS_AT + (j->durable + 200) * RECORD_SIZE;
    }
    assert_int_equal(status, 503);
    assert_true(left > LIMIT - 200);
    expect(r, "/query", 200,
           (snprintf(body, sizeof body, "%ld\n", left), body));
    expect(r, "/apply?amt=1", 503, "Service Unavailable");
    expect(r, "/apply?amt=x", 200, "-1\n");
    assert_int_equal(r->service.figures.failures, 0);
    fault_clear();
    run(r, is_extended);
    assert_int_equal(once(r, "/apply?amt=1", body), 200);
    assert_int_equal(remaining(r), left - 1);
    restart(r);
    assert_int_equal(remaining(r), left - 1);
    stop(r);
}

static void
a_damaged_journal_is_not_served(void **state)
{
    struct rig *r = *state;
    uint8_t byte;
    int fd;

    start(r);
    expect(r, "/apply?amt=1", 200, "1 999999\n");
    expect(r, "/apply?amt=1", 200, "2 999998\n");
    stop(r);
    fd = openat(r->dir.fd, JOURNAL_NAME, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, RECORDS_AT + 30), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, RECORDS_AT + 30), 1);
    assert_int_equal(close(fd), 0);
    start(r);
    assert_int_equal(r->service.state, QUOTA_DAMAGED);
    expect(r, "/query", 503, "Service Unavailable");
    expect(r, "/apply?amt=1", 503, "Service Unavailable");
    stop(r);
}

/* A journal that cannot be opened now is tried again. */
static void
a_start_without_a_disk_is_made_up_for(void **state)
{
    struct rig *r = *state;

    fault_inject("openat", 1, EIO);
    start(r);
    fault_clear();
    expect(r, "/query", 503, "Service Unavailable");
    run(r, is_ready);
    expect(r, "/query", 200, "1000000\n");
    stop(r);
}

/* ---- the export -------------------------------------------------- */

static size_t
load(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    text[0] = '\0';
    if (fd < 0)
        return 0;
    n = pread(fd, text, size - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    assert_int_equal(close(fd), 0);
    return (size_t)n;
}

static bool
is_exported_once(struct rig *r)
{
    return r->service.export.written >= 1;
}

static bool
is_exported_twice(struct rig *r)
{
    return r->service.export.written >= 2;
}

static void
what_was_applied_is_exported_when_it_runs_out(void **state)
{
    struct rig *r = *state;
    char path[600], text[256];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/export", r->dir.path); /* fits */
    (void)snprintf(r->config.quota_export, sizeof r->config.quota_export, "%s",
                   path); /* fits */
    tmpdir_put(&r->dir, "export", "of before\n", 10, 0600);
    start(r);
    expect(r, "/apply?amt=1", 200, "1 999999\n");
    expect(r, "/apply?amt=2", 200, "2 999997\n");
    expect(r, "/cancel?jnlsno=1", 200, "3 999998\n");
    (void)load(path, text, sizeof text);
    assert_string_equal(text, "of before\n");
    expect(r, "/apply?amt=999998", 200, "4 0\n");
    run(r, is_exported_once);
    (void)load(path, text, sizeof text);
    assert_string_equal(text, "1 1 3\n2 2\n4 999998\n");
    /* The next one comes a second later, and tells of all until then. */
    expect(r, "/cancel?jnlsno=2", 200, "5 2\n");
    expect(r, "/empty", 200, "0\n");
    expect(r, "/cancel?jnlsno=4", 200, "6 999998\n");
    expect(r, "/empty", 200, "0\n");
    assert_int_equal(r->service.export.written, 1);
    run(r, is_exported_twice);
    (void)load(path, text, sizeof text);
    assert_string_equal(text, "1 1 3\n2 2 5\n4 999998 6\n");
    (void)snprintf(path, sizeof path, "%s/export.tmp", r->dir.path); /* fits */
    assert_int_equal(stat(path, &st), -1);
    stop(r);
}

static void
a_long_export_is_of_one_moment(void **state)
{
    struct rig *r = *state;
    static char text[1 << 20];
    char path[600];
    struct peer *p;
    const char *at = text;
    unsigned lines = 0, total = 0;

    (void)snprintf(path, sizeof path, "%s/export", r->dir.path); /* fits */
    (void)snprintf(r->config.quota_export, sizeof r->config.quota_export, "%s",
                   path); /* fits */
    start(r);
    for (int i = 0; i < 60; i++) {
        p = join(r, 1);
        for (int k = 0; k < 200; k++)
            ask(p, "POST", "/apply?amt=1", NULL);
        r->waits = p;
        r->want = 200;
        run(r, is_heard);
        total += 200;
    }
    p = join(r, 1);
    ask(p, "POST", "/empty", NULL);
    for (int k = 0; k < 200; k++)
        ask(p, "POST", k % 2 ? "/cancel?jnlsno=7" : "/increase?amt=1", NULL);
    r->waits = p;
    r->want = 201;
    run(r, is_heard);
    run(r, is_exported_once);
    assert_true(load(path, text, sizeof text) < sizeof text - 1);
    for (; *at != '\0'; at = strchr(at, '\n') + 1) {
        unsigned number, amount;

        lines++;
        assert_int_equal(sscanf(at, "%u %u", &number, &amount), 2);
        assert_int_equal(number, lines);
        assert_int_equal(amount, 1);
    }
    assert_int_equal(lines, total);
    stop(r);
}

static void
an_export_that_fails_leaves_the_last_one(void **state)
{
    struct rig *r = *state;

    (void)snprintf(r->config.quota_export, sizeof r->config.quota_export,
                   "%s/nowhere/export", r->dir.path); /* fits */
    start(r);
    expect(r, "/empty", 200, "0\n");
    expect(r, "/increase?amt=5", 200, "5\n");
    expect(r, "/apply?amt=5", 200, "1 0\n");
    assert_int_equal(r->service.export.written, 0);
    stop(r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(every_path_answers_as_documented),
    TEST(there_are_as_many_quotas_as_allowed),
    TEST(another_limit_than_that_of_the_journal_is_refused),
    TEST(a_key_repeats_the_first_answer),
    TEST(a_repeat_waits_for_the_first),
    TEST(a_bad_key_is_refused),
    TEST(whatever_call_fails_the_answer_is_true),
    TEST(a_failed_sync_refuses_all_that_waited),
    TEST(what_nobody_knows_is_not_answered),
    TEST(a_key_that_was_refused_for_the_disk_is_free_again),
    TEST(a_full_disk_refuses_changes_only),
    TEST(a_damaged_journal_is_not_served),
    TEST(a_start_without_a_disk_is_made_up_for),
    TEST(what_was_applied_is_exported_when_it_runs_out),
    TEST(a_long_export_is_of_one_moment),
    TEST(an_export_that_fails_leaves_the_last_one),
};

TEST_MAIN(tests)
