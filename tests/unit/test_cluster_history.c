/* tests/unit/test_cluster_history.c - history in a Redis Cluster: the answers
 * are those of a plain table, in one part and in several. */
#include "tests/unit/cluster_parts.h"

#define KEYS    300
#define MINUTES 1301 /* as long before is still kept by the minute */

/* A batch of random keys and minutes of the last days, to both. */
static void
apply_both(struct site *x, struct random *seed)
{
    static struct store_delta deltas[KEYS * 4];
    static char keys[KEYS][16];
    const struct store_fill fill = {
        .uuid = {1}, .epoch = ++x->rounds, .first_ms = 1};
    size_t count = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        uint32_t minute = x->hour - 3 * 1440 + 7;

        (void)snprintf(keys[i], sizeof keys[i], "key%05u", i);
        for (uint64_t n = random_below(seed, 4); n > 0; n--) {
            const unsigned size = (unsigned)random_below(seed, 61);
            const uint64_t bits = random_next(seed);
            int64_t sum = (int64_t)(bits >> size);

            minute += 1 + (uint32_t)random_below(seed, 1400);
            if (random_below(seed, 3) == 0)
                sum = -(sum >> 1);
            if (minute >= x->hour)
                break;
            deltas[count++] =
                (struct store_delta){.key = (const uint8_t *)keys[i],
                                     .key_size = (uint16_t)strlen(keys[i]),
                                     .minute = minute,
                                     .sum_high = sum < 0 ? -1 : 0,
                                     .sum_low = (uint64_t)sum};
        }
    }
    assert_rc(stored_apply(x->s, "words", &fill, deltas, count), 0);
    assert_rc(stored_apply(x->oracle, "words", &fill, deltas, count), 0);
}

/* Every question about a span. */
static void
compare_span(struct site *x, uint32_t from, uint32_t to, uint32_t step)
{
    char key[16];
    struct store_history_query q = {
        .from = from, .to = to, .step = step, .length = 10};

    for (unsigned i = 0; i <= KEYS; i += 37) {
        q.key = (const uint8_t *)key;
        q.key_size = (size_t)snprintf(key, sizeof key, "key%05u", i);
        q.op = STORE_HISTORY_KEY;
        compare_history(x, q);
        q.op = STORE_HISTORY_RANK;
        compare_history(x, q);
    }
    q.key_size = 0;
    compare_history(x, q);
    q.op = STORE_HISTORY_KEYSPACE;
    compare_history(x, q);
    q.op = STORE_HISTORY_TOP;
    compare_history(x, q);
    q.length = KEYS;
    compare_history(x, q);
}

static void
compare_spans(struct site *x)
{
    const uint32_t day = x->hour / 1440 * 1440;

    await_sent(x->s);
    compare_span(x, x->hour - MINUTES, x->hour, 1);
    compare_span(x, x->hour - 1440, x->hour, 60);
    compare_span(x, x->hour - 47 * 60, x->hour - 60, 30);
    compare_span(x, x->hour - 120 * 60, x->hour, 60);
    compare_span(x, day - 10 * 1440, day, 1440);
}

BOTH(answers_are_those_of_a_table, x)
{
    struct random seed = {.state = random_seed(__func__)};

    for (unsigned i = 0; i < 5; i++)
        apply_both(x, &seed);
    compare_spans(x);
}

/* One that was deleted is in no sum of past times, either. */
BOTH(deleted_keys_leave_history, x)
{
    struct random seed = {.state = random_seed(__func__)};
    const struct store_key gone[2] = {{(const uint8_t *)"key00037", 8},
                                      {(const uint8_t *)"key00074", 8}};
    uint64_t deleted;

    apply_both(x, &seed);
    apply_both(x, &seed);
    await_sent(x->s);
    assert_rc(store_del(x->s, NAME, gone, 2, &deleted), 0);
    assert_rc(store_del(x->oracle, NAME, gone, 2, &deleted), 0);
    await_sent(x->s);
    for (unsigned i = 37; i <= 74; i += 37) {
        struct store_bucket b[1];
        char key[16];
        struct store_history_query q = {
            .op = STORE_HISTORY_KEY,
            .key = (const uint8_t *)key,
            .key_size = (size_t)snprintf(key, sizeof key, "key%05u", i),
            .from = x->hour - 6000,
            .to = x->hour,
            .step = 6000,
            .buckets = b};

        assert_rc(ask_history(x->s, &q), 0);
        assert_false(b[0].any);
    }
    apply_both(x, &seed);
    await_sent(x->s);
    compare_span(x, x->hour - MINUTES, x->hour, 1);
    compare_span(x, x->hour - 120 * 60, x->hour, 60);
}

PARTS(a_dropped_keyspace_has_no_past, x)
{
    struct random seed = {.state = random_seed(__func__)};
    /* No days divide the span at any time of day: the tier of hours answers. */
    struct store_history_query q = {
        .op = STORE_HISTORY_RANK, .from = x->hour - 7260, .to = x->hour};
    const struct store_delta d = {.key = (const uint8_t *)"a",
                                  .key_size = 1,
                                  .minute = (uint32_t)(clock_unix_ms() / 60000),
                                  .sum_low = 3};

    apply_both(x, &seed);
    assert_rc(store_drop(x->s, NAME), 0);
    await_sent(x->s);
    assert_rc(ask_history(x->s, &q), -ENODATA);
    assert_rc(stored_apply(x->s, "words", NULL, &d, 1), 0);
    await_sent(x->s);
    assert_rc(ask_history(x->s, &q), 0);
    assert_int_equal(q.keys, 0);
    assert_int_equal(q.since, 0);
    /* What came without a time is missing from then on. */
    assert_rc(stored_add(x->s, "words", NULL, "a", 3), 0);
    await_sent(x->s);
    assert_rc(ask_history(x->s, &q), 0);
    assert_in_range(q.since, d.minute, d.minute + 3 + 60);
}

/* What was counted before history was kept is missing, and the answer says so.
 */
CASE(history_that_begins_later_says_since_when, x)
{
    struct tiers_rules rules = x->config.history;
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    const struct store_delta d = {.key = (const uint8_t *)"a",
                                  .key_size = 1,
                                  .minute = now,
                                  .sum_low = 2};
    struct store_history_query q = {
        .op = STORE_HISTORY_RANK, .from = now - 100, .to = now + 21};
    const char *why;

    /* No hours divide the span: the tier of minutes answers. */
    store_close(x->s);
    assert_rc(tiers_rules_set(&x->config.history, NULL, "off", &why), 0);
    open_store(x);
    assert_rc(stored_apply(x->s, "words", NULL, &d, 1), 0);
    await_sent(x->s);
    assert_rc(ask_history(x->s, &q), -ENODATA);
    store_close(x->s);
    x->config.history = rules;
    open_store(x);
    assert_rc(stored_apply(x->s, "words", NULL, &d, 1), 0);
    await_sent(x->s);
    assert_rc(ask_history(x->s, &q), 0);
    assert_int_equal(q.sum.sum_low, 2);
    assert_in_range(q.since, now, now + 2);
}

CASE(spans_that_no_tier_divides_are_refused, x)
{
    struct store_bucket b[2];
    struct store_history_query q = {.op = STORE_HISTORY_KEYSPACE,
                                    .from = 0,
                                    .to = 3,
                                    .step = 2,
                                    .buckets = b};

    assert_rc(stored_add(x->s, "words", NULL, "a", 3), 0);
    await_sent(x->s);
    assert_rc(ask_history(x->s, &q), -EINVAL);
    q.to = 5000;
    q.step = 1;
    assert_rc(ask_history(x->s, &q), -E2BIG);
}
