/* tests/unit/test_held_model.c - three workers, three logs, keyspaces that fall
 * sick and recover, and kills: every increment counts exactly once.
 *
 * Each worker is a process of its own.  Only one of them runs at a time:
 * wherever another may come in between (any call of the store, before each of
 * its commits, each step on data/held, before claiming and before emptying) it
 * gives its turn back, and the test chooses who goes on, who is killed there,
 * which log is filled and what falls sick.  So a seed repeats a run.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/commit_fixture.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/lib/random.h"

/* ---- where a worker gives its turn back --------------------------------- */

static int turn_in = -1, turn_out = -1;

static void
yield(void *ctx)
{
    char c;

    (void)ctx; /* one process, one pair of pipes */
    if (turn_in < 0)
        return; /* the test itself */
    if (write(turn_out, "y", 1) != 1 || read(turn_in, &c, 1) != 1)
        _exit(1);
}

static bool
never_stop(void *ctx)
{
    yield(ctx);
    return false;
}

/* What commits of all workers to keyspaces return. */
struct commit_faults {
    int code; /* 0: none */
    unsigned times;
};

static struct commit_faults *commits; /* in shared memory */

static int
yield_commit(void)
{
    yield(NULL);
    if (commits->times == 0)
        return 0;
    commits->times--;
    return commits->code;
}

/* A worker that waits for another one gives its turn back, too. */
int
nanosleep(const struct timespec *t, struct timespec *left)
{
    (void)t;
    (void)left;
    return 0;
}

#define STEP(type, name, parameters, ...)                                      \
    static type step_##name parameters                                         \
    {                                                                          \
        yield(NULL);                                                           \
        return name(__VA_ARGS__);                                              \
    }
STEP(int, held_refresh, (struct held * h), h)
STEP(int, held_begin, (struct held * h), h)
STEP(int, held_commit, (struct held * h), h)
STEP(int, held_lock, (struct held * h, const uint8_t *name, size_t size), h,
     name, size)
STEP(int, held_delete, (struct held * h, const uint64_t *ids, size_t count), h,
     ids, count)
STEP(int, batch_take, (struct log_batch * b), b)
STEP(unsigned, batch_end, (struct log_batch * b, bool stopped), b, stopped)

/* The modules under test, with these steps. */
#define held_refresh step_held_refresh
#define held_begin   step_held_begin
#define held_commit  step_held_commit
#define held_lock    step_held_lock
#define held_delete  step_held_delete
#define batch_take   step_batch_take
#define batch_end    step_batch_end
#include "worker/log_select.c"
#undef STAYS
#include "worker/apply_batch.c"
#include "worker/merge.c"
#define apply drain_apply
#define tell  drain_tell
#define judge drain_judge
#define run   drain_run_part
#include "worker/drain.c"
#undef apply
#undef tell
#undef judge
#undef run

/* ---- the world ---------------------------------------------------------- */

enum { WORKERS = 3, LOGS = 3, KEYSPACES = 3, KEYS = 4, STEPS = 400 };

struct worker {
    pid_t pid;
    int in, out; /* commands to it, answers of it */
    bool busy;   /* with a command: a byte lets it go on */
};

struct world {
    struct fixture x;
    struct worker workers[WORKERS];
    struct random random;
    int64_t expected[KEYSPACES][KEYS];
    unsigned fills, kills;
};

static const char *const names[KEYSPACES] = {"a", "b", "c"};
static const char *const keys[KEYS] = {"k", "l", "m", "n"};

/* A worker's life: 'm' merges a batch, 'd' applies what is held.  Answers 'n':
 * there was nothing to do, 'i': there was. */
