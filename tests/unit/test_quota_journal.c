/* tests/unit/test_quota_journal.c - the journal of quotas after a crash, a
 * failed disk, and with a bit that has flipped: what is read is what was
 * promised, or it is reported that it is not. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/quota_fixture.h"

#include "common/base/crc.h"

#define GROUPS 6
/* Bytes of these journals that are used, and some. */
#define FILE_MOST (RECORDS_AT + 64 * JOURNAL_RECORD_SIZE)

struct state {
    int64_t remaining;
    uint64_t numbers;
    int64_t tea; /* -1: there is none */
};

static struct state
state_of(struct book *b)
{
    const struct quota *tea = book_quota(b, "tea");

    return (struct state){.remaining = book_quota(b, NULL)->remaining,
                          .numbers = book_quota(b, NULL)->count,
                          .tea = tea ? tea->remaining : -1};
}

static bool
is_same(struct state a, struct state b)
{
    return a.remaining == b.remaining && a.numbers == b.numbers &&
           a.tea == b.tea;
}

/* A group of changes of every kind. */
static void
put_group(struct book *b, int i)
{
    if (i == 1)
        (void)book_put(b, "tea", JOURNAL_RECORD_CREATE, 40);
    if (i == 4)
        (void)book_put(b, "tea", JOURNAL_RECORD_REMOVE, 0);
    (void)book_put(b, NULL, JOURNAL_RECORD_APPLY, 10 + i);
    (void)book_put(b, NULL, JOURNAL_RECORD_APPLY, 5);
    if (i > 1)
        (void)book_put(b, NULL, JOURNAL_RECORD_CANCEL, i);
    (void)book_put(b, "tea", JOURNAL_RECORD_APPLY, 3);
    (void)book_put(
        b, NULL, i % 2 ? JOURNAL_RECORD_INCREASE : JOURNAL_RECORD_DECREASE, 7);
}

/* All states between two records of a journal of GROUPS groups. */
struct history {
    struct state before[GROUPS + 1]; /* each group; the last: the end */
    uint64_t first[GROUPS + 1];      /* record of each group */
};

static void
write_groups(struct book *b, struct history *h)
{
    for (int i = 0; i < GROUPS; i++) {
        h->before[i] = state_of(b);
        h->first[i] = b->journal.durable;
        put_group(b, i);
        assert_rc(book_sync(b), 0);
    }
    h->before[GROUPS] = state_of(b);
    h->first[GROUPS] = b->journal.durable;
}

static size_t
load_journal(const struct tmpdir *d, uint8_t *bytes, size_t size)
{
    const int fd = openat(d->fd, JOURNAL_NAME, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    assert_true(fd >= 0);
    n = pread(fd, bytes, size, 0);
    assert_true(n >= 0);
    assert_int_equal(close(fd), 0);
    return (size_t)n;
}

/* How the process before ended: with its note, or the note was lost with the
 * page cache, or what it said last. */
enum loss { KILLED, NOTE_LOST, NOTE_OLD };

static uint8_t note[JOURNAL_NOTE_SIZE]; /* of the journal as it was made */

static void
put_note(const struct tmpdir *d, enum loss loss, uint64_t end)
{
    uint8_t bytes[JOURNAL_NOTE_SIZE];

    (void)unlinkat(d->fd, JOURNAL_NOTE_NAME, 0);
    if (loss == NOTE_LOST)
        return;
    memcpy(bytes, note, sizeof bytes);
    if (loss == NOTE_OLD) {
        put_le64(bytes + 40, end);
        put_le32(bytes + JOURNAL_NOTE_SIZE - 4,
                 crc_of(bytes, JOURNAL_NOTE_SIZE - 4));
    }
    tmpdir_put(d, JOURNAL_NOTE_NAME, bytes, sizeof bytes, 0600);
}

static void
save_journal(const struct tmpdir *d, const uint8_t *bytes, size_t size)
{
    (void)unlinkat(d->fd, JOURNAL_NAME, 0); /* the first time there is none */
    tmpdir_put(d, JOURNAL_NAME, bytes, size, 0600);
}

/* Opens, and sees that what it has can be gone on from. */
static int
try_open(const struct tmpdir *d, struct state *out, bool *cut)
{
    struct book b;
    struct state went;
    int rc;

    rc = book_try_open(&b, d->fd);
    if (rc < 0)
        return rc;
    *out = state_of(&b);
    *cut = b.journal.cut;
    if (journal_free(&b.journal) >= 2 * JOURNAL_CHANGE) {
        (void)book_put(&b, NULL, JOURNAL_RECORD_APPLY, 1);
        (void)book_put(&b, NULL, JOURNAL_RECORD_INCREASE, 2);
        assert_rc(book_sync(&b), 0);
    }
    went = state_of(&b);
    book_close(&b);
    book_open(&b, d->fd);
    assert_true(is_same(state_of(&b), went));
    assert_false(b.journal.cut);
    book_close(&b);
    return 0;
}

static struct history
make_journal(const struct tmpdir *d, uint8_t *bytes)
{
    struct history h;
    struct book b;
    int fd;

    book_open(&b, d->fd);
    write_groups(&b, &h);
    book_close(&b);
    (void)load_journal(d, bytes, FILE_MOST);
    fd = openat(d->fd, JOURNAL_NOTE_NAME, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, note, sizeof note), sizeof note);
    assert_int_equal(close(fd), 0);
    return h;
}

