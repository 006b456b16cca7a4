/* tests/unit/test_cluster_store.c - the engine on a Redis Cluster: the same
 * batches as the engine of the tests gives the same answers, in one part and in
 * several; and nothing counts twice or is lost when servers die. */
#include "tests/unit/cluster_parts.h"

#include "common/store/cluster/sender_internal.h"

static size_t
count_entries(struct outbox *o, const char *name)
{
    return outbox_find(o, (const uint8_t *)name, strlen(name))->parts[0].count;
}

/* Waits until no entry of a keyspace is left in the outbox: replicas have them.
 * Returns how many of "words" are. */
static size_t
await_settled(struct site *x, const char *name)
{
    const struct outbox_options options = {.data_fd = x->dir.fd, .parts = 1};
    const uint64_t end_ms = clock_ms() + (uint64_t)WAIT_MS * test_slow();
    struct outbox *o;
    size_t entries;

    assert_rc(outbox_open(&o, &options), 0);
    while (count_entries(o, name) > 0) {
        assert_true(clock_ms() < end_ms);
        (void)poll(NULL, 0, 10);
        assert_rc(outbox_refresh(o), 0);
    }
    entries = count_entries(o, "words");
    outbox_close(o);
    return entries;
}

static int64_t
count_of(struct site *x, const char *key)
{
    struct store_row row = {.count = -1};

    await_sent(x->s);
    assert_rc(stored_get(x->s, "words", key, &row), 0);
    return row.count;
}

static void
add(struct site *x, const char *key, int64_t sum)
{
    assert_rc(stored_add(x->s, "words", NULL, key, sum), 0);
}

/* Adds 1 to "a" `count` times, in entries of their own, and waits until it is
 * `sum`. */
static void
add_ones(struct site *x, unsigned count, int64_t sum)
{
    for (unsigned i = 0; i < count; i++)
        add(x, "a", 1);
    assert_int_equal(count_of(x, "a"), sum);
}

static const struct store_fill fill3 = {.uuid = {7}, .epoch = 3, .first_ms = 5};

static int
count_mark(void *ctx, const struct store_fill *m,
           const struct store_mark_info *info)
{
    (void)m;
    assert_int_equal(info->state, STORE_MARK_DONE);
    ++*(unsigned *)ctx;
    return 0;
}

CASE(a_keyspace_of_another_directory_has_no_marks, x)
{
    struct site y = *x;
    unsigned count = 0;

    assert_rc(stored_add(x->s, "words", &fill3, "the", 4), 0);
    open_directory(&y);
    assert_rc(store_each_mark(y.s, NAME, count_mark, &count), 0);
    assert_int_equal(count, 0);
    assert_rc(store_each_mark(x->s, NAME, count_mark, &count), 0);
    assert_int_equal(count, 1);
    close_directory(&y);
}

/* ---- the same as the engine of the tests --------------------------------- */

/* Rows by key: from a position, a beginning of keys and another key on; and by
 * rank from the end. */
static void
compare_keys(struct site *x)
{
    static const char *const prefixes[] = {
        "", "k", "key01", "key0123", "key02999", "none", "\xff"};
    static const char *const afters[] = {
        "", "key", "key00999", "key01", "key0102", "key02998", "zz"};

    await_sent(x->s);
    for (unsigned i = 0; i < 7; i++)
        for (unsigned j = 0; j < 7; j++)
            for (int64_t offset = 0; offset < KEYS_MAX + 10; offset += 397)
                compare_answers(x, (struct store_query){
                                       .op = STORE_KEYS,
                                       .offset = offset,
                                       .length = 30,
                                       .prefix = (const uint8_t *)prefixes[i],
                                       .prefix_size = strlen(prefixes[i]),
                                       .after = (const uint8_t *)afters[j],
                                       .after_size = strlen(afters[j])});
    for (int64_t offset = -KEYS_MAX - 5; offset < 0; offset += 599)
        compare_answers(x, (struct store_query){.op = STORE_RANGE,
                                                .offset = offset,
                                                .length = 7});
}

