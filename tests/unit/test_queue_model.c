/* tests/unit/test_queue_model.c - a durable queue against a model, on a disk in
 * memory: up to three handles in turn, one killed at any call, power losses,
 * failing calls, flipped bits.
 *
 * After each of these the queue must have exactly what the model has.  A group
 * whose commit did not return is in doubt: it is in as a whole or not at all.
 * After damage it may lack records, but must say so, and none may be wrong.
 * A seed repeats a trial: TEST_SEED=N; TEST_RUNS=N trials of each kind.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/boot_id.h"
#include "common/base/dirstream.h"
#include "common/base/files.h"
#include "tests/lib/random.h"
#include "tests/lib/simdisk.h"

/* The queue on this disk.  flock is a structure's name as well. */
#define boot_id_get     simdisk_boot_id
#define boot_id_is_this simdisk_boot_id_is_this
#define openat          simdisk_openat
#define close           simdisk_close
#define fsync           simdisk_fsync
#define fdatasync       simdisk_fsync
#define fstat(fd, st)   simdisk_fstat(fd, st)
#define ftruncate       simdisk_ftruncate
#define unlinkat        simdisk_unlinkat
#define renameat        simdisk_renameat
#define flock(fd, how)  simdisk_flock(fd, how)
#define read_at         simdisk_read_at
#define write_at        simdisk_write_at
#define write_zeros     simdisk_write_zeros
#define dirstream_each  simdisk_dirstream_each
#define getrandom       simdisk_getrandom
#define lock_take       simdisk_lock_take
#include "common/journal/queue.c"
#include "common/journal/queue_group.c"
#include "common/journal/queue_index.c"
#include "common/journal/queue_note.c"
#include "common/journal/queue_segment.c"
#include "common/journal/queue_write.c"

#define KEYS    4096
#define GROUPS  8192
#define HANDLES 3
#define RECORD  8192 /* bytes, at most */
#define SEGMENT 8192

enum kind { KILL, CUT, FAIL, TEAR, FLIP, FLIP_CUT, LAST, LAST_CUT };

static const char *const kinds[] = {"kill", "cut",      "fail", "tear",
                                    "flip", "flip cut", "last", "last cut"};

/* What was put: its record is made from its number. */
struct key {
    enum { NOT_IN, WAITS, DONE_WITH } state;
    uint64_t id;
    uint32_t size;
    int put_group, done_group; /* in which it is in doubt; 0: none */
};

static struct {
    struct key keys[KEYS];
    unsigned count;
    int groups;
    int doubts[64]; /* groups whose commit did not return */
    unsigned doubt_count;
    unsigned put[16], put_count;   /* keys of the group being made */
    unsigned done[16], done_count; /* likewise */
} model;

static struct queue *handles[HANDLES];
static unsigned seen[KEYS];
static int group_state[GROUPS]; /* 1: not in, 2: in */
static enum kind kind;
static uint64_t seed;
static unsigned reports;
static char report_text[120];
static struct {
    uint64_t trials, kills, cuts, flips, reported, compared;
} total;

static void
note_report(void *ctx, const char *text)
{
    (void)ctx;
    reports++;
    (void)snprintf(report_text, sizeof report_text, "%s", text);
}

#define WRONG(...)                                                             \
    do {                                                                       \
        print_message(__VA_ARGS__);                                            \
        fail_msg(": %s, seed %llu, reports=%u %s", kinds[kind],                \
                 (unsigned long long)seed, reports, report_text);              \
    } while (0)

static uint64_t
below(uint64_t n)
{
    return simdisk_random(n);
}

static void
make_record(uint64_t key, uint8_t *bytes, size_t size)
{
    uint64_t x = key * UINT64_C(0x9E3779B97F4A7C15) + 1;

    for (size_t i = 0; i < size; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes[i] = (uint8_t)(x >> 32);
    }
    if (size >= 600 && key % 5 == 0) /* lines of zeros */
        memset(bytes + 8, 0, size - 8);
    memcpy(bytes, &key, sizeof key);
}

