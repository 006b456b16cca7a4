/* tests/unit/test_cluster_move.c - a keyspace in a Redis Cluster gets more
 * parts while it is counted and read: no answer changes but by what was
 * counted, and nothing is lost or doubled when the mover dies at any step, its
 * place is lost, or another mover or directory comes. */
#include "tests/unit/cluster_move_fixture.h"

/* The deleted keys are in the parts that are being left, too. */
CASE(a_purge_waits_until_a_move_has_ended, x)
{
    count_and_send(x);
    x->is_quiet = true;
    x->stop = CLUSTER_MOVE_MADE;
    assert_rc(move_to(x, 4), -ECANCELED);
    assert_rc(store_purge(x->site.s, NAME), -EAGAIN);
    end_lease(x);
    assert_rc(store_purge(x->site.s, NAME), 0);
}

CASE(answers_are_the_same_in_any_number_of_parts, x)
{
    static const uint32_t parts[] = {2, 16, 32};
    struct cluster_place place;

    for (unsigned i = 0; i < 3; i++)
        count_both(&x->site, x->site.s, false);
    compare_all(&x->site);
    for (uint32_t i = 0; i < 3; i++) {
        assert_rc(move_to(x, parts[i]), 0);
        assert_int_equal(x->result.to.generation, i + 1);
        assert_int_equal(x->result.to.parts, parts[i]);
        read_place(x, &place);
        assert_int_equal(place.parts, parts[i]);
        count_both(&x->site, x->site.s, false);
        compare_all(&x->site);
    }
}

/* Entries that were settled in the old parts, or are retained, are not waited
 * for in the new ones.  Without logs only a store at rest can say so. */
CASE(as_of_does_not_go_back, x)
{
    const uint64_t start_ms = clock_unix_ms();
    count_and_send(x);
    while (x->as_of_ms < start_ms)
        check_as_of(x);
    x->is_quiet = true;
    assert_rc(move_to(x, 4), 0);
    for (uint64_t until_ms = clock_unix_ms(); x->as_of_ms < until_ms;)
        check_as_of(x);
    compare_all(&x->site);
}

/* What is retained was replicated before the sender started. */
CASE(as_of_does_not_go_back_when_a_sender_starts, x)
{
    uint64_t start_ms = clock_unix_ms();

    count_and_send(x);
    while (x->as_of_ms < start_ms)
        check_as_of(x);
    store_close(x->site.s);
    start_ms = clock_unix_ms();
    open_store(&x->site);
    while (x->as_of_ms < start_ms)
        check_as_of(x);
}

CASE(a_keyspace_only_gets_more_parts, x)
{
    assert_rc(move_to(x, 4), -ENOENT);
    count_and_send(x);
    assert_rc(move_to(x, 4), 0);
    assert_rc(move_to(x, 4), -EALREADY);
    assert_rc(move_to(x, 2), -EINVAL);
    assert_rc(move_to(x, 6), -EINVAL);
    assert_rc(move_to(x, 512), -EINVAL);
    compare_all(&x->site);
}

CASE(a_mover_killed_at_any_step_loses_and_doubles_nothing, x)
{
    struct cluster_place place;

    count_and_send(x);
    for (x->stop = CLUSTER_MOVE_BEGUN; x->stop <= CLUSTER_MOVE_SWITCHED;
         x->stop++) {
        read_place(x, &place);
        assert_rc(move_to(x, 2 * place.parts), -ECANCELED);
        end_lease(x);
        count_both(&x->site, x->site.s, false);
        compare_all(&x->site);
        if (x->stop == CLUSTER_MOVE_BEGUN) /* nothing was closed yet */
            assert_rc(store_purge(x->site.s, NAME), 0);
        await_still(x);
        compare_all(&x->site);
        read_place(x, &place);
        assert_int_equal(place.parts, x->stop < CLUSTER_MOVE_SWITCHED ? 1 : 2);
    }
    assert_rc(move_to(x, 4), 0);
    compare_all(&x->site);
}

/* No entry is refused before a part is closed. */
CASE(a_sender_that_saw_a_lease_looks_again_at_its_end, x)
{
    count_and_send(x);
    x->stop = CLUSTER_MOVE_BEGUN;
    x->lease_ms = 1000;
    assert_rc(move_to(x, 4), -ECANCELED);
    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++)
        (void)cluster_servers_run(&servers, i, "CLIENT KILL TYPE normal");
    await_still(x);
    compare_all(&x->site);
}

