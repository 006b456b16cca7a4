/* tests/unit/test_answer.c - requests in, the bytes of their answers out. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/answer_fixture.h"

#define OUT_SIZE ((size_t)1 << 20)

/* Keyspace "words" has the 1, cat 2, ... */
static void
put_words(struct fixture *f)
{
    static const char *const keys[] = {"the", "cat", "sat", "on", "mats"};

    for (int i = 0; i < 5; i++)
        assert_rc(stored_add(f->store, "words", NULL, keys[i], i + 1), 0);
    assert_rc(stored_add(f->store, "one", NULL, "key", 7), 0);
}

static int
setup(void **state)
{
    *state = fixture_make(NULL, put_words, OUT_SIZE);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fixture *f, setup, teardown)

/* ---- requests and answers ---------------------------------------------- */

static struct query_range
range(const char *keyspace, int64_t offset, int64_t length)
{
    return (struct query_range){.offset = offset,
                                .length = length,
                                .keyspace = (const uint8_t *)keyspace,
                                .keyspace_size = (uint16_t)strlen(keyspace)};
}

static void
add(struct fixture *f, struct query_range q)
{
    assert_true(answer_add(&f->answer, &q));
}

/* The answers in f->out as "ROWS: COUNT KEY, COUNT KEY | ROWS: ..." */
static const char *
show(struct fixture *f, size_t size)
{
    static char text[2048];
    const uint8_t *at = f->out, *end;
    size_t n = 0;

    while (at < f->out + size) {
        struct query_reply r;

        query_reply_get(at, &r);
        assert_true(r.rows < 0 || r.as_of_ms > 0);
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%s%lld:", at > f->out ? " | " : "",
                              (long long)r.rows);
        at += QUERY_REPLY_SIZE;
        for (end = at + r.size; at < end;) {
            const uint16_t key_size = get_le16(at + 8);
            const char *key = (const char *)at + QUERY_ROW_SIZE;

            n += (size_t)snprintf(text + n, sizeof text - n, " %lld %.*s%s",
                                  (long long)get_le64s(at), key_size, key,
                                  at + QUERY_ROW_SIZE + key_size < end ? ","
                                                                       : "");
            at += QUERY_ROW_SIZE + key_size;
        }
        assert_ptr_equal(at, end);
        assert_true(n < sizeof text);
    }
    assert_ptr_equal(at, f->out + size);
    return text;
}

/* Answers what was added. */
static const char *
answer(struct fixture *f, bool fails)
{
    bool failed;
    const size_t size = answer_put(&f->answer, f->out, &failed);

    assert_int_equal(failed, fails);
    return show(f, size);
}

/* ---- what is answered together ----------------------------------------- */

CASE(answers_are_in_the_order_of_requests_each_behind_its_head, f)
{
    add(f, range("words", 0, 2));
    add(f, range("none", 0, 4096));
    add(f, range("one", 0, 4096));
    add(f, range("words", -2, 10));
    add(f, range("words", -100, 1));
    add(f, range("words", 5, 10));
    add(f, range("words", 0, 0));

    assert_string_equal(answer(f, false),
                        "2: 5 mats, 4 on | 0: | 1: 7 key | 2: 2 cat, 1 the | "
                        "1: 5 mats | 0: | 0:");
}

CASE(a_batch_has_an_end_and_the_next_begins_behind_it, f)
{
    const struct query_range more = range("one", 0, 1);

    for (int batch = 0; batch < 2; batch++) {
        const char *at;

        for (int i = 0; i < ANSWER_BATCH; i++)
            add(f, range("words", i % 5, 1));
        assert_false(answer_add(&f->answer, &more));
        at = answer(f, false);
        for (int i = 0; i < ANSWER_BATCH; i++) {
            assert_memory_equal(at, "1: ", 3);
            assert_int_equal(at[3], '5' - i % 5);
            at += strcspn(at, "|");
            at += strspn(at, "| ");
        }
        assert_int_equal(*at, '\0');
    }
}