static uint64_t
byte_of(uint64_t record)
{
    return RECORDS_AT + record * JOURNAL_RECORD_SIZE;
}

/* In memory: these tests sync often. */
static int
setup(void **state)
{
    static struct tmpdir dir;

    tmpdir_make_in_memory(&dir);
    *state = &dir;
    return 0;
}

static int
teardown(void **state)
{
    fault_clear();
    tmpdir_remove(*state);
    return 0;
}

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, setup, teardown)

CASE(what_was_answered_is_there_however_the_last_group_is_torn, d)
{
    static uint8_t whole[FILE_MOST], torn[FILE_MOST];
    const struct history h = make_journal(d, whole);
    const uint64_t from = byte_of(h.first[GROUPS - 1]);
    const uint64_t to = byte_of(h.first[GROUPS]);
    struct state s;
    bool cut;

    /* Its end is missing, its beginning, or a piece of it. */
    for (uint64_t at = from; at <= to; at += 8)
        for (int how = 0; how < 6; how++) {
            const uint64_t begin = how % 3 == 1 ? from : at;
            const uint64_t end = how % 3 == 0 ? to : how % 3 == 1 ? at : at + 8;

            memcpy(torn, whole, sizeof torn);
            memset(torn + begin, 0, (end < to ? end : to) - begin);
            save_journal(d, torn, sizeof torn);
            put_note(d, how < 3 ? NOTE_LOST : NOTE_OLD, h.first[GROUPS - 1]);
            assert_rc(try_open(d, &s, &cut), 0);
            /* Every one of its changes takes a number or changes tea. */
            assert_true(s.numbers >= h.before[GROUPS - 1].numbers);
            assert_true(s.numbers <= h.before[GROUPS].numbers);
            assert_true(cut || at >= to || begin == from || how % 3 == 0 ||
                        is_same(s, h.before[GROUPS]));
            if (begin == from && end > from)
                assert_true(is_same(s, h.before[GROUPS - 1]));
        }
}

/* A group is missing, or follows what the note calls durable: the disk was lost
 * and came back, in the same boot, with the note as it was when it was synced. */
CASE(what_the_note_calls_durable_and_what_follows_is_not_cut, d)
{
    static uint8_t whole[FILE_MOST], torn[FILE_MOST];
    const struct history h = make_journal(d, whole);
    struct state s;
    bool cut;

    for (int group = 0; group < GROUPS; group++)
        for (int how = 0; how < 3; how++) {
            const uint64_t from = byte_of(h.first[group]);

            memcpy(torn, whole, sizeof torn);
            if (how < 2)
                memset(torn + from, 0, sizeof torn - from);
            save_journal(d, torn, sizeof torn);
            put_note(d, how == 0 ? KILLED : NOTE_OLD, h.first[group]);
            assert_rc(try_open(d, &s, &cut), how == 0 ? -EBADMSG : 0);
            if (how > 0) {
                assert_false(cut);
                assert_true(is_same(s, h.before[how == 1 ? group : GROUPS]));
            }
        }
}

