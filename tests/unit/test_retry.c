/* tests/unit/test_retry.c - when a thing that failed is tried again. */
#include "tests/lib/test.h"

#include "worker/retry.h"

TEST(what_never_failed_is_due)
{
    const struct retry r = {0};

    assert_true(retry_is_due(&r, 0));
    assert_true(retry_is_due(&r, UINT64_MAX));
}

TEST(each_failure_doubles_the_wait_up_to_a_most)
{
    static const uint64_t waits[] = {50, 100, 200, 400, 500, 500};
    struct retry r = {0};
    unsigned i;

    for (i = 0; i < 6; i++) {
        retry_failed(&r, 1000, 50, 500);

        assert_false(retry_is_due(&r, 1000));
        assert_false(retry_is_due(&r, 1000 + waits[i] - 1));
        assert_true(retry_is_due(&r, 1000 + waits[i]));
        assert_int_equal(r.due_ms, 1000 + waits[i]);
    }
}

TEST(success_begins_with_the_first_wait_again)
{
    struct retry r = {0};

    retry_failed(&r, 1000, 50, 500);
    retry_failed(&r, 1000, 50, 500);
    retry_succeeded(&r);

    assert_true(retry_is_due(&r, 0));
    retry_failed(&r, 1000, 50, 500);
    assert_int_equal(r.due_ms, 1050);
}
