/* tests/unit/test_quotas.c - what quotas answer, and that a replay of their
 * journal answers the same. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/quota_fixture.h"

static void
reopen(struct book *b, int dirfd)
{
    book_close(b);
    book_open(b, dirfd);
}

#define CASE(name, d)                                                          \
    TEST_IN(name, struct tmpdir *d, tmpdir_setup, tmpdir_teardown)

TEST(a_name_is_plain)
{
    static const char *const good[] = {"a", "Z9", "0", "a.b_c-d", "tea"};
    static const char *const bad[] = {"",    ".a",  "-",    "_a",
                                      "a/b", "a b", "a%41", "\xc3\xa9"};
    char name[QUOTA_NAME_MAX + 1];

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(quota_name_is_good(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(quota_name_is_good(bad[i], strlen(bad[i])));
    memset(name, 'a', sizeof name);
    assert_true(quota_name_is_good(name, QUOTA_NAME_MAX));
    assert_false(quota_name_is_good(name, QUOTA_NAME_MAX + 1));
}

/* ---- numbers ----------------------------------------------------- */

#define MANY 1000000

static long
memory(void)
{
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    assert_int_equal(fclose(f), 0);
    return kib;
}

CASE(any_of_a_million_numbers_is_cancelled_in_little_memory, d)
{
    const long before = memory();
    struct stat st;
    struct book b;

    book_open(&b, d->fd);
    assert_form(book_do(&b, NULL, JOURNAL_RECORD_INCREASE, 2 * (int64_t)MANY),
                ANSWER_REMAINING, LIMIT + 2 * MANY);
    for (int i = 1; i <= MANY; i++) {
        const struct key_answer a =
            book_put(&b, NULL, JOURNAL_RECORD_APPLY, 1 + i % 2);

        assert_int_equal(a.number, i);
        if (journal_free(&b.journal) < JOURNAL_CHANGE)
            assert_rc(book_sync(&b), 0);
        if (journal_is_short(&b.journal)) {
            assert_rc(journal_extend(d->fd, b.journal.size), 0);
            b.journal.size += JOURNAL_STEP;
        }
    }
    assert_pair(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, 1), MANY + 1,
                LIMIT + MANY / 2 + 2);
    assert_rc(book_sync(&b), 0);
    assert_true(memory() - before < 8 * 1024);
    reopen(&b, d->fd);
    assert_true(memory() - before < 8 * 1024);
    assert_form(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, 1), ANSWER_REFUSED,
                0);
    assert_pair(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, 2), MANY + 2,
                LIMIT + MANY / 2 + 3);
    assert_pair(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, MANY / 2 + 1),
                MANY + 3, LIMIT + MANY / 2 + 5);
    assert_int_equal(fstatat(d->fd, JOURNAL_NAME, &st, 0), 0);
    assert_true(st.st_size < 40 * (off_t)MANY);
    book_close(&b);
}

CASE(journal_numbers_are_the_same_in_the_file_and_in_the_tail, d)
{
    struct number all[JOURNAL_NUMBERS_TAIL], one;
    struct journal_numbers n;
    const uint64_t count = 3 * JOURNAL_NUMBERS_TAIL;

    journal_numbers_init(&n, d->fd);
    for (uint64_t i = 1; i <= count; i++) {
        assert_rc(journal_numbers_reserve(&n), 0);
        assert_rc(journal_numbers_reserve(&n), 0); /* room is made once */
        journal_numbers_add(&n, (struct number){.amount = (int64_t)i});
        assert_rc(journal_numbers_cancel(&n, 1 + i / 2, i), 0);
        for (uint64_t j = i > 4 ? i - 4 : 1; j <= i; j++) {
            assert_rc(journal_numbers_get(&n, j, &one), 0);
            assert_int_equal(one.amount, j);
        }
    }
    assert_rc(journal_numbers_get(&n, 0, &one), -ENOENT);
    assert_rc(journal_numbers_get(&n, count + 1, &one), -ENOENT);
    assert_rc(journal_numbers_get(&n, 5, &one), 0);
    assert_int_equal(one.other, 9); /* 8 and 9 cancelled it */
    for (uint64_t first = 1; first <= count;) {
        const int got = journal_numbers_read(&n, first, all, 100);

        assert_in_range(got, 1, 100);
        for (int i = 0; i < got; i++)
            assert_int_equal(all[i].amount, first++);
    }
    assert_int_equal(journal_numbers_read(&n, count + 1, all, 100), 0);
    assert_int_equal(tmpdir_count(d, "."), 0); /* the file has no name */
    journal_numbers_fini(&n);
}

