/* tests/crash/test_quota.c - quotas while daemons are killed, the power goes,
 * and the disk is full: what was answered is in the journal under the number
 * that was told, what was refused is not, nothing is there twice, and what
 * remains is the limit less what was applied and not cancelled.
 *
 *     TEST_SEED    repeats the choice of kills, cuts and states
 *     TEST_KILLS   how many kills (60)
 *     TEST_STATES  how many states after a power loss (300)
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/crash/powerloss.h"
#include "tests/lib/client.h"
#include "tests/lib/disk.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"
#include "writer/quota/journal.h"
#include "writer/quota/quotas.h"

#define LIMIT  INT64_C(1000000000000)
#define KILLS  60
#define STATES 300
#define PEERS  4
#define WINDOW 8
#define ASKS   60000u

/* A request.  Each application has an amount of its own, by which it is known
 * again. */
struct ask {
    bool cancels;
    bool keyed; /* sent again until it is answered */
    bool answered, refused;
    bool taken; /* an application that somebody cancels */
    uint64_t target;
    int64_t amount;
    uint64_t number;
    int64_t remaining;
    uint64_t acked; /* the moment */
};

struct peer {
    int fd;
    uint32_t waiting[WINDOW]; /* asks on their way, oldest first */
    size_t count;
    uint32_t again[WINDOW]; /* keyed ones of a broken connection */
    size_t again_count;
    char heard[65536];
    size_t size;
};

struct till {
    struct random random;
    _Atomic uint64_t *moments;
    struct ask *asks;
    uint32_t count;
    uint64_t answered, refused, repeated;
    struct peer peers[PEERS];
    uint16_t port;
};

static void
till_init(struct till *t, uint64_t seed, _Atomic uint64_t *moments)
{
    *t = (struct till){.random = {seed}, .moments = moments};
    t->asks = calloc(ASKS, sizeof *t->asks);
    assert_non_null(t->asks);
    for (size_t i = 0; i < PEERS; i++)
        t->peers[i].fd = -1;
}

/* ---- asking ------------------------------------------------------ */

static void
break_peer(struct till *t, struct peer *p)
{
    if (p->fd >= 0)
        client_close(p->fd);
    p->fd = -1;
    p->size = 0;
    for (size_t i = 0; i < p->count; i++)
        if (t->asks[p->waiting[i]].keyed)
            p->again[p->again_count++] = p->waiting[i];
    p->count = 0;
}

static void
till_break(struct till *t)
{
    for (size_t i = 0; i < PEERS; i++)
        break_peer(t, &t->peers[i]);
}

static void
say(struct till *t, struct peer *p, uint32_t index)
{
    const struct ask *a = &t->asks[index];
    char text[256], key[64] = "";
    int size;

    if (a->keyed)
        (void)snprintf(key, sizeof key, "Idempotency-Key: ask-%u\r\n",
                       index); /* fits */
    size =
        snprintf(text, sizeof text, "POST /%s=%" PRId64 " HTTP/1.1\r\n%s\r\n",
                 a->cancels ? "cancel?jnlsno" : "apply?amt",
                 a->cancels ? (int64_t)a->target : a->amount, key);
    p->waiting[p->count++] = index;
    if (client_try_send(p->fd, text, (size_t)size) < 0)
        break_peer(t, p);
}

/* An application that was answered and that nobody cancels; 0: none. */
static uint64_t
pick_target(struct till *t)
{
    for (int i = 0; t->count > 0 && i < 10; i++) {
        struct ask *a = &t->asks[random_below(&t->random, t->count)];

        if (!a->answered || a->cancels || a->taken)
            continue;
        a->taken = true;
        return a->number;
    }
    return 0;
}

static uint32_t
new_ask(struct till *t)
{
    struct ask *a = &t->asks[t->count];

    assert_true(t->count < ASKS);
    a->amount = t->count + 1;
    a->keyed = random_chance(&t->random, 30);
    if (random_chance(&t->random, 30)) {
        a->target = pick_target(t);
        a->cancels = a->target > 0;
    }
    return t->count++;
}

static void
ask_some(struct till *t, struct peer *p)
{
    if (p->fd < 0) {
        p->fd = client_try_connect(t->port);
        if (p->fd < 0) {
            p->fd = -1;
            return;
        }
    }
    while (p->fd >= 0 && p->again_count > 0 && p->count < WINDOW)
        say(t, p, p->again[--p->again_count]);
    while (p->fd >= 0 && p->count + p->again_count < WINDOW && t->count < ASKS)
        say(t, p, new_ask(t));
}

