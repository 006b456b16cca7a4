/* tests/unit/test_answer.c - requests in, the bytes of their answers out. */
#include "tests/unit/answer_fixture.h"

#include "common/base/clock.h"

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

static struct query
query(enum query_op op, const char *keyspace, const char *key)
{
    return (struct query){.op = op,
                          .length = op == QUERY_KEYSPACES ? QUERY_ROWS_MAX : 1,
                          .keyspace = (const uint8_t *)keyspace,
                          .keyspace_size = (uint16_t)strlen(keyspace),
                          .key = (const uint8_t *)key,
                          .key_size = (uint16_t)strlen(key)};
}

static struct query
range(const char *keyspace, int64_t offset, int64_t length)
{
    struct query q = query(QUERY_RANGE, keyspace, "");

    q.offset = offset;
    q.length = length;
    return q;
}

/* The request for as_of_ms and nothing else. */
static struct query
past_all(void)
{
    static uint8_t last[QUERY_NAME_SIZE];
    struct query q = {.op = QUERY_KEYSPACES,
                      .length = QUERY_ROWS_MAX,
                      .keyspace = last,
                      .keyspace_size = QUERY_NAME_SIZE};

    memset(last, 0xff, sizeof last);
    return q;
}

static void
add(struct fixture *f, struct query q)
{
    assert_true(answer_add(&f->answer, &q));
}

/* The next answer at *at: its rows as "count key, count key" text. */
static const char *
rows_at(const uint8_t **at, int64_t *rows)
{
    static char text[512];
    struct query_reply r;
    const uint8_t *end;
    size_t size = 0;

    query_reply_get(*at, &r);
    *at += QUERY_REPLY_SIZE;
    end = *at + r.size;
    *rows = r.rows;
    assert_true(r.rows < 0 || r.as_of_ms > 0);
    text[0] = '\0';
    while (*at < end) {
        const size_t key_size = get_le16(*at + 8);

        size +=
            (size_t)snprintf(text + size, sizeof text - size, "%s%lld %.*s",
                             size > 0 ? ", " : "", (long long)get_le64s(*at),
                             (int)key_size, (const char *)*at + QUERY_ROW_SIZE);
        assert_true(size < sizeof text);
        *at += QUERY_ROW_SIZE + key_size;
    }
    assert_ptr_equal(*at, end);
    return text;
}

static void
expect_rows(const uint8_t **at, int64_t rows, const char *text)
{
    int64_t found;

    assert_string_equal(rows_at(at, &found), text);
    assert_int_equal(found, rows);
}

/* Answers what was added; the end of the answers. */
static const uint8_t *
answer(struct fixture *f, bool fails)
{
    bool failed;
    const size_t size = answer_put(&f->answer, f->out, &failed);

    assert_int_equal(failed, fails);
    return f->out + size;
}

/* ---- what is answered together ----------------------------------------- */

CASE(answers_are_in_the_order_of_requests_each_behind_its_head, f)
{
    const uint8_t *at = f->out, *end;

    add(f, range("words", 0, 2));
    add(f, query(QUERY_GET, "words", "cat"));
    add(f, query(QUERY_GET, "words", "dog"));
    add(f, range("none", 0, 4096));
    add(f, range("one", 0, 4096));
    add(f, query(QUERY_RANK, "words", "cat"));
    add(f, query(QUERY_TOTAL, "words", ""));
    add(f, query(QUERY_TOTAL, "none", ""));
    add(f, range("words", -2, 10));
    add(f, range("words", -100, 1));
    add(f, range("words", 5, 10));
    add(f, range("words", 0, 0));
    end = answer(f, false);

    expect_rows(&at, 2, "5 mats, 4 on");
    expect_rows(&at, 1, "2 cat");
    expect_rows(&at, 0, "");
    expect_rows(&at, 0, "");
    expect_rows(&at, 1, "7 key");
    expect_rows(&at, 1, "3 cat");
    expect_rows(&at, 1, "15 ");
    expect_rows(&at, 0, "");
    expect_rows(&at, 2, "2 cat, 1 the");
    expect_rows(&at, 1, "5 mats");
    expect_rows(&at, 0, "");
    expect_rows(&at, 0, "");
    assert_ptr_equal(at, end);
}