#define BESIDE ((uint64_t)2000 * JOURNAL_NUMBERS_TAIL)

/* Reads the newest number while more are added; NULL: each was what it must
 * be. */
static void *
read_newest(void *ctx)
{
    struct journal_numbers *n = ctx;
    struct number one;
    uint64_t number;

    while ((number = n->count) < BESIDE)
        if (number > 0 && (journal_numbers_read(n, number, &one, 1) != 1 ||
                           one.amount != (int64_t)number))
            return ctx;
    return NULL;
}

CASE(the_newest_number_is_read_while_others_are_added, d)
{
    struct journal_numbers n;
    pthread_t thread;
    void *wrong;

    journal_numbers_init(&n, d->fd);
    assert_int_equal(pthread_create(&thread, NULL, read_newest, &n), 0);
    for (uint64_t i = 1; i <= BESIDE; i++) {
        assert_rc(journal_numbers_reserve(&n), 0);
        journal_numbers_add(&n, (struct number){.amount = (int64_t)i});
    }
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
    journal_numbers_fini(&n);
}

CASE(the_last_number_of_a_full_tail_is_cancelled_by_the_next_one, d)
{
    struct number n;
    struct book b;

    book_open(&b, d->fd);
    for (int i = 1; i <= JOURNAL_NUMBERS_TAIL; i++)
        assert_int_equal(book_put(&b, NULL, JOURNAL_RECORD_APPLY, 1).number, i);
    assert_pair(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, JOURNAL_NUMBERS_TAIL),
                JOURNAL_NUMBERS_TAIL + 1, LIMIT - JOURNAL_NUMBERS_TAIL + 1);
    assert_form(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, JOURNAL_NUMBERS_TAIL),
                ANSWER_REFUSED, 0);
    assert_rc(journal_numbers_get(&book_quota(&b, NULL)->numbers,
                                  JOURNAL_NUMBERS_TAIL, &n),
              0);
    assert_int_equal(n.other, JOURNAL_NUMBERS_TAIL + 1);
    book_close(&b);
}

CASE(a_number_that_has_no_room_changes_nothing, d)
{
    struct quota_request r = {.type = JOURNAL_RECORD_APPLY, .value = 1};
    struct quota_change c;
    struct key_answer a;
    struct book b;

    book_open(&b, d->fd);
    for (int i = 0; i < JOURNAL_NUMBERS_TAIL; i++)
        assert_int_equal(book_put(&b, NULL, JOURNAL_RECORD_APPLY, 1).number,
                         i + 1);
    r.quota = book_quota(&b, NULL);
    for (unsigned n = 1;; n++) {
        bool hit;
        int rc;

        assert_true(quotas_decide(&b.quotas, &r, &c, &a));
        fault_inject("disk", n, ENOSPC);
        rc = quotas_make(&b.quotas, &c, &a);
        hit = fault_hit();
        fault_clear();
        if (!hit) {
            assert_rc(rc, 0);
            break;
        }
        assert_rc(rc, -ENOSPC);
        assert_int_equal(r.quota->remaining, LIMIT - JOURNAL_NUMBERS_TAIL);
        assert_int_equal(r.quota->numbers.count, JOURNAL_NUMBERS_TAIL);
    }
    assert_int_equal(r.quota->numbers.count, JOURNAL_NUMBERS_TAIL + 1);
    book_close(&b);
}