BOTH(answers_are_those_of_the_other_engine, x)
{
    struct store_key gone[3] = {{(const uint8_t *)"key00000", 8},
                                {(const uint8_t *)"key00001", 8},
                                {(const uint8_t *)"none", 4}};
    uint64_t deleted, deleted_there;

    for (unsigned round = 0; round < 3; round++)
        count_both(x, x->s, true);
    compare_all(x);
    compare_keys(x);
    assert_rc(store_del(x->s, NAME, gone, 3, &deleted), 0);
    assert_rc(store_del(x->oracle, NAME, gone, 3, &deleted_there), 0);
    assert_int_equal(deleted, deleted_there);
    compare_all(x);
    compare_keys(x);
}

static int
list_words(struct site *x)
{
    uint8_t bytes[1024];

    await_sent(x->s);
    return stored_keys(x->s, "words", 0, "", "", 9, bytes, sizeof bytes);
}

CASE(keys_have_an_order_if_their_keyspace_was_made_with_one, x)
{
    x->config.store_key_order = false;
    reopen_store(x);
    add(x, "a", 1);
    assert_rc(list_words(x), -EOPNOTSUPP);
    x->config.store_key_order = true;
    reopen_store(x);
    add(x, "b", 1);
    assert_rc(list_words(x), -EOPNOTSUPP);
    assert_rc(store_drop(x->s, NAME), 0);
    assert_int_equal(list_words(x), -ENOENT);
    add(x, "b", 1);
    assert_int_equal(list_words(x), 1);
    x->config.store_key_order = false;
    reopen_store(x);
    add(x, "a", 1);
    assert_int_equal(list_words(x), 2);
}

static int
add_name(void *ctx, const uint8_t *name, size_t name_size, int64_t keys)
{
    char *text = ctx;

    (void)strncat(text, (const char *)name, name_size);
    (void)sprintf(text + strlen(text), "%lld ", (long long)keys);
    return 0;
}

/* ---- faults -------------------------------------------------------------- */

static unsigned
master_of_words(void)
{
    return master_of(1, "words", 0, 0);
}

/* Runs a command about a hash or an order of "words": 'c', 'z' or 'k'. */
static const char *
run_part(char kind, const char *format, const void *word, size_t size)
{
    struct cluster_part_keys keys = cluster_part_keys(NAME, 0, 0);

    ((char *)memchr(keys.order, '}', keys.size))[1] = kind;
    return cluster_servers_run(&servers, master_of_words(), format, keys.order,
                               keys.size, word, size);
}

static void
count_fault(void *ctx, const char *text)
{
    (void)text;
    ++*(unsigned *)ctx;
}

/* Whichever key of a part somebody deletes: what the outbox retains, and the
 * counts, bring it back. */
CASE(a_part_without_one_of_its_keys_is_whole_again, x)
{
    static const char kinds[] = "czk";
    struct store_check_result result;
    unsigned faults = 0;

    for (unsigned i = 0; i < 3; i++) {
        add(x, "a", 1);
        add(x, "b", 10);
        await_sent(x->s);
        assert_string_equal(run_part(kinds[i], "DEL %b", NULL, 0), "1");
        add(x, "c", 100);
        assert_int_equal(count_of(x, "c"), 100 * (i + 1));
        assert_int_equal(count_of(x, "a"), i + 1);
        assert_int_equal(count_of(x, "b"), 10 * (i + 1));
        assert_int_equal(list_words(x), 3);
        assert_rc(store_check(x->s, NAME, count_fault, &faults, &result), 0);
        assert_int_equal(faults, 0);
    }
}

static unsigned
count_faults(struct site *x)
{
    struct store_check_result result;
    unsigned faults = 0;

    assert_rc(store_check(x->s, NAME, count_fault, &faults, &result), 0);
    assert_int_equal(result.faults, faults);
    return faults;
}