CASE(a_file_that_ends_anywhere_is_a_beginning_of_it, d)
{
    static uint8_t whole[FILE_MOST];
    const struct history h = make_journal(d, whole);
    struct state s;
    bool cut;

    for (size_t size = 0; size < byte_of(h.first[GROUPS]); size++) {
        int group = 0;

        save_journal(d, whole, size);
        put_note(d, KILLED, 0);
        assert_rc(try_open(d, &s, &cut), -EBADMSG);
        put_note(d, NOTE_LOST, 0);
        if (size < RECORDS_AT) {
            assert_rc(try_open(d, &s, &cut), -EBADMSG);
            continue;
        }
        assert_rc(try_open(d, &s, &cut), 0);
        while (byte_of(h.first[group + 1]) <= size)
            group++;
        assert_true(s.numbers >= h.before[group].numbers);
        assert_true(s.numbers <= h.before[group + 1].numbers);
    }
}

/* Flips each bit that is used: it is reported, or makes no difference. */
static void
flip_all(const struct tmpdir *d, enum loss loss)
{
    static uint8_t whole[FILE_MOST], bad[FILE_MOST];
    const struct history h = make_journal(d, whole);
    const uint64_t end = byte_of(h.first[GROUPS]);
    size_t reported = 0;

    for (size_t bit = 0; bit < 8 * (end + (size_t)3 * JOURNAL_RECORD_SIZE);
         bit++) {
        const size_t at = bit / 8;
        struct state s;
        bool cut = false;
        int rc;

        if (at >= HEADER_AT(1) + HEADER_SIZE && at < RECORDS_AT)
            continue; /* nothing is there */
        memcpy(bad, whole, sizeof bad);
        bad[at] ^= (uint8_t)(1 << bit % 8);
        save_journal(d, bad, sizeof bad);
        put_note(d, loss, h.first[GROUPS - 1]);
        rc = try_open(d, &s, &cut);
        reported += rc < 0;
        if (rc < 0)
            assert_rc(rc, -EBADMSG);
        else
            assert_true(is_same(s, h.before[GROUPS]));
        /* Every bit of every record. */
        assert_int_equal(rc < 0, at >= RECORDS_AT && at < end);
    }
    assert_int_equal(reported, 8 * (end - RECORDS_AT));
}

CASE(any_bit_after_a_kill_or_a_power_loss_is_reported_or_harmless, d)
{
    for (int loss = KILLED; loss <= NOTE_OLD; loss++) {
        flip_all(d, (enum loss)loss);
        assert_int_equal(unlinkat(d->fd, JOURNAL_NAME, 0), 0);
        assert_int_equal(unlinkat(d->fd, JOURNAL_NOTE_NAME, 0), 0);
    }
}

