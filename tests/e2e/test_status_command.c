/* tests/e2e/test_status_command.c - countd status and countd watch: the transcript
 * status_command.txt, and a log that changes hands. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include "common/base/clock.h"
#include "common/setup/status.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define PATIENCE_MS ((uint64_t)20000)

/* The first log in this state, waiting for one; its values. */
static uint64_t
await_log(struct status *board, enum status_log state, int64_t *values)
{
    const uint64_t until = test_deadline(PATIENCE_MS);

    do
        for (uint64_t i = 0; i < 16; i++) {
            status_get_log(board, i, values);
            if (values[STATUS_LOG_STATE] == (int64_t)state)
                return i;
        }
    while (clock_ms() < until);
    fail_msg("no log is in state %d", (int)state);
    return 0;
}

/* As a worker does that cannot write. */
TEST_IN(a_log_that_a_worker_gives_back_still_counts_as_not_merged,
        struct fleet *f, service_setup, service_teardown)
{
    int64_t values[STATUS_LOG_VALUES];
    struct status board;
    uint64_t index;
    int fd;

    fleet_start(f, FLEET_WRITE);
    fd = client_connect(fleet_ack_port(f));
    for (int i = 0; i < 5; i++)
        client_increment(fd, "pages", "index", 1);
    client_wins(fd, 5);
    status_init(&board, f->path);
    index = await_log(&board, STATUS_LOG_FULL, values);
    assert_int_equal(values[STATUS_LOG_MESSAGES], 5);

    values[STATUS_LOG_STATE] = STATUS_LOG_MERGING;
    status_put_log(&board, index, values);

    assert_int_equal(await_log(&board, STATUS_LOG_FULL, values), index);
    assert_int_equal(values[STATUS_LOG_MESSAGES], 5);
    (void)FLEET_RUN(f, "status", "--json");
    assert_has(text, "\"unmerged\": 5, \"logs_uncounted\": 0");
    status_close(&board);
    client_close(fd);
}