CASE(a_batch_has_an_end_and_the_next_begins_behind_it, f)
{
    const struct query more = range("one", 0, 1);
    const uint8_t *at, *end;

    for (int batch = 0; batch < 2; batch++) {
        for (int i = 0; i < ANSWER_BATCH; i++)
            add(f, range("words", i % 5, 1));
        assert_false(answer_add(&f->answer, &more));
        at = f->out;
        end = answer(f, false);
        for (int i = 0; i < ANSWER_BATCH; i++) {
            int64_t rows;

            assert_int_equal(rows_at(&at, &rows)[0], '5' - i % 5);
            assert_int_equal(rows, 1);
        }
        assert_ptr_equal(at, end);
    }
}

/* The bounds are what a connection has room for. */
CASE(nothing_is_written_behind_the_bounds_of_a_batch, f)
{
    size_t bound = 0;

    memset(f->out, 0xa5, OUT_SIZE);
    for (int i = 0; i < 10; i++) {
        const struct query q = range("words", 4 - i, i % 3);

        bound += answer_bound(&q);
        add(f, q);
    }
    (void)answer(f, false); /* its size is at most that */

    for (size_t i = bound; i < OUT_SIZE; i++)
        assert_int_equal(f->out[i], 0xa5);
}

/* Whoever waits until as_of_ms is this time has waited long enough. */
CASE(the_servers_time_is_no_earlier_than_what_is_readable, f)
{
    const int64_t before = (int64_t)clock_unix_ms();
    struct query_reply reply;

    add(f, query(QUERY_NOW, "", ""));
    (void)answer(f, false);
    query_reply_get(f->out, &reply);
    assert_int_equal(reply.rows, 1);
    assert_in_range(get_le64s(f->out + QUERY_REPLY_SIZE), (uint64_t)before,
                    clock_unix_ms());
    assert_true(reply.as_of_ms <= get_le64s(f->out + QUERY_REPLY_SIZE));
}

CASE(facts_of_a_key_and_of_a_keyspace_are_rows_with_words, f)
{
    const uint8_t *at = f->out, *end;

    add(f, query(QUERY_ABOUT, "words", "cat"));
    end = answer(f, false);
    expect_rows(&at, 3, "2 count, 3 rank, 0 saturated");
    assert_ptr_equal(at, end);
    at = f->out;
    add(f, query(QUERY_ABOUT, "words", ""));
    end = answer(f, false);
    expect_rows(&at, 3, "15 total, 5 keys, 0 saturated");
    assert_ptr_equal(at, end);
    at = f->out;
    add(f, query(QUERY_ABOUT, "words", "dog"));
    (void)answer(f, false);
    expect_rows(&at, 0, "");
}

CASE(as_of_alone_is_asked_for_alone, f)
{
    const struct query last = past_all(), first = range("words", 0, 1);
    const uint8_t *at = f->out, *end;

    assert_false(answer_is_long(&last));
    assert_int_equal(answer_bound(&last), QUERY_REPLY_SIZE);
    add(f, first);
    assert_false(answer_add(&f->answer, &last));
    end = answer(f, false);
    expect_rows(&at, 1, "5 mats");
    assert_ptr_equal(at, end);

    at = f->out;
    add(f, last);
    assert_false(answer_add(&f->answer, &first));
    end = answer(f, false);
    expect_rows(&at, 0, "");
    assert_ptr_equal(at, end);
    add(f, first);
}

/* ---- what cannot be read ----------------------------------------------- */