/* One answer to the oldest ask of a peer. */
static void
take_answer(struct till *t, struct peer *p, int status, const char *body)
{
    struct ask *a;
    uint64_t number;
    int64_t remaining;

    assert_true(p->count > 0);
    a = &t->asks[p->waiting[0]];
    memmove(p->waiting, p->waiting + 1, --p->count * sizeof *p->waiting);
    if (status == 503) {
        a->refused = !a->keyed; /* that one is asked again, perhaps */
        t->refused++;
        return;
    }
    if (status != 200)
        fail_msg("%s of %" PRId64 ": status %d: %s",
                 a->cancels ? "cancel" : "apply",
                 a->cancels ? (int64_t)a->target : a->amount, status, p->heard);
    if (sscanf(body, "%" SCNu64 " %" SCNd64, &number, &remaining) != 2)
        fail_msg("%s of %" PRId64 ": %s", a->cancels ? "cancel" : "apply",
                 a->cancels ? (int64_t)a->target : a->amount, body);
    a->answered = true;
    a->number = number;
    a->remaining = remaining;
    a->acked = atomic_fetch_add(t->moments, 1) + 1;
    t->answered++;
}

static void
hear(struct till *t, struct peer *p)
{
    char *at = p->heard, *end, *length;
    long n;

    n = client_try_read(p->fd, p->heard + p->size,
                        sizeof p->heard - 1 - p->size, 0);
    if (n == -EAGAIN)
        return;
    if (n > 0)
        p->size += (size_t)n;
    p->heard[p->size] = '\0';
    while ((end = strstr(at, "\r\n\r\n")) != NULL) {
        int status, size;

        length = strstr(at, "Content-length: ");
        assert_true(length && length < end);
        assert_int_equal(sscanf(at, "HTTP/1.1 %d", &status), 1);
        assert_int_equal(sscanf(length, "Content-length: %d", &size), 1);
        if ((size_t)(end + 4 - p->heard) + (size_t)size > p->size)
            break;
        take_answer(t, p, status, end + 4);
        at = end + 4 + size;
    }
    p->size -= (size_t)(at - p->heard);
    memmove(p->heard, at, p->size);
    if (n <= 0)
        break_peer(t, p);
}

static void
turn(struct till *t, bool asks)
{
    struct pollfd fds[PEERS];

    for (size_t i = 0; i < PEERS; i++) {
        if (asks)
            ask_some(t, &t->peers[i]);
        fds[i] = (struct pollfd){.fd = t->peers[i].fd, .events = POLLIN};
    }
    assert_true(poll(fds, PEERS, 5) >= 0);
    for (size_t i = 0; i < PEERS; i++)
        if (fds[i].revents != 0)
            hear(t, &t->peers[i]);
}

static void
ask_for(struct till *t, uint64_t ms)
{
    const uint64_t until = clock_ms() + ms * test_slow();

    do
        turn(t, true);
    while (clock_ms() < until);
}

static bool
is_waited_for(const struct till *t)
{
    for (size_t i = 0; i < PEERS; i++)
        if (t->peers[i].count > 0)
            return true;
    return false;
}

/* Keyed ones that are open are asked again; then all is heard. */
static void
settle(struct till *t)
{
    const uint64_t until = clock_ms() + 10000 * (uint64_t)test_slow();

    for (size_t i = 0; i < PEERS; i++)
        while (t->peers[i].again_count > 0)
            ask_some(t, &t->peers[i]);
    while (is_waited_for(t) && clock_ms() < until)
        turn(t, false);
    assert_false(is_waited_for(t));
}

/* ---- the journal, compared --------------------------------------- */

struct line {
    uint8_t type;
    int64_t value, after;
};

struct ledger {
    struct quotas quotas;
    struct line *lines; /* by journal number */
    uint64_t count;
};

static int
begin_ledger(void *ctx, const struct journal *j)
{
    return quotas_init(&((struct ledger *)ctx)->quotas, j->dirfd, j->limit);
}

static int
take_line(void *ctx, const struct record *r, uint64_t ms)
{
    struct ledger *l = ctx;

    if (r->type == RECORD_APPLY || r->type == RECORD_CANCEL) {
        assert_true(l->count < ASKS);
        l->lines[++l->count] = (struct line){r->type, r->value, r->after};
    }
    return quotas_take(&l->quotas, r, ms);
}