CASE(a_check_finds_rows_that_others_changed, x)
{
    static const struct {
        char kind;
        const char *format, *word;
        unsigned faults;
    } changes[] = {
        /* Not in the order, and not as many. */
        {'z', "ZPOPMIN %b", "", 2},
        {'z', "ZADD %b 0 %b", "123456789", 1},
        /* The order of keys: one that is not in it. */
        {'k', "ZREM %b %b", "key00007", 2},
        {'k', "ZADD %b 0 %b", "key00007", 1},
        /* Neither in the orders nor in the totals, nor in history. */
        {'c', "HSET %b %b 12345678", "none", 3},
    };

    count_both(x, x->s, true);
    await_sent(x->s);
    assert_int_equal(count_faults(x), 0);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        print_message("%s %s\n", changes[i].format, changes[i].word);
        (void)run_part(changes[i].kind, changes[i].format, changes[i].word,
                       strlen(changes[i].word));
        assert_int_equal(count_faults(x), changes[i].faults);
    }
}

static char last_fault[1024];

static void
keep_fault(void *ctx, const char *text)
{
    ++*(unsigned *)ctx;
    (void)snprintf(last_fault, sizeof last_fault, "%s", text);
}

/* Adds now: a batch without a time has no history. */
static void
add_now(struct site *x, const char *key, int64_t sum)
{
    const struct store_delta d = {.key = (const uint8_t *)key,
                                  .key_size = (uint16_t)strlen(key),
                                  .minute = (uint32_t)(clock_unix_ms() / 60000),
                                  .sum_high = sum < 0 ? -1 : 0,
                                  .sum_low = (uint64_t)sum};

    assert_rc(stored_apply(x->s, "words", NULL, &d, 1), 0);
}

/* Gives "the", which has 6, another count in the row and in its order. */
static void
alter_count(void)
{
    (void)run_part('c', "HSET %b the %b", "\0\0\0\0\0\0\0\7", 8);
    (void)run_part('z', "ZREM %b %b", "\x7f\xff\xff\xff\xff\xff\xff\xf9the",
                   11);
    (void)run_part('z', "ZADD %b 0 %b", "\x7f\xff\xff\xff\xff\xff\xff\xf8the",
                   11);
}

/* The orders and totals may fit it: history does not. */
CASE(a_check_names_a_count_that_was_altered, x)
{
    const struct store_key gone = {(const uint8_t *)"gone", 4};
    struct store_check_result result;
    unsigned faults = 0;
    uint64_t deleted;

    for (unsigned i = 0; i < 300; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "key%u", i);
        add_now(x, key, (int64_t)i * i - 1000);
    }
    add_now(x, "gone", 7);
    add_now(x, "the", 6);
    assert_rc(store_del(x->s, NAME, &gone, 1, &deleted), 0);
    add_now(x, "gone", 1);
    add_now(x, "minus", -1);
    await_sent(x->s);
    assert_int_equal(count_faults(x), 0);

    alter_count();
    assert_rc(store_check(x->s, NAME, keep_fault, &faults, &result), 0);
    assert_int_equal(faults, 2); /* totals, too */
    /* The rebuilding of an order makes the totals fit. */
    (void)run_part('z', "DEL %b", NULL, 0);
    add_now(x, "key1", 1);
    await_sent(x->s);
    faults = 0;
    assert_rc(store_check(x->s, NAME, keep_fault, &faults, &result), 0);
    assert_int_equal(faults, 1);
    assert_string_equal(last_fault,
                        "part 0: rows with another count than the sum of their "
                        "history: 1, such as key the");
}

/* A key that was on its way is deleted, though it is sent while those before
 * and after it are looked for. */
BOTH(a_key_that_is_sent_during_its_deletion_is_deleted, x)
{
    static char names[64][8];
    struct store_key keys[64];
    struct store_row row;
    uint64_t deleted;

    add_now(x, "the", 6);
    for (unsigned i = 0; i < 64; i++) {
        (void)snprintf(names[i], sizeof names[i], "key%u", i);
        keys[i] = (struct store_key){(const uint8_t *)names[i],
                                     (uint16_t)strlen(names[i])};
    }
    for (unsigned i = 0; i < 20; i++) {
        await_sent(x->s);
        add_now(x, "key0", 1);
        assert_rc(store_del(x->s, NAME, keys, 64, &deleted), 0);
        await_sent(x->s);
        assert_rc(stored_get(x->s, "words", "key0", &row), -ENOENT);
    }
}