CASE(a_keyspace_that_cannot_be_read_is_the_last_answer, f)
{
    const uint8_t *at = f->out, *end;

    break_keyspace(f, "broken");
    add(f, range("words", 0, 1));
    add(f, query(QUERY_GET, "one", "key"));
    add(f, range("broken", 0, 4096));
    add(f, range("words", 1, 1));
    end = answer(f, true);

    expect_rows(&at, 1, "5 mats");
    expect_rows(&at, 1, "7 key");
    expect_rows(&at, -EIO, "");
    assert_ptr_equal(at, end);

    /* Another connection's requests are no worse for it. */
    at = f->out;
    add(f, range("words", 1, 1));
    end = answer(f, false);
    expect_rows(&at, 1, "4 on");
    assert_ptr_equal(at, end);
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

/* ---- listings ---------------------------------------------------------- */

/* Makes a whole listing, step by step; the end of the answer. */
static const uint8_t *
list(struct fixture *f, const char *after, unsigned *steps)
{
    const struct query q = query(QUERY_KEYSPACES, after, "");
    bool failed;
    size_t size;

    assert_true(answer_is_long(&q));
    answer_end_turn(&f->answer);
    answer_long_start(&f->answer, &q, TURN_MS);
    for (*steps = 1; !answer_long_step(&f->answer); ++*steps)
        continue;
    size = answer_long_size(&f->answer);
    assert_int_equal(answer_long_put(&f->answer, f->out, &failed), size);
    assert_false(failed);
    return f->out + size;
}

CASE(a_listing_names_keyspaces_and_their_keys, f)
{
    const uint8_t *at = f->out, *end;
    unsigned steps;

    end = list(f, "", &steps);
    expect_rows(&at, 2, "1 one, 5 words");
    assert_ptr_equal(at, end);

    at = f->out;
    end = list(f, "one", &steps);
    expect_rows(&at, 1, "5 words");
    assert_ptr_equal(at, end);
}

CASE(a_listing_takes_as_many_steps_as_it_is_given_time, f)
{
    const uint8_t *at = f->out, *end;
    unsigned steps;

    f->answer.step_ms = 0; /* a keyspace at a step */
    end = list(f, "", &steps);
    expect_rows(&at, 2, "1 one, 5 words");
    assert_ptr_equal(at, end);
    assert_in_range(steps, 2, 1000);

    /* What was begun and given up leaves nothing behind. */
    f->answer.step_ms = 0;
    answer_long_start(
        &f->answer,
        &(struct query){.op = QUERY_KEYSPACES, .length = QUERY_ROWS_MAX}, 1);
    (void)answer_long_step(&f->answer); /* it is not done */
    answer_long_stop(&f->answer);
    at = f->out;
    end = list(f, "", &steps);
    expect_rows(&at, 2, "1 one, 5 words");
    assert_ptr_equal(at, end);
}

CASE(a_short_listing_says_that_there_are_more, f)
{
    struct query q = query(QUERY_KEYSPACES, "", "");

    for (q.length = 1; q.length <= 3; q.length++) {
        answer_end_turn(&f->answer);
        answer_long_start(&f->answer, &q, TURN_MS);
        while (!answer_long_step(&f->answer))
            continue;
        assert_int_equal(f->answer.list.count, q.length == 1 ? 1 : 2);
        assert_int_equal(f->answer.list.has_more, q.length == 1);
    }
}

static int
no_next(struct store_listing *l, uint64_t until_ns, struct store_listed *out)
{
    (void)l; /* of any */
    (void)until_ns;
    (void)out;
    return -EIO;
}

CASE(a_listing_that_cannot_be_made_says_so, f)
{
    const struct query q = query(QUERY_KEYSPACES, "", "");
    const struct store_engine *real = f->answer.list.from->engine;
    const uint8_t *at = f->out;
    bool failed;

    spied = *real;
    spied.listing_next = no_next;
    f->answer.list.from->engine = &spied;
    answer_long_start(&f->answer, &q, TURN_MS);
    assert_true(answer_long_step(&f->answer));
    assert_int_equal(answer_long_put(&f->answer, f->out, &failed),
                     QUERY_REPLY_SIZE);
    assert_true(failed);
    expect_rows(&at, -EIO, "");
    f->answer.list.from->engine = real;
}

CASE(a_start_without_memory_leaks_nothing, f)
{
    struct answer another;
    bool hit = true;
    int rc;

    for (unsigned n = 1; hit; n++) {
        fault_inject("memory", n, ENOMEM);
        rc = answer_init(&another, f->store, &f->as_of);
        hit = fault_hit();
        fault_clear();
        assert_rc(rc, hit ? -ENOMEM : 0);
    }
    answer_fini(&another);
}