/* False, with why: an answer from before the moment `cut` is not kept. */
static bool
keeps(const struct till *t, const struct ledger *l, uint64_t cut, char *why,
      size_t size)
{
    int64_t *seen = calloc(ASKS + 1, sizeof *seen);
    int64_t left = LIMIT;
    bool good = true;

    assert_non_null(seen);
    (void)snprintf(why, size, "good"); /* fits */
    for (uint32_t i = 0; good && i < t->count; i++) {
        const struct ask *a = &t->asks[i];
        const struct line *line = &l->lines[a->number];

        if (!a->answered || a->acked > cut)
            continue;
        good = a->number <= l->count &&
               line->type == (a->cancels ? RECORD_CANCEL : RECORD_APPLY) &&
               line->value == (a->cancels ? (int64_t)a->target : a->amount) &&
               line->after == a->remaining;
        if (!good)
            (void)snprintf(why, size, "number %" PRIu64 " of %" PRIu64,
                           a->number, l->count); /* fits */
    }
    for (uint64_t n = 1; good && n <= l->count; n++) {
        const struct line *line = &l->lines[n];
        const bool cancels = line->type == RECORD_CANCEL;

        left += cancels ? l->lines[line->value].value : -line->value;
        good = left == line->after && left >= 0 && left <= LIMIT;
        if (good && !cancels)
            good = ++seen[line->value] == 1 &&
                   (!t->asks[line->value - 1].refused || cut != UINT64_MAX);
        if (!good)
            (void)snprintf(why, size,
                           "line %" PRIu64 ": value %" PRId64 " after %" PRId64,
                           n, line->value, line->after); /* fits */
    }
    free(seen);
    return good && left == quotas_unnamed(&l->quotas)->remaining;
}

/* What a directory has; as a start would find it. */
static bool
is_kept(const struct till *t, const char *data, uint64_t cut, char *why,
        size_t size)
{
    struct ledger l = {.count = 0};
    struct journal j = {.fd = -1};
    char path[700];
    bool exists, good = true;
    int fd, rc;

    l.lines = calloc(ASKS + 1, sizeof *l.lines);
    assert_non_null(l.lines);
    (void)snprintf(path, sizeof path, "%s/live", data); /* fits */
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fd < 0 ? 0 : journal_exists(fd, &exists);
    assert_rc(rc, 0);
    if (fd >= 0 && exists) {
        rc = journal_open(&j, fd, begin_ledger, take_line, &l);
        good = rc == 0;
        (void)snprintf(why, size, "open: %s", strerror(-rc)); /* fits */
        if (good)
            good = keeps(t, &l, cut, why, size);
        quotas_fini(&l.quotas);
        journal_close(&j);
    } else {
        for (uint32_t i = 0; i < t->count; i++)
            good &= !t->asks[i].answered || t->asks[i].acked > cut;
        (void)snprintf(why, size, "no journal"); /* fits */
    }
    if (fd >= 0)
        client_close(fd);
    free(l.lines);
    return good;
}

static void
check(const struct till *t, const char *data)
{
    char why[256];

    if (!is_kept(t, data, UINT64_MAX, why, sizeof why))
        fail_msg("%s", why);
}

static void
configure(struct fleet *f)
{
    fleet_option(f, "log.size=24K");
    fleet_option(f, "log.count=1");
    fleet_option(f, "counter.enable=off");
    fleet_option(f, "http.listen=127.0.0.1:0");
    fleet_option(f, "quota.enable=on");
    fleet_option(f, "quota.limit=1000000000000");
}

static void
start(struct till *t, struct fleet *f)
{
    fleet_start(f, FLEET_WRITE);
    t->port = daemon_port(fleet_daemon(f, FLEET_WRITE), "http");
}

static int64_t
query(const struct till *t)
{
    static const char ask[] =
        "GET /query HTTP/1.1\r\nConnection: close\r\n\r\n";
    const int fd = client_connect(t->port);
    char text[512];
    size_t size;

    client_send(fd, ask, sizeof ask - 1);
    size = client_read(fd, text, sizeof text - 1);
    text[size] = '\0';
    client_close(fd);
    assert_non_null(strstr(text, "\r\n\r\n"));
    return strtoll(strstr(text, "\r\n\r\n") + 4, NULL, 10);
}

/* What remains is at least the limit less all that may have been applied. */
static int64_t
least(const struct till *t)
{
    int64_t left = LIMIT;

    for (uint32_t i = 0; i < t->count; i++)
        if (!t->asks[i].cancels)
            left -= t->asks[i].amount;
    return left;
}