/* The master of the places comes back with an older file: nothing says that a
 * mover was there but the parts that it has closed for good. */
CASE(a_mover_whose_place_is_lost_leaves_no_part_closed, x)
{
    struct cluster_place place;

    count_and_send(x);
    read_place(x, &place);
    x->stop = CLUSTER_MOVE_SEALED;
    assert_rc(move_to(x, 4), -ECANCELED);
    put_place(x, &place);
    compare_all(&x->site);
    x->stop = CLUSTER_MOVE_SWITCHED + 1;
    assert_rc(move_to(x, 2), 0);
    compare_all(&x->site);
}

/* As before, but the mover dies before: its lease of the part ends by itself,
 * and has its token still. */
CASE(a_mover_whose_place_is_lost_leaves_no_new_part, x)
{
    struct cluster_place place, lost;
    struct cluster_part_keys keys;
    uint8_t closed[16];

    count_and_send(x);
    read_place(x, &place);
    x->stop = CLUSTER_MOVE_COPIED;
    x->is_quiet = true;
    assert_rc(move_to(x, 4), -ECANCELED);
    read_place(x, &lost);
    put_place(x, &place);
    put_be64(closed, lost.token);
    put_be64(closed + 8, 1);
    keys = cluster_part_keys(NAME, 0, 0);
    (void)cluster_servers_run(&servers, master_of(0, "words", 0, 0),
                              "HSET %b %b %b", keys.counts, keys.size, "\0w",
                              (size_t)2, closed, sizeof closed);
    assert_rc(cluster_move_settle(x->cluster, &words, &place), 0);
    for (uint32_t i = 0; i < 4; i++) {
        keys = cluster_part_keys(NAME, lost.other, i);
        assert_string_equal(
            cluster_servers_run(&servers, master_of(0, "words", lost.other, i),
                                "EXISTS %b %b", keys.counts, keys.size,
                                keys.order, keys.size),
            "0");
    }
    compare_all(&x->site);
}

/* The sender that knew is gone, too: parts that are gone say what followed. */
CASE(a_place_that_is_lost_after_a_move_is_found_again, x)
{
    struct cluster_place place;

    count_and_send(x);
    read_place(x, &place);
    assert_rc(move_to(x, 4), 0);
    await_sent(x->site.s);
    store_close(x->site.s);
    put_place(x, &place);
    open_store(&x->site);
    count_both(&x->site, x->site.s, false);
    compare_all(&x->site);
    read_place(x, &place);
    assert_int_equal(place.generation, 1);
    assert_int_equal(place.parts, 4);
}

CASE(a_second_mover_waits_for_the_lease_of_the_first, x)
{
    count_and_send(x);
    x->stop = CLUSTER_MOVE_SEALED;
    assert_rc(move_to(x, 4), -ECANCELED);
    x->stop = CLUSTER_MOVE_SWITCHED + 1;
    assert_rc(move_to(x, 2), -EBUSY);
    end_lease(x);
    await_still(x);
    assert_rc(move_to(x, 2), 0);
    compare_all(&x->site);
}

CASE(a_mover_that_lost_its_lease_changes_nothing, x)
{
    struct cluster_place place;

    count_and_send(x);
    x->is_slow = true;
    for (x->stop = CLUSTER_MOVE_CLOSED; x->stop <= CLUSTER_MOVE_REPLICATED;
         x->stop++) {
        if (x->stop == CLUSTER_MOVE_COPYING)
            continue;
        assert_rc(move_to(x, 4), -ESTALE);
        read_place(x, &place);
        assert_int_equal(place.parts, 1);
        compare_all(&x->site);
    }
    x->is_slow = false;
    x->stop = CLUSTER_MOVE_SWITCHED + 1;
    assert_rc(move_to(x, 4), 0);
    compare_all(&x->site);
}

/* Its entries wait in its outbox, and it was counting when the keyspace had
 * one part. */
CASE(a_directory_that_was_away_goes_on_in_the_new_parts, x)
{
    struct site y = x->site;
    open_directory(&y);
    count_both(&x->site, x->site.s, false);
    count_both(&x->site, y.s, false);
    await_sent(x->site.s);
    await_sent(y.s);
    store_close(y.s);
    assert_rc(move_to(x, 2), 0);
    assert_rc(move_to(x, 8), 0);
    open_store(&y);
    count_both(&x->site, y.s, false);
    await_sent(y.s);
    compare_all(&x->site);
    close_directory(&y);
}