CASE(counts_without_history_are_not_compared_with_it, x)
{
    struct tiers_rules rules = x->config.history;
    const char *why;

    add_now(x, "the", 6);
    await_sent(x->s);
    assert_rc(tiers_rules_set(&x->config.history, NULL, "off", &why), 0);
    reopen_store(x);
    add_now(x, "the", 6);
    await_sent(x->s);
    x->config.history = rules;
    reopen_store(x);
    add_now(x, "the", 6);
    assert_int_equal(count_of(x, "the"), 18);
    assert_int_equal(count_faults(x), 0);
}

/* The entry from before history waits, and is sent after. */
CASE(a_batch_that_waited_without_history_is_not_compared, x)
{
    struct tiers_rules rules = x->config.history;
    const char *why;
    unsigned server;

    server = master_of_words();
    (void)cluster_servers_run(&servers, server, "CONFIG SET maxmemory 1");
    assert_rc(tiers_rules_set(&x->config.history, NULL, "off", &why), 0);
    reopen_store(x);
    add_now(x, "the", 6);
    x->config.history = rules;
    reopen_store(x);
    add_now(x, "the", 6);
    (void)cluster_servers_run(&servers, server, "CONFIG SET maxmemory 0");
    assert_int_equal(count_of(x, "the"), 12);
    assert_int_equal(count_faults(x), 0);
}

CASE(what_the_cluster_lost_is_sent_again, x)
{
    add_ones(x, 20, 20);
    /* An empty cluster is one that lost everything. */
    cluster_servers_flush(&servers);
    add_ones(x, 1, 21);
}

CASE(a_loss_is_found_without_another_increment, x)
{
    /* Sooner than the audit of each minute. */
    const uint64_t end_ms = clock_ms() + WAIT_MS;
    struct store_row row = {.count = 0};

    add_ones(x, 20, 20);
    cluster_servers_flush(&servers);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++)
        (void)cluster_servers_run(&servers, i, "CLIENT KILL TYPE normal");
    while (row.count != 20) {
        assert_true(clock_ms() < end_ms);
        (void)stored_get(x->s, "words", "a", &row);
        (void)poll(NULL, 0, 5);
    }
}

/* The lists of names are not of the masters of their keyspaces. */
CASE(a_name_that_the_cluster_lost_is_entered_again, x)
{
    const uint64_t end_ms = clock_ms() + WAIT_MS;
    const unsigned server =
        has_servers
            ? cluster_servers_master(&servers, 1, cluster_slot("countd", 6))
            : 0;
    char text[64] = "";

    add(x, "a", 1);
    await_sent(x->s);
    (void)cluster_servers_run(&servers, server,
                              "DEL " CLUSTER_NAMES " " CLUSTER_PARTS);
    assert_rc(store_list(x->s, (const uint8_t *)"", 0, add_name, text), 0);
    assert_string_equal(text, "");
    (void)cluster_servers_run(&servers, server, "CLIENT KILL TYPE normal");
    while (text[0] == '\0') {
        assert_true(clock_ms() < end_ms);
        assert_rc(store_list(x->s, (const uint8_t *)"", 0, add_name, text), 0);
        (void)poll(NULL, 0, 5);
    }
    assert_string_equal(text, "words1 ");
}

CASE(an_entry_stays_until_a_replica_has_it, x)
{
    char other[2] = "a";
    unsigned replica;

    x->config.store_retain_ms = 0;
    reopen_store(x);
    while (master_of(1, other, 0, 0) == master_of_words())
        other[0]++;
    replica = master_of_words() + CLUSTER_SERVERS_MASTERS;
    add(x, "a", 1);
    (void)await_settled(x, "words");
    daemon_signal(&servers.servers[replica], SIGSTOP);
    add_ones(x, 1, 2);
    /* Later entries are settled where replicas answer. */
    for (unsigned i = 0; i < 2; i++) {
        assert_rc(stored_add(x->s, other, NULL, "a", 1), 0);
        assert_int_equal(await_settled(x, other), 1);
    }
    daemon_signal(&servers.servers[replica], SIGCONT);
    (void)await_settled(x, "words");
}