/* ---- kills ------------------------------------------------------- */

static unsigned
number_of(const char *name, unsigned def)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : def;
}

static void
every_answer_holds_under_kills(void **state)
{
    const unsigned kills = number_of("TEST_KILLS", KILLS);
    _Atomic uint64_t moments = 0;
    struct fleet f;
    struct till t;

    (void)state;
    till_init(&t, random_seed("quota kills"), &moments);
    fleet_init(&f);
    configure(&f);
    for (unsigned i = 0; i < kills && t.count < ASKS - 5000; i++) {
        struct daemon *d = fleet_daemon(&f, FLEET_WRITE);

        start(&t, &f);
        ask_for(&t, 2 + random_below(&t.random, 60));
        assert_true(daemon_alive(d));
        if (random_chance(&t.random, 80))
            daemon_kill(d);
        else
            assert_int_equal(daemon_stop(d), 0);
        while (is_waited_for(&t)) /* what was sent before the end */
            turn(&t, false);
        till_break(&t);
        if (random_chance(&t.random, 30))
            check(&t, f.path);
    }
    start(&t, &f);
    settle(&t);
    assert_true(query(&t) <= LIMIT && query(&t) >= least(&t));
    fleet_stop(&f, FLEET_WRITE);
    check(&t, f.path);
    printf("%u kills, %u asked, %" PRIu64 " answered, %" PRIu64 " refused\n",
           kills, t.count, t.answered, t.refused);
    assert_true(t.answered > 10 * (uint64_t)kills);
    fleet_fini(&f);
    free(t.asks);
}

/* ---- power loss -------------------------------------------------- */

struct recorder {
    struct tmpdir data, side;
    struct powerloss_shared *shared;
    char text[6][700];
    const char *env[7];
};

static void
set_env(struct recorder *r)
{
    char library[600];
    const char *asan = getenv("ASAN_OPTIONS");

    daemon_path("tests/crash/powerloss.so", library, sizeof library);
    (void)snprintf(r->text[0], sizeof r->text[0], "LD_PRELOAD=%s",
                   library); /* fits */
    (void)snprintf(r->text[1], sizeof r->text[1], "POWERLOSS_DIR=%s",
                   r->data.path); /* fits */
    (void)snprintf(r->text[2], sizeof r->text[2], "POWERLOSS_LOG=%s/calls",
                   r->side.path); /* fits */
    (void)snprintf(r->text[3], sizeof r->text[3], "POWERLOSS_SHARED=%s/shared",
                   r->side.path); /* fits */
    (void)snprintf(r->text[4], sizeof r->text[4],
                   "POWERLOSS_DELAY=300"); /* fits */
    (void)snprintf(r->text[5], sizeof r->text[5],
                   "ASAN_OPTIONS=%s%sverify_asan_link_order=0",
                   asan ? asan : "", asan ? ":" : ""); /* fits */
    for (size_t i = 0; i < 6; i++)
        r->env[i] = r->text[i];
    r->env[6] = NULL;
}

static void
record(struct recorder *r)
{
    int fd;

    tmpdir_make_in_memory(&r->data);
    tmpdir_make_in_memory(&r->side);
    fd = openat(r->side.fd, "shared", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && ftruncate(fd, sizeof *r->shared) == 0);
    r->shared = mmap(NULL, sizeof *r->shared, PROT_READ | PROT_WRITE,
                     MAP_SHARED, fd, 0);
    assert_true(r->shared != MAP_FAILED);
    client_close(fd);
    set_env(r);
}

/* SIGKILL between two noted calls. */
static void
kill_cleanly(struct recorder *r, struct daemon *d)
{
    atomic_store(&r->shared->freeze, 1);
    while (atomic_load(&r->shared->busy) > 0)
        (void)sched_yield(); /* cannot fail on Linux */
    daemon_kill(d);
    atomic_store(&r->shared->freeze, 0);
}

static uint64_t
pick_cut(struct till *t, const struct disk *disk)
{
    if (random_chance(&t->random, 50))
        return disk_cut_in_sync(disk, random_next(&t->random));
    for (int i = 0; i < 100; i++) {
        const struct ask *a = &t->asks[random_below(&t->random, t->count)];

        if (a->answered)
            return a->acked + 1;
    }
    return 1 + random_below(&t->random, disk_last(disk) + 1);
}