/* ---- keys -------------------------------------------------------- */

static void
hash_of(uint32_t n, uint8_t hash[IDEMPOTENCY_HASH])
{
    memset(hash, 0, IDEMPOTENCY_HASH);
    put_le32(hash, n % 1000); /* many with one home */
    put_le32(hash + 4, n);
}

TEST(a_key_is_known_for_a_day_and_among_the_last_million)
{
    struct key_answer a = {.form = ANSWER_PAIR, .number = 7, .remaining = 8};
    const uint64_t now = 1700000000000;
    const struct key_entry *e;
    uint8_t hash[IDEMPOTENCY_HASH];
    struct idempotency k;

    assert_rc(idempotency_init(&k, IDEMPOTENCY_MAX), 0);
    for (uint32_t i = 0; i < 5000; i++) {
        hash_of(i, hash);
        assert_null(idempotency_find(&k, hash, now));
        a.number = i;
        idempotency_add(&k, hash, i, &a, now + i);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        hash_of(i, hash);
        e = idempotency_find(&k, hash, now + i + IDEMPOTENCY_MS - 1);
        assert_non_null(e);
        assert_int_equal(e->number, i);
        assert_null(
            idempotency_find(&k, hash, now + i + IDEMPOTENCY_MS + 1000));
    }
    hash_of(6000, hash);
    idempotency_forget(&k, now + 3000 + IDEMPOTENCY_MS);
    idempotency_add(&k, hash, 1, &a, now + 3000 + IDEMPOTENCY_MS);
    assert_true(idempotency_count(&k) > 1990 && idempotency_count(&k) < 2010);
    for (uint32_t i = 4000; i < 5000; i++) {
        hash_of(i, hash);
        assert_non_null(
            idempotency_find(&k, hash, now + 3000 + IDEMPOTENCY_MS));
    }
    idempotency_fini(&k);
}

/* The clock was two days ahead for a while. */
TEST(a_key_of_a_time_to_come_makes_no_other_go)
{
    const struct key_answer a = {.form = ANSWER_PAIR};
    const uint64_t now = 1700000000000;
    uint8_t first[IDEMPOTENCY_HASH], second[IDEMPOTENCY_HASH];
    struct idempotency k;

    hash_of(1, first);
    hash_of(2, second);
    assert_rc(idempotency_init(&k, 10), 0);
    idempotency_add(&k, first, 1, &a, now);
    idempotency_add(&k, second, 2, &a, now + 2 * IDEMPOTENCY_MS);
    assert_non_null(idempotency_find(&k, first, now + 1000));
    assert_non_null(idempotency_find(&k, second, now + 1000));
    idempotency_forget(&k, now + IDEMPOTENCY_MS + 1000);
    assert_null(idempotency_find(&k, first, now));
    assert_int_equal(idempotency_count(&k), 1);
    idempotency_fini(&k);
}

TEST(the_oldest_key_makes_way)
{
    const struct key_answer a = {.form = ANSWER_PAIR};
    const uint64_t now = 1700000000000;
    uint8_t hash[IDEMPOTENCY_HASH] = {0};
    struct idempotency k;

    assert_rc(idempotency_init(&k, IDEMPOTENCY_MAX), 0);
    for (uint32_t i = 0; i < IDEMPOTENCY_MAX + 3; i++) {
        put_le32(hash, i * 2654435761u);
        idempotency_add(&k, hash, i, &a, now);
    }
    assert_int_equal(idempotency_count(&k), IDEMPOTENCY_MAX);
    for (uint32_t i = 0; i < IDEMPOTENCY_MAX + 3; i += i < 4 ? 1 : 9973) {
        put_le32(hash, i * 2654435761u);
        assert_int_equal(idempotency_find(&k, hash, now) != NULL, i > 2);
    }
    idempotency_fini(&k);
}