TEST(an_entry_of_the_millisecond_of_the_offset_may_not_be_replicated)
{
    static struct cluster_sender s = {.options.replicas = 1,
                                      .nodes[0].replicated_ms = 5};
    struct outbox_keyspace k = {.part_count = 1};
    const struct outbox_part p = {.keyspace = &k, .acked = 2};
    struct outbox_entry e = {.number = 2, .acked_ms = 4};

    k.parts = calloc(1, sizeof *k.parts);
    assert_non_null(k.parts);
    sender_keyspace_of(&k)->parts[0].node = 0;
    assert_true(sender_is_replicated(&s, &p, &e));
    e.acked_ms = 5;
    assert_false(sender_is_replicated(&s, &p, &e));
    free(k.parts);
    free(k.sender);
}

CASE(what_is_no_longer_retained_is_reported_and_not_counted, x)
{
    struct store_row row;
    unsigned server;

    x->config.store_retain_ms = 0;
    reopen_store(x);
    add_ones(x, 5, 5);
    (void)await_settled(x, "words");
    cluster_servers_flush(&servers);
    server = master_of_words();
    (void)cluster_servers_run(&servers, server, "CONFIG RESETSTAT");
    add(x, "a", 1);
    cluster_servers_await(&servers, server, "INFO commandstats",
                          "cmdstat_fcall:");
    assert_true(store_pending(x->s));
    assert_rc(stored_get(x->s, "words", "a", &row), -ENOENT);
}

static void
copy_outbox(struct site *x, const char *from, const char *to)
{
    char a[600], b[600];

    (void)snprintf(a, sizeof a, "%s/%s", x->tmp.path, from);
    (void)snprintf(b, sizeof b, "%s/%s", x->tmp.path, to);
    assert_int_equal(daemon_run(NULL, 0, "/bin/rm", "-rf", b, NULL), 0);
    assert_int_equal(daemon_run(NULL, 0, "/bin/cp", "-a", a, b, NULL), 0);
}

/* A directory that is put back to an earlier state counts nothing: which of its
 * increments are in the cluster is not known. */
CASE(an_older_copy_of_a_directory_counts_nothing, x)
{
    struct store_row row;

    add_ones(x, 1, 1);
    store_close(x->s);
    copy_outbox(x, OUTBOX_FOLDER, "copy");
    open_store(x);
    add(x, "a", 2);
    assert_int_equal(count_of(x, "a"), 3);
    store_close(x->s);
    copy_outbox(x, "copy", OUTBOX_FOLDER);
    open_store(x);
    add(x, "a", 4);
    store_close(x->s);
    /* The next sender finds this entry. It asks for the state once, maybe
     * before open_store() returns. */
    (void)cluster_servers_run(&servers, master_of_words(), "CONFIG RESETSTAT");
    open_store(x);
    cluster_servers_await(&servers, master_of_words(), "INFO commandstats",
                          "cmdstat_fcall_ro:");
    assert_true(store_pending(x->s));
    assert_rc(stored_get(x->s, "words", "a", &row), 0);
    assert_int_equal(row.count, 3);
}

/* ---- last: masters and replicas change places ---------------------------- */

/* The replica of "words" is behind when it is promoted: what its master
 * acknowledged meanwhile is gone. */
CASE(a_promoted_replica_that_was_behind_gets_the_rest, x)
{
    unsigned master, replica;

    add_ones(x, 10, 10);
    master = master_of_words();
    replica = (master + CLUSTER_SERVERS_MASTERS) % CLUSTER_SERVERS_SERVERS;
    daemon_signal(&servers.servers[replica], SIGSTOP);
    assert_string_equal(
        cluster_servers_run(&servers, master, "CLIENT KILL TYPE replica"), "1");
    add_ones(x, 10, 20);
    daemon_signal(&servers.servers[master], SIGSTOP);
    daemon_signal(&servers.servers[replica], SIGCONT);
    (void)cluster_servers_run(&servers, replica, "CLUSTER FAILOVER TAKEOVER");
    cluster_servers_await(&servers, replica, "ROLE", "master");
    daemon_signal(&servers.servers[master], SIGCONT);
    cluster_servers_await(&servers, master, "ROLE", "slave");

    add_ones(x, 1, 21);
}