/* The bounds are what a connection has room for. */
CASE(nothing_is_written_behind_the_bounds_of_a_batch, f)
{
    size_t bound = 0;

    memset(f->out, 0xa5, OUT_SIZE);
    for (int i = 0; i < 10; i++) {
        const struct query_range q = range("words", 4 - i, i % 3);

        bound += answer_bound(&q);
        add(f, q);
    }
    (void)answer(f, false); /* its size is at most that */

    for (size_t i = bound; i < OUT_SIZE; i++)
        assert_int_equal(f->out[i], 0xa5);
}

CASE(one_query_is_answered_with_what_was_claimed_before, f)
{
    struct store_query q = {.op = STORE_RANK,
                            .name = (const uint8_t *)"words",
                            .name_size = 5,
                            .key = (const uint8_t *)"cat",
                            .key_size = 3};
    int64_t as_of_ms = 0;

    assert_rc(answer_query(&f->answer, &q, f->out, OUT_SIZE, &as_of_ms), 0);
    assert_true(q.rank == 3 && q.row.count == 2);
    assert_int_equal(as_of_ms, as_of_get(&f->as_of, q.name, q.name_size));
    q.key = (const uint8_t *)"dog";
    assert_rc(answer_query(&f->answer, &q, f->out, OUT_SIZE, &as_of_ms),
              -ENOENT);
    break_keyspace(f, "broken");
    q.name = (const uint8_t *)"broken";
    q.name_size = 6;
    assert_rc(answer_query(&f->answer, &q, f->out, OUT_SIZE, &as_of_ms),
              -EBADMSG);
}

/* ---- what cannot be read ----------------------------------------------- */

CASE(a_keyspace_that_cannot_be_read_is_the_last_answer, f)
{
    break_keyspace(f, "broken");
    add(f, range("words", 0, 1));
    add(f, range("one", 0, 1));
    add(f, range("broken", 0, 4096));
    add(f, range("words", 1, 1));
    assert_string_equal(answer(f, true), "1: 5 mats | 1: 7 key | -5:");

    /* Another connection's requests are no worse for it. */
    add(f, range("words", 1, 1));
    assert_string_equal(answer(f, false), "1: 4 on");
}

/* ---- snapshots --------------------------------------------------------- */

static struct store_engine spied;
static const struct store_engine *engine;
static struct fixture *spied_on;
static unsigned kept; /* reads since the last end */

static size_t
spy_read(struct store *s, struct store_reads *reads)
{
    /* Whoever claims by a look that comes from here on claims too much. */
    spied_on->as_of.as_of_ms = 1;
    kept++;
    return engine->read(s, reads);
}

static void
spy_read_end(struct store *s)
{
    kept = 0;
    engine->read_end(s);
}

static void
spy(struct fixture *f)
{
    spied_on = f;
    engine = f->store->engine;
    spied = *engine;
    spied.read = spy_read;
    spied.read_end = spy_read_end;
    f->store->engine = &spied;
    kept = 0;
}

CASE(a_snapshot_is_kept_until_the_turn_ends, f)
{
    spy(f);
    for (unsigned i = 1; i <= 3; i++) {
        add(f, range("words", 0, 1));
        (void)answer(f, false); /* looked at elsewhere */
        assert_int_equal(kept, i);
    }
    answer_end_turn(&f->answer);
    assert_int_equal(kept, 0);
    f->store->engine = engine;
}

CASE(what_is_claimed_was_known_before_the_snapshot, f)
{
    struct query_reply r;

    spy(f);
    add(f, range("words", 0, 1));
    add(f, range("one", 0, 1));
    (void)answer(f, false); /* looked at below */
    query_reply_get(f->out, &r);
    assert_true(r.as_of_ms > 1);
    query_reply_get(f->out + QUERY_REPLY_SIZE + r.size, &r);
    assert_true(r.as_of_ms > 1);
    f->store->engine = engine;
}