static int
open_handle(struct queue **out, bool writable)
{
    const struct queue_options options = {.dir_fd = SIMDISK_FOLDER,
                                          .writable = writable,
                                          .segment_size = SEGMENT,
                                          .report = note_report};

    return queue_open(out, &options);
}

/* For the address sanitizer: a process that is killed frees nothing. */
const char *__asan_default_options(void);
const char *
__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* ---- comparing ----------------------------------------------------------- */

static bool
is_in_doubt(int group)
{
    for (unsigned i = 0; i < model.doubt_count; i++)
        if (group != 0 && model.doubts[i] == group)
            return true;
    return false;
}

/* One record of the queue: it is what was put, and there once. */
static void
compare_record(struct queue *q, uint64_t id, bool lenient)
{
    uint8_t want[RECORD];
    const uint8_t *bytes;
    uint64_t key;
    size_t size;
    int rc;

    rc = queue_read(q, id, &bytes, &size);
    if (rc == -EBADMSG && lenient)
        return;
    if (rc < 0 || size < sizeof key)
        WRONG("record %llx: rc %d", (unsigned long long)id, rc);
    memcpy(&key, bytes, sizeof key);
    if (key >= model.count)
        WRONG("key %llu was never put", (unsigned long long)key);
    make_record(key, want, size);
    if (size != model.keys[key].size || memcmp(bytes, want, size) != 0)
        WRONG("key %llu has other bytes", (unsigned long long)key);
    if (seen[key]++ > 0)
        WRONG("key %llu is there twice", (unsigned long long)key);
    model.keys[key].id = id;
    total.compared++;
}

/* A key of the model against what was seen. */
static void
compare_key(unsigned key)
{
    const struct key *k = &model.keys[key];
    const bool put = is_in_doubt(k->put_group);
    const bool done = is_in_doubt(k->done_group);
    const int group = put ? k->put_group : k->done_group;
    bool is_in;

    if (!put && !done) {
        if ((k->state == WAITS) != (seen[key] > 0))
            WRONG("key %u: state %d, seen %u", key, (int)k->state, seen[key]);
        return;
    }
    if (put && done)
        return;
    is_in = put == (seen[key] > 0);
    if (group_state[group] != 0 && group_state[group] != 1 + is_in)
        WRONG("group %d is in as a part (key %u)", group, key);
    group_state[group] = 1 + is_in;
}

/* The queue against the model; `lenient`: damage was reported. */
static void
compare(struct queue *q, bool lenient)
{
    uint64_t count = 0;

    memset(seen, 0, sizeof seen);
    memset(group_state, 0, sizeof group_state);
    for (uint64_t id = 0; (id = queue_next(q, id)) != 0; count++)
        compare_record(q, id, lenient);
    if (count != q->stats.records)
        WRONG("%llu records, it says %llu", (unsigned long long)count,
              (unsigned long long)q->stats.records);
    for (unsigned k = 0; !lenient && k < model.count; k++)
        compare_key(k);
}

/* What was in doubt is what was seen: nothing may change it any more. */
static void
resolve(bool lenient)
{
    for (unsigned i = 0; i < model.count; i++) {
        struct key *k = &model.keys[i];

        if (lenient || is_in_doubt(k->put_group) || is_in_doubt(k->done_group))
            k->state = seen[i] > 0 ? WAITS : DONE_WITH;
        if (k->state == NOT_IN)
            k->state = DONE_WITH;
        k->put_group = k->done_group = 0;
    }
    model.doubt_count = 0;
}

/* ---- groups -------------------------------------------------------------- */

static void
put_keys(struct queue *q)
{
    uint8_t bytes[RECORD];

    for (uint64_t n = below(6); n > 0 && model.count + 1 < KEYS; n--) {
        struct key *k = &model.keys[model.count];
        uint32_t size = 8 + (uint32_t)(below(3) > 0 ? below(200) : below(3000));

        if (below(60) == 0)
            size = 8 + (uint32_t)below(8100);
        *k = (struct key){.size = size};
        make_record(model.count, bytes, size);
        if (queue_put(q, bytes, size) == 0)
            model.put[model.put_count++] = model.count;
        model.count++;
    }
}