static void
try_states(struct till *t, const struct disk *disk, unsigned states)
{
    char why[256], how[128];
    struct tmpdir state;

    for (unsigned i = 0; i < states; i++) {
        const uint64_t cut = pick_cut(t, disk), seed = random_next(&t->random);
        bool good;

        tmpdir_make_in_memory(&state);
        disk_build(disk, cut, seed, state.path);
        good = is_kept(t, state.path, cut, why, sizeof why);
        tmpdir_remove(&state);
        if (good)
            continue;
        disk_describe(seed, how, sizeof how);
        fail_msg("state %u (cut %" PRIu64 " of %" PRIu64 ", seed %" PRIu64
                 ": %s): %s",
                 i, cut, disk_last(disk), seed, how, why);
    }
}

static void
every_answer_holds_when_the_power_goes(void **state)
{
    const unsigned states = number_of("TEST_STATES", STATES);
    struct recorder r;
    struct disk *disk;
    struct fleet f;
    struct till t;

    (void)state;
    record(&r);
    till_init(&t, random_seed("quota power"), &r.shared->seq);
    fleet_init_at(&f, r.data.path);
    configure(&f);
    f.env = r.env;
    disk = disk_snapshot(r.data.path);
    for (int i = 0; i < 4; i++) {
        start(&t, &f);
        ask_for(&t, 60);
        assert_true(daemon_alive(fleet_daemon(&f, FLEET_WRITE)));
        kill_cleanly(&r, fleet_daemon(&f, FLEET_WRITE));
        while (is_waited_for(&t))
            turn(&t, false);
        till_break(&t);
    }
    start(&t, &f);
    settle(&t);
    fleet_stop(&f, FLEET_WRITE);
    disk_load(disk, r.text[2] + strlen("POWERLOSS_LOG="));
    assert_true(t.answered > 100);
    try_states(&t, disk, states);
    printf("%zu calls, %" PRIu64 " answered, %u states\n", disk_count(disk),
           t.answered, states);
    fleet_fini(&f);
    disk_free(disk);
    assert_int_equal(munmap(r.shared, sizeof *r.shared), 0);
    tmpdir_remove(&r.data);
    tmpdir_remove(&r.side);
    free(t.asks);
}

/* ---- a full disk ------------------------------------------------- */

static void
put_ballast(const char *path)
{
    static uint8_t bytes[4096];
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    while (write(fd, bytes, sizeof bytes) == sizeof bytes)
        continue;
    client_close(fd);
}

static void
run_full(const char *disk)
{
    _Atomic uint64_t moments = 0;
    char data[600], ballast[600];
    struct fleet f;
    struct till t;
    uint64_t answered;

    (void)snprintf(data, sizeof data, "%s/data", disk);          /* fits */
    (void)snprintf(ballast, sizeof ballast, "%s/ballast", disk); /* fits */
    assert_int_equal(mkdir(data, 0700), 0);
    till_init(&t, random_seed("quota full disk"), &moments);
    fleet_init_at(&f, data);
    configure(&f);
    start(&t, &f);
    ask_for(&t, 50);
    put_ballast(ballast);
    while (t.refused == 0 && t.count < ASKS - 2000)
        ask_for(&t, 20);
    assert_true(t.refused > 0);
    assert_true(daemon_alive(fleet_daemon(&f, FLEET_WRITE)));
    settle(&t);
    assert_true(query(&t) > 0); /* is answered all the same */
    assert_int_equal(unlink(ballast), 0);
    answered = t.answered;
    while (t.answered < answered + 200 && t.count < ASKS - 100)
        ask_for(&t, 20);
    settle(&t);
    assert_true(t.answered >= answered + 200);
    fleet_stop(&f, FLEET_WRITE);
    check(&t, f.path);
    free(t.asks);
    fleet_fini(&f);
}

static void
a_full_disk_refuses_and_is_recovered_from(void **state)
{
    struct tmpdir dir;
    int status;
    pid_t pid;

    (void)state;
    if (getuid() != 0)
        test_skip("mounting needs root");
    tmpdir_make(&dir);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* The mount is gone with this process, however it ends. */
        if (unshare(CLONE_NEWNS) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("countd", dir.path, "tmpfs", 0, "size=4m") < 0)
            _exit(77);
        run_full(dir.path);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    tmpdir_remove(&dir);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        test_skip("no mount namespace");
    assert_int_equal(status, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_answer_holds_under_kills),
    cmocka_unit_test(every_answer_holds_when_the_power_goes),
    cmocka_unit_test(a_full_disk_refuses_and_is_recovered_from),
};

TEST_MAIN(tests)