CASE(any_bit_of_the_note_is_reported_and_harmless, d)
{
    static uint8_t whole[FILE_MOST];
    const struct history h = make_journal(d, whole);
    struct state s;
    bool cut;

    for (size_t bit = 0; bit < (size_t)8 * JOURNAL_NOTE_SIZE; bit++) {
        save_journal(d, whole, sizeof whole);
        note[bit / 8] ^= (uint8_t)(1 << bit % 8);
        put_note(d, KILLED, 0);
        note[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_rc(try_open(d, &s, &cut), 0);
        assert_true(is_same(s, h.before[GROUPS]));
    }
}

/* ---- faults ------------------------------------------------------ */

/* It was written, it was unknown whether it was durable, and no request was
 * answered: it is durable from the next start on. */
CASE(a_group_that_failed_counts_as_a_whole_or_not_at_all, d)
{
    struct book b;

    for (int how = 0; how < 2; how++) {
        book_open(&b, d->fd);
        (void)book_put(&b, NULL, JOURNAL_RECORD_APPLY, 2);
        if (how == 0)
            fault_inject_from("pwrite", 2, EIO); /* the note */
        else
            fault_inject_from("fdatasync", 1, EIO);
        assert_rc(book_sync(&b), -EIO);
        fault_clear();
        book_close(&b);
        for (int start = 0; start < 2; start++) {
            book_open(&b, d->fd);
            assert_false(b.journal.cut);
            assert_int_equal(book_quota(&b, NULL)->remaining,
                             LIMIT - 2 * (how + 1));
            book_close(&b);
        }
    }
}

/* Makes, fills or opens a journal with the nth call failing. */
static void
fail_each(const struct tmpdir *d, const char *call, int error)
{
    struct state before;
    struct book b;
    bool hit;
    int rc;

    for (unsigned n = 1;; n++) {
        const unsigned fds = fault_open_fds();

        fault_inject(call, n, error);
        rc = book_try_open(&b, d->fd);
        hit = fault_hit();
        fault_clear();
        if (rc == 0 && !hit)
            break;
        if (rc == 0) { /* a close, or a look for what need not be there */
            book_close(&b);
            continue;
        }
        assert_rc(rc, -error);
        assert_int_equal(fault_open_fds(), fds);
    }
    before = state_of(&b);
    put_group(&b, 1);
    assert_rc(book_sync(&b), 0);
    assert_false(is_same(before, state_of(&b)));
    before = state_of(&b);
    book_close(&b);
    for (unsigned n = 1;; n++) {
        fault_inject(call, n, error);
        rc = book_try_open(&b, d->fd);
        hit = fault_hit();
        fault_clear();
        if (!hit)
            break;
        if (rc < 0)
            continue;
        assert_true(is_same(before, state_of(&b)));
        book_close(&b);
    }
    assert_rc(rc, 0);
    assert_true(is_same(before, state_of(&b)));
    book_close(&b);
}

CASE(opening_fails_clean_at_every_call, d)
{
    static const struct {
        const char *call;
        int error;
    } rows[] = {{"disk", EIO}, {"memory", ENOMEM}, {"disk", ENOSPC}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fail_each(d, rows[i].call, rows[i].error);
        assert_int_equal(unlinkat(d->fd, JOURNAL_NAME, 0), 0);
        assert_int_equal(unlinkat(d->fd, JOURNAL_NOTE_NAME, 0), 0);
    }
}

/* ---- checkpoints ------------------------------------------------- */

/* Every number, as it is cancelled now. */
static void
compare_numbers(const struct quota *a, const struct quota *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->remaining, b->remaining);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->numbers[i].amount, b->numbers[i].amount);
        assert_int_equal(a->numbers[i].other, b->numbers[i].other);
    }
}

CASE(a_checkpoint_has_all_that_the_records_had, d)
{
    struct key_answer a = {.form = ANSWER_PAIR, .number = 7, .remaining = 9};
    uint8_t hash[IDEMPOTENCY_HASH] = "a key";
    const struct key_entry *e;
    struct book b, c;

    book_open(&b, d->fd);
    (void)book_put(&b, NULL, JOURNAL_RECORD_INCREASE, INT64_MAX - LIMIT);
    (void)book_put(&b, NULL, JOURNAL_RECORD_APPLY, INT64_MAX);
    (void)book_put(&b, NULL, JOURNAL_RECORD_CANCEL, 1);
    for (int i = 1; i < 1000; i++) {
        (void)book_put(&b, NULL, JOURNAL_RECORD_APPLY, i * 37 % 300);
        if (i % 7 == 0)
            (void)book_put(&b, NULL, JOURNAL_RECORD_CANCEL, i / 2);
    }
    (void)book_put(&b, "tea", JOURNAL_RECORD_CREATE, 40);
    (void)book_put(&b, "a.longer-name_of-more-than_16", JOURNAL_RECORD_CREATE,
                   0);
    (void)book_put(&b, "tea", JOURNAL_RECORD_APPLY, 5);
    idempotency_add(&b.quotas.keys, hash, 5, &a, clock_unix_ms());
    assert_rc(book_sync(&b), 0);
    for (int i = 0; i < 3; i++) {
        assert_rc(book_checkpoint(&b), 0);
        assert_int_equal(b.journal.head.first, b.journal.durable);
        assert_true(b.journal.head.checkpoint_size < 5000);
        /* Records go on, and the next one begins with both. */
        assert_pair(book_do(&b, "tea", JOURNAL_RECORD_APPLY, 1), i + 2, 34 - i);
        book_open(&c, d->fd);
        assert_false(c.journal.cut);
        assert_int_equal(c.quotas.count, 2);
        compare_numbers(quotas_unnamed(&b.quotas), quotas_unnamed(&c.quotas));
        compare_numbers(book_quota(&b, "tea"), book_quota(&c, "tea"));
        e = idempotency_find(&c.quotas.keys, hash, clock_unix_ms());
        assert_true(e && e->request == 5 && e->number == 7 &&
                    e->remaining == 9 && e->form == ANSWER_PAIR);
        book_close(&c);
    }
    book_close(&b);
}