static void
remove_keys(struct queue *q)
{
    for (uint64_t n = below(7); n > 0 && model.count > 0; n--) {
        unsigned k = (unsigned)below(model.count);

        if (below(3) > 0)
            for (unsigned i = 0;
                 i < model.count && model.keys[k].state != WAITS; i++)
                k = (k + 1) % model.count;
        if (model.keys[k].state != WAITS || model.keys[k].done_group != 0)
            continue;
        model.keys[k].done_group = -1;
        model.done[model.done_count++] = k;
        (void)queue_remove(q, model.keys[k].id);
    }
}

/* Collects a group, which is in doubt from now on. */
static void
collect_group(struct queue *q)
{
    model.put_count = model.done_count = 0;
    put_keys(q);
    remove_keys(q);
    model.groups++;
    for (unsigned i = 0; i < model.put_count; i++)
        model.keys[model.put[i]].put_group = model.groups;
    for (unsigned i = 0; i < model.done_count; i++)
        model.keys[model.done[i]].done_group = model.groups;
    model.doubts[model.doubt_count++] = model.groups;
}

static void
group_is_in(uint64_t first)
{
    model.doubt_count--;
    for (unsigned i = 0; i < model.put_count; i++) {
        struct key *k = &model.keys[model.put[i]];

        k->state = WAITS;
        k->id = first + i;
        k->put_group = 0;
    }
    for (unsigned i = 0; i < model.done_count; i++) {
        model.keys[model.done[i]].state = DONE_WITH;
        model.keys[model.done[i]].done_group = 0;
    }
}

static void
group_is_not_in(void)
{
    model.doubt_count--;
    for (unsigned i = 0; i < model.put_count; i++) {
        model.keys[model.put[i]].put_group = 0;
        model.keys[model.put[i]].state = NOT_IN;
    }
    for (unsigned i = 0; i < model.done_count; i++)
        model.keys[model.done[i]].done_group = 0;
}

static void
commit_group(struct queue *q, bool faults)
{
    uint64_t first;
    int rc;

    collect_group(q);
    rc = queue_commit(q, &first);
    if (rc == 0)
        group_is_in(first);
    else if (!faults)
        WRONG("commit: rc %d", rc);
    else if (q->erased)
        group_is_not_in();
}

static void
compact(struct queue *q, bool faults)
{
    struct queue_stats s;
    int rc;

    rc = queue_refresh(q);
    if (rc == 0)
        rc = queue_compact(q, 1 << 20);
    if (rc != 0 && !faults)
        WRONG("compact: rc %d", rc);
    queue_stats(q, &s);
    if (rc == 0 && !faults &&
        s.file_bytes > 2 * s.bytes + 3 * SEGMENT + RECORD + 808)
        WRONG("%llu bytes of files for %llu", (unsigned long long)s.file_bytes,
              (unsigned long long)s.bytes);
}

/* A process does something. */
static void
step(unsigned p, bool faults)
{
    struct queue **q = &handles[p];
    const uint64_t what = below(20);
    int rc = 0;

    simdisk_process = (int)p;
    if (*q == NULL) {
        rc = open_handle(q, true);
        if (rc < 0)
            *q = NULL;
    } else if (what == 0) {
        queue_close(*q);
        *q = NULL;
    } else if (what < 3) {
        rc = queue_refresh(*q);
        if (rc == 0 && !faults)
            compare(*q, false);
    } else if (what < 6) {
        compact(*q, faults);
    } else if (what == 6) {
        (void)queue_rest(*q); /* a failure promises nothing */
    } else {
        commit_group(*q, faults);
    }
    if (rc < 0 && !faults)
        WRONG("open or refresh: rc %d", rc);
}

/* ---- after a fault ------------------------------------------------------- */

static void
end_processes(void)
{
    for (int p = 0; p < HANDLES; p++) {
        simdisk_end(p);
        handles[p] = NULL; /* its memory goes with the process */
    }
}

