/* tests/unit/test_flips_log.c - any one bit of a commit log flips: what is read
 * afterwards is right, or is reported not to be.
 *
 * Every used bit of both headers and every bit of two slots, for a log that is
 * sealed, one whose owner died in this boot or before a power loss, and one
 * that is empty.  Directories are made in memory: these tests sync often. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/log_fixture.h"

#include "common/log/log_recover.h"

#define COUNT  5 /* increments in the log */
#define FORMER 7 /* in its fill before */
#define ROUNDS 4 /* of recovery, until the log is at rest */

enum kind { SEALED, DIED_HERE, POWER_LOSS, MERGED };

/* The bytes of such a log.  No slot says that another was synced. */
static void
make_bytes(const struct tmpdir *d, enum kind kind, uint8_t bytes[FILE_SIZE])
{
    struct log log;

    make_merged(d->fd, 0, FORMER);
    if (kind != MERGED) {
        log = begin_with(d->fd, 0, COUNT);
        if (kind == SEALED)
            assert_rc(log_seal(&log), 0);
        log_abandon(&log);
    }
    if (kind == POWER_LOSS)
        set_boot(d->fd, "0000000000", 7);
    read_bytes(d->fd, "0000000000", bytes, FILE_SIZE, 0);
    assert_int_equal(unlinkat(d->fd, "0000000000", 0), 0);
    (void)unlinkat(d->fd, "lock-0000000000", 0); /* none when it is at rest */
}

struct outcome {
    int count;      /* increments that came out */
    uint64_t epoch; /* of the fill they came out of */
    int told;       /* records that recovery said it cut off */
    bool set_aside; /* quarantined, which is reported */
    bool empty;     /* a writer may have it */
};

/* One look of a worker and a writer; false when the log needs recovery. */
static bool
use_logs(int dirfd, struct outcome *out)
{
    struct log log;
    int rc;

    if (mode_of(dirfd, 0) == LOG_MODE_FULL) {
        rc = log_claim(&log, dirfd, 0, LOG_MODE_FULL);
        out->set_aside = rc == -EBADMSG;
        if (rc < 0)
            return out->set_aside;
        out->epoch = log.header.epoch;
        out->count = read_count(&log);
        out->set_aside = out->count < 0;
        if (out->set_aside)
            assert_rc(log_quarantine(&log), 0);
        else
            assert_rc(log_empty(&log), 0);
        if (out->set_aside)
            return true;
        assert_rc(log_release(&log), 0);
    }
    rc = log_claim(&log, dirfd, 0, LOG_MODE_EMPTY);
    out->set_aside = rc == -EBADMSG;
    out->empty = rc == 0;
    if (rc == 0) {
        assert_rc(log_begin(&log), 0);
        assert_true(log.header.epoch > out->epoch);
        assert_true(log.header.epoch > 1); /* never that of FORMER again */
        assert_rc(log_seal(&log), 0);
        assert_rc(log_release(&log), 0);
    }
    return rc == 0 || rc == -EBADMSG;
}

/* The daemons come by until nothing is left to be done. */
static struct outcome
look_until_idle(int dirfd)
{
    struct outcome out = {.count = 0};
    int rc;

    for (int i = 0; i < ROUNDS; i++) {
        rc = log_recover(dirfd, 0, NULL);
        out.told += rc > 0 ? rc : 0;
        out.set_aside = rc == -EBADMSG;
        if (out.set_aside || use_logs(dirfd, &out))
            return out;
    }
    fail_msg("no end of recovery");
    return out;
}

static bool
is_right(enum kind kind, const struct outcome *out)
{
    if (out->set_aside)
        return true;
    if (!out->empty)
        return false;
    switch (kind) {
    case MERGED: /* once more under the mark of its epoch changes nothing */
        return out->told == 0 &&
               (out->count == 0 || (out->count == FORMER && out->epoch == 1));
    case POWER_LOSS:
        return out->count + out->told == COUNT &&
               (out->count == 0 || out->epoch == 2);
    case SEALED:
    case DIED_HERE:
        break;
    }
    return out->count == COUNT && out->epoch == 2 && out->told == 0;
}

static void
tidy_folder(const struct tmpdir *d)
{
    static const char *const names[] = {"0000000000", "bad-0000000000-0",
                                        "bad-0000000000-1", "bad-0000000000-2"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unlinkat(d->fd, names[i], 0); /* one of them is there */
    assert_int_equal(tmpdir_count(d, "."), 0);
}

static void
flip_bits(const struct tmpdir *d, enum kind kind, uint8_t *bytes, size_t at,
          int bit)
{
    static const mode_t modes[] = {
        [SEALED] = LOG_MODE_FULL,
        [DIED_HERE] = LOG_MODE_OWNED,
        [POWER_LOSS] = LOG_MODE_OWNED,
        [MERGED] = LOG_MODE_EMPTY,
    };
    struct outcome out;

    bytes[at] ^= (uint8_t)(1u << bit);
    tmpdir_put(d, "0000000000", bytes, FILE_SIZE, modes[kind]);
    bytes[at] ^= (uint8_t)(1u << bit);
    out = look_until_idle(d->fd);
    if (!is_right(kind, &out))
        fail_msg("bit %d of byte %zu: %d increments of epoch %llu, %d told",
                 bit, at, out.count, (unsigned long long)out.epoch, out.told);
    tidy_folder(d);
}

static void
flip_each(const struct tmpdir *d, enum kind kind)
{
    static const struct {
        size_t at, size;
    } parts[] = {
        {0, LOG_HEADER_SIZE},
        {LOG_BLOCK_SIZE, LOG_HEADER_SIZE},
        {LOG_SLOTS_AT + (COUNT / 2) * SLOT_SIZE, SLOT_SIZE},
        {LOG_SLOTS_AT + (COUNT - 1) * SLOT_SIZE, SLOT_SIZE},
    };
    uint8_t bytes[FILE_SIZE];
    size_t at;

    make_bytes(d, kind, bytes);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (at = parts[i].at; at < parts[i].at + parts[i].size; at++)
            for (int bit = 0; bit < 8; bit++)
                flip_bits(d, kind, bytes, at, bit);
    /* The zeros behind the headers: one bit of a byte in sixteen. */
    for (at = LOG_HEADER_SIZE; at < LOG_BLOCK_SIZE; at += 16) {
        flip_bits(d, kind, bytes, at, (int)(at / 16 % 8));
        flip_bits(d, kind, bytes, LOG_BLOCK_SIZE + at, (int)(at / 16 % 8));
    }
}

IN_MEMORY(no_bit_of_a_sealed_log_flips_unseen, s)
{
    flip_each(s, SEALED);
}

IN_MEMORY(no_bit_of_a_log_whose_owner_died_flips_unseen, s)
{
    flip_each(s, DIED_HERE);
}

IN_MEMORY(no_bit_of_a_log_open_at_a_power_loss_flips_unseen, s)
{
    flip_each(s, POWER_LOSS);
}

IN_MEMORY(no_bit_of_an_empty_log_makes_it_count_again, s)
{
    flip_each(s, MERGED);
}