/* Else it would have a gap, and a checksum that is good. */
CASE(a_checkpoint_that_lacks_memory_is_none, d)
{
    unsigned n = 0;
    uint8_t *bytes;
    size_t size;
    struct book b;
    bool hit;

    book_open(&b, d->fd);
    for (int i = 0; i < 100; i++)
        (void)book_put(&b, NULL, JOURNAL_RECORD_APPLY, 1);
    do {
        int rc;

        fault_inject("memory", ++n, ENOMEM);
        rc = checkpoint_write(&b.quotas, &bytes, &size);
        hit = fault_hit();
        fault_clear();
        assert_rc(rc, hit ? -ENOMEM : 0);
        free(bytes); /* NULL where it failed */
    } while (hit);
    assert_true(n > 2);
    book_close(&b);
}

CASE(any_bit_of_a_checkpoint_is_reported, d)
{
    static uint8_t whole[FILE_MOST], bad[FILE_MOST];
    struct history h;
    struct state s;
    struct book b;
    bool cut;
    size_t end;

    book_open(&b, d->fd);
    write_groups(&b, &h);
    assert_rc(book_checkpoint(&b), 0);
    end = RECORDS_AT + b.journal.head.checkpoint_size;
    book_close(&b);
    (void)load_journal(d, whole, FILE_MOST);
    for (size_t bit = 0; bit < 8 * end; bit++) {
        const size_t at = bit / 8;

        if (at >= HEADER_AT(1) + HEADER_SIZE && at < RECORDS_AT)
            continue;
        memcpy(bad, whole, sizeof bad);
        bad[at] ^= (uint8_t)(1 << bit % 8);
        save_journal(d, bad, sizeof bad);
        put_note(d, NOTE_LOST, 0);
        if (at >= RECORDS_AT) {
            assert_rc(try_open(d, &s, &cut), -EBADMSG);
            continue;
        }
        assert_rc(try_open(d, &s, &cut), 0);
        assert_true(is_same(s, h.before[GROUPS]));
    }
}

/* The nth call fails: the old file or the new one, and the same state. */
CASE(a_checkpoint_that_fails_leaves_one_file_or_the_other, d)
{
    static const int errors[] = {EIO, ENOSPC};
    bool hit = true;

    for (unsigned n = 1; hit; n++) {
        const unsigned fds = fault_open_fds();
        struct state before;
        struct book b;

        book_open(&b, d->fd);
        (void)book_put(&b, NULL, JOURNAL_RECORD_APPLY, 1);
        assert_rc(book_sync(&b), 0);
        before = state_of(&b);
        fault_inject("disk", n, errors[n % 2]);
        (void)book_checkpoint(&b);
        hit = fault_hit();
        fault_clear();
        book_close(&b);
        assert_int_equal(fault_open_fds(), fds);
        book_open(&b, d->fd);
        assert_true(is_same(before, state_of(&b)));
        assert_false(b.journal.cut);
        assert_true(hit || b.journal.head.first == b.journal.durable);
        book_close(&b);
    }
}

CASE(a_journal_of_a_later_version_is_refused, d)
{
    static uint8_t bytes[FILE_MOST];
    struct state s;
    bool cut;

    (void)make_journal(d, bytes);
    for (size_t i = 0; i < HEADER_COPIES; i++) {
        uint8_t *at = bytes + HEADER_AT(i);

        at[40] = 1;
        put_le32(at + HEADER_SIZE - 4, crc_of(at, HEADER_SIZE - 4));
    }
    save_journal(d, bytes, sizeof bytes);
    assert_rc(try_open(d, &s, &cut), -EPROTO);
}
