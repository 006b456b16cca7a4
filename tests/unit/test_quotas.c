/* tests/unit/test_quotas.c - what quotas answer, and that a replay of their
 * journal answers the same. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/quota_fixture.h"

static void
reopen_book(struct book *b, int dirfd)
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

#define MANY 100000

CASE(any_of_many_numbers_is_cancelled, d)
{
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
    }
    assert_pair(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, 1), MANY + 1,
                LIMIT + MANY / 2 + 2);
    assert_rc(book_sync(&b), 0);
    reopen_book(&b, d->fd);
    assert_form(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, 1), ANSWER_REFUSED,
                0);
    assert_pair(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, 2), MANY + 2,
                LIMIT + MANY / 2 + 3);
    assert_pair(book_put(&b, NULL, JOURNAL_RECORD_CANCEL, MANY / 2 + 1),
                MANY + 3, LIMIT + MANY / 2 + 5);
    book_close(&b);
}

CASE(a_number_that_has_no_memory_changes_nothing, d)
{
    struct quota_request r = {.type = JOURNAL_RECORD_APPLY, .value = 1};
    struct journal_record record;
    struct key_answer a;
    struct book b;

    book_open(&b, d->fd);
    r.quota = book_quota(&b, NULL);
    assert_true(quotas_decide(&b.quotas, &r, &record, &a));
    fault_inject("memory", 1, ENOMEM);
    assert_rc(quotas_make(&b.quotas, &r, &record, &a), -ENOMEM);
    assert_true(fault_hit());
    fault_clear();
    assert_int_equal(r.quota->remaining, LIMIT);
    assert_int_equal(r.quota->count, 0);
    assert_rc(quotas_make(&b.quotas, &r, &record, &a), 0);
    assert_int_equal(r.quota->count, 1);
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
    assert_in_range(idempotency_count(&k), 4900, 4999); /* a few at a time */
    for (int i = 0; i < 100; i++)
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