/* A new process finds what the model has. */
static void
check_open(const char *why)
{
    struct queue *q;
    int rc;

    simdisk_process = 0;
    rc = open_handle(&q, below(2) > 0);
    if (rc == -ENOENT) {
        memset(seen, 0, sizeof seen);
        for (unsigned k = 0; k < model.count; k++)
            if (model.keys[k].state == WAITS)
                WRONG("%s: there is no queue", why);
        return;
    }
    if (rc < 0)
        WRONG("%s: open: rc %d", why, rc);
    compare(q, reports > 0);
    if (reports > 0)
        WRONG("%s: damage was reported, and there is none", why);
    queue_close(q);
}

/* From now on what was seen stays so, also after a power loss. */
static void
settle(void)
{
    struct queue *q;
    int rc;

    simdisk_process = 0;
    rc = open_handle(&q, true);
    if (rc == 0)
        rc = queue_remove_unfinished(q);
    if (rc < 0 && rc != -EAGAIN)
        WRONG("settle: rc %d", rc);
    compare(q, false);
    queue_close(q);
    if (rc == 0)
        resolve(false);
}

/* The queue can be used again, whatever was damaged. */
static void
use_again(void)
{
    const uint8_t *bytes;
    struct queue *q;
    uint64_t first;
    size_t size;

    for (int i = 0; i < 6; i++) {
        simdisk_process = 0;
        assert_rc(open_handle(&q, true), 0);
        collect_group(q);
        assert_rc(queue_commit(q, &first), 0);
        group_is_in(first);
        for (unsigned k = 0; k < model.put_count; k++)
            assert_rc(queue_read(q, first + k, &bytes, &size), 0);
        if (below(2) > 0 && queue_compact(q, 1 << 20) < 0)
            WRONG("compact after damage");
        queue_close(q);
        assert_rc(open_handle(&q, true), 0);
        for (unsigned k = 0; k < model.put_count; k++)
            assert_rc(queue_read(q, first + k, &bytes, &size), 0);
        queue_close(q);
    }
}

/* Byte and bit of the last group that was acknowledged; false: there is none.
 */
static bool
find_last_group(struct simdisk_file **file, size_t *bit)
{
    uint64_t last = QUEUE_FIRST;
    struct queue *q;
    char name[16];
    bool found;

    if (open_handle(&q, false) < 0)
        return false;
    found = q->tail > 0 && q->end > QUEUE_FIRST;
    if (found) {
        (void)snprintf(name, sizeof name, "%u", q->tail);
        *file = simdisk_find(name);
        for (uint64_t at = QUEUE_FIRST; at < q->end;
             at += get_le64((*file)->cached + at + 8))
            last = at;
        compare(q, false);
        *bit = (last + below(q->end - last)) * 8 + below(8);
    }
    queue_close(q);
    if (found)
        resolve(false);
    return found;
}

static void
flip_bit(void)
{
    struct simdisk_file *file = NULL;
    struct queue *q;
    size_t bit = 0;
    int rc;

    for (size_t n = 1 + below(8); file == NULL && n > 0; n--)
        file = simdisk_file(n - 1);
    if (kind == LAST || kind == LAST_CUT) {
        if (!find_last_group(&file, &bit))
            return;
    } else if (file == NULL || file->cached_size == 0) {
        return;
    } else {
        bit = below(file->cached_size * 8);
    }
    file->cached[bit / 8] ^= (uint8_t)(1u << bit % 8);
    total.flips++;
    reports = 0;
    rc = open_handle(&q, below(2) > 0);
    if (rc == -ENOENT)
        return;
    assert_rc(rc, 0);
    compare(q, reports > 0);
    total.reported += reports > 0;
    queue_close(q);
    resolve(reports > 0);
    use_again();
}

/* Sectors that were written in part: nothing is lost in silence. */
static void
check_torn(void)
{
    struct queue *q;
    int rc;

    reports = 0;
    simdisk_process = 0;
    rc = open_handle(&q, false);
    if (rc == -ENOENT)
        return;
    assert_rc(rc, 0);
    compare(q, reports > 0);
    for (unsigned k = 0; reports > 0 && k < model.count; k++)
        if (model.keys[k].state == WAITS && model.keys[k].done_group == 0 &&
            seen[k] == 0)
            WRONG("key %u is lost in a torn sector", k);
    total.reported += reports > 0;
    queue_close(q);
}