static void
serve(struct fixture *x)
{
    char c, answer;

    /* What it says of sick keyspaces is not looked at. */
    (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
    fixture_open_store(x);
    fixture_open_worker(x);
    x->merge.stop = x->drain.stop = never_stop;
    while (read(turn_in, &c, 1) == 1) {
        answer = 'i';
        if (c == 'm' && merge_run(&x->merge) == MERGE_IDLE)
            answer = 'n';
        if (c == 'd') {
            fixture_ns += UINT64_C(120000000000); /* whatever waits is due */
            if (drain_run(&x->drain, false) == UINT64_MAX)
                answer = 'n';
        }
        if (x->drain.stats.damaged > 0)
            answer = 'x';
        if (write(turn_out, &answer, 1) != 1)
            break;
    }
    _exit(0);
}

static void
begin_worker(struct world *w, struct worker *me)
{
    int in[2], out[2];

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)fflush(stdout); /* or the child would print it again */
    me->pid = fork();
    assert_true(me->pid >= 0);
    if (me->pid == 0) {
        /* A pipe of another worker must end with the test. */
        for (unsigned i = 0; i < WORKERS; i++)
            if (&w->workers[i] != me && w->workers[i].pid > 0) {
                (void)close(w->workers[i].in);
                (void)close(w->workers[i].out);
            }
        (void)close(in[1]);
        (void)close(out[0]);
        turn_in = in[0];
        turn_out = out[1];
        serve(&w->x);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    me->in = in[1];
    me->out = out[0];
    me->busy = false;
}

static void
end_worker(struct worker *me, int signo)
{
    if (signo)
        (void)kill(me->pid, signo); /* it waits for its turn */
    (void)close(me->in);
    (void)close(me->out);
    assert_int_equal(waitpid(me->pid, NULL, 0), me->pid);
    me->pid = 0;
}

/* Lets a worker go on, or begin `command`, until its next turn.  Its answer. */
static char
turn(struct worker *me, char command)
{
    char c = me->busy ? 'g' : command;

    assert_int_equal(write(me->in, &c, 1), 1);
    assert_int_equal(read(me->out, &c, 1), 1);
    me->busy = c == 'y';
    if (c == 'x')
        fail_msg("a held record was taken for one that no one can apply");
    return c;
}

/* ---- what happens ------------------------------------------------------- */

static void
fill_log(struct world *w)
{
    const uint64_t index = random_below(&w->random, LOGS);
    char lock[64];
    struct filler f;
    unsigned n;

    (void)snprintf(lock, sizeof lock, "log/lock-%010u",
                   (unsigned)index); /* fits */
    if (log_exists(&w->x, index) && (mode_of(&w->x, index) != LOG_MODE_EMPTY ||
                                     tmpdir_has(&w->x.tmp, lock)))
        return;
    filler_open(&f, w->x.dir.log_fd, index, SLOTS);
    for (n = 1 + (unsigned)random_below(&w->random, 8); n > 0; n--) {
        const unsigned k = (unsigned)random_below(&w->random, KEYSPACES);
        const unsigned key = (unsigned)random_below(&w->random, KEYS);
        const int64_t sum = 1 + (int64_t)random_below(&w->random, 1000000);

        filler_add(&f, names[k], keys[key], sum);
        w->expected[k][key] += sum;
    }
    filler_seal(&f);
    w->fills++;
}

static void
change_health(struct world *w)
{
    static const int errors[] = {0,    0,       0,       -EBADMSG, -EDQUOT,
                                 -EIO, -EAGAIN, -ENOSPC, -ESTALE,  -EBUSY};
    static const int codes[] = {MDB_TXN_FULL, MDB_TXN_FULL, EIO, ENOSPC};
    const struct store_fault f = {
        .error = errors[random_below(&w->random, 10)],
        .times = random_chance(&w->random, 50)
                     ? 1 + (unsigned)random_below(&w->random, 3)
                     : STORE_FAULTS_ALWAYS};

    if (random_chance(&w->random, 50))
        *commits = (struct commit_faults){
            .code = codes[random_below(&w->random, 4)],
            .times = 1 + (unsigned)random_below(&w->random, 3)};
    else
        store_faults_set(names[random_below(&w->random, KEYSPACES)], f);
}

static void
happen(struct world *w)
{
    struct worker *me = &w->workers[random_below(&w->random, WORKERS)];
    const uint64_t what = random_below(&w->random, 100);

    if (what < 5) {
        fill_log(w);
    } else if (what < 8) {
        change_health(w);
    } else if (what < 9) {
        w->kills++;
        end_worker(me, SIGKILL);
        begin_worker(w, me);
    } else {
        (void)turn(me, random_chance(&w->random, 60) ? 'm' : 'd');
    }
}

/* Everybody is well, and the workers finish what there is. */
static void
finish(struct world *w)
{
    unsigned i, rounds = 0, idle = 0;
    bool busy = true;

    for (i = 0; i < KEYSPACES; i++)
        store_faults_set(names[i], (struct store_fault){0});
    commits->times = 0;
    for (unsigned turns = 0; busy; turns++) { /* no one is left in the middle */
        assert_true(turns < 1000);
        busy = false;
        for (i = 0; i < WORKERS; i++)
            if (w->workers[i].busy)
                busy = turn(&w->workers[i], 'm') == 'y' || busy;
    }
    while (idle < 2) {
        idle = 0;
        assert_true(rounds++ < 200);
        do
            i = (unsigned char)turn(&w->workers[0], 'm');
        while (i == 'y');
        idle += i == 'n';
        do
            i = (unsigned char)turn(&w->workers[0], 'd');
        while (i == 'y');
        idle += i == 'n';
    }
}

static void
check(struct world *w)
{
    for (unsigned k = 0; k < KEYSPACES; k++)
        for (unsigned i = 0; i < KEYS; i++) {
            const int64_t count = count_of(&w->x, names[k], keys[i]);

            assert_int_equal(count == INT64_MIN ? 0 : count, w->expected[k][i]);
        }
    for (uint64_t i = 0; i < LOGS; i++) /* none was quarantined */
        if (log_exists(&w->x, i))
            assert_int_equal(mode_of(&w->x, i), LOG_MODE_EMPTY);
    assert_true(tmpdir_count(&w->x.tmp, "log") -
                    tmpdir_has(&w->x.tmp, "log/merged") <=
                LOGS);
}

static void
live(uint64_t seed, unsigned *fills, unsigned *kills)
{
    static struct world w;
    unsigned i;

    memset(&w, 0, sizeof w);
    w.random.state = seed;
    fixture_make(&w.x);
    fixture_close_worker(&w.x); /* LMDB does not bear a fork */
    store_close(w.x.store);
    commits->times = 0;
    store_faults_hook(yield, NULL);
    commit_code = yield_commit;
    for (i = 0; i < WORKERS; i++)
        begin_worker(&w, &w.workers[i]);
    for (i = 0; i < STEPS; i++)
        happen(&w);
    finish(&w);
    for (i = 0; i < WORKERS; i++)
        end_worker(&w.workers[i], 0);
    fixture_open_store(&w.x);
    check(&w);
    fixture_open_worker(&w.x);
    fixture_remove(&w.x);
    *fills += w.fills;
    *kills += w.kills;
}

TEST(whatever_falls_sick_or_dies_every_increment_counts_once)
{
    const char *runs = getenv("TEST_RUNS");
    const unsigned long count = runs ? strtoul(runs, NULL, 10) : 60;
    struct random seeds = {random_seed("test_held_model")};
    unsigned fills = 0, kills = 0;

    commits = mmap(NULL, sizeof *commits, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(commits != MAP_FAILED);
    for (unsigned long i = 0; i < count; i++) {
        const uint64_t seed = i == 0 ? seeds.state : random_next(&seeds);

        if (i > 0 && runs)
            (void)fprintf(stderr, "\r%lu %llu ", i, (unsigned long long)seed);
        live(seed, &fills, &kills);
    }
    print_message("%lu runs, %u fills, %u kills\n", count, fills, kills);
    assert_true(fills > count);
}