/* ---- a trial ------------------------------------------------------------- */

/* Some processes do this and that, until one is killed. */
static void
run_processes(bool faults)
{
    const unsigned count = 1 + (unsigned)below(HANDLES);
    const int steps = 3 + (int)below(50);
    volatile unsigned p = 0;

    simdisk_kill_in = (long)below(300);
    if (faults) {
        simdisk_fail_in = (long)below(200);
        simdisk_kill_in = below(3) > 0 ? -1 : (long)below(300);
    }
    if (setjmp(simdisk_killed) != 0) {
        total.kills++;
        simdisk_end((int)p);
        handles[p] = NULL;
    } else {
        for (int i = 0; i < steps; i++) {
            p = (unsigned)below(count);
            step(p, faults);
        }
    }
    simdisk_kill_in = simdisk_fail_in = -1;
}

/* False: the trial is over. */
static bool
run_round(bool last)
{
    const bool cuts =
        kind == CUT || kind == TEAR || kind == FLIP_CUT || kind == LAST_CUT;
    const bool flips = kind >= FLIP;

    run_processes(kind == FAIL);
    if (cuts || (kind == FAIL && below(2) > 0)) {
        simdisk_power_cut(kind == TEAR);
        total.cuts++;
        memset(handles, 0, sizeof handles);
        if (kind == TEAR) {
            check_torn();
            return false;
        }
        check_open("power loss");
        resolve(false);
        return true;
    }
    if (flips && last)
        return true;
    check_open("kill");
    settle();
    if (flips || below(2) > 0)
        end_processes();
    return true;
}

static void
run_trial(uint64_t trial_seed)
{
    uint64_t rounds;

    seed = trial_seed;
    simdisk_reset(seed);
    memset(&model, 0, sizeof model);
    memset(handles, 0, sizeof handles);
    reports = 0;
    report_text[0] = '\0';
    total.trials++;
    rounds = 1 + below(4);
    for (uint64_t r = 0; r < rounds; r++)
        if (!run_round(r + 1 == rounds))
            return;
    end_processes();
    if (kind >= FLIP)
        flip_bit();
    else if (below(4) == 0)
        use_again();
}

static void
run_trials(enum kind which)
{
    const char *runs = getenv("TEST_RUNS");
    const unsigned long count = runs != NULL ? strtoul(runs, NULL, 10) : 120;
    struct random seeds = {random_seed(kinds[which])};

    kind = which;
    memset(&total, 0, sizeof total);
    for (unsigned long i = 0; i < count; i++)
        run_trial(i == 0 ? seeds.state : random_next(&seeds));
    print_message(
        "%s: %llu trials, %llu kills, %llu power losses, %llu flips "
        "(%llu reported), %llu records compared\n",
        kinds[which], (unsigned long long)total.trials,
        (unsigned long long)total.kills, (unsigned long long)total.cuts,
        (unsigned long long)total.flips, (unsigned long long)total.reported,
        (unsigned long long)total.compared);
    assert_true(total.compared > 0);
}

#define TRIALS(name, which)                                                    \
    TEST(name)                                                                 \
    {                                                                          \
        run_trials(which);                                                     \
    }

TRIALS(a_killed_process_loses_and_doubles_nothing, KILL)
TRIALS(a_power_loss_loses_nothing_that_was_committed, CUT)
TRIALS(a_failing_call_loses_nothing_that_was_committed, FAIL)
TRIALS(a_torn_sector_loses_nothing_in_silence, TEAR)
TRIALS(a_flipped_bit_is_reported_or_harmless, FLIP)
TRIALS(a_flipped_bit_after_a_power_loss_is_reported_or_harmless, FLIP_CUT)
TRIALS(a_flipped_bit_of_the_last_group_is_reported, LAST)
TRIALS(a_flipped_bit_of_the_last_group_after_a_power_loss_is_reported, LAST_CUT)
