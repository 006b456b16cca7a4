/* common/client/cmd_flush.c - countd flush: everything acknowledged before
 * the call is readable after it. */
#include <errno.h>
#include <string.h>

#include "common/client/cmd.h"
#include "common/client/output.h"
#include "common/client/wait.h"
#include "common/clock.h"
#include "common/diag.h"

/* As of when the reader answers for all keyspaces.  No name comes after this
 * one, so the answer is short. */
static int
ask_as_of(struct countd *c, int64_t *as_of_ms)
{
    uint8_t last[NAME_MAX_SIZE];
    struct countd_rows *rows;
    int rc;

    memset(last, 0xff, sizeof last);
    rc = countd_keyspaces(c, last, sizeof last, &rows);
    if (rc < 0)
        return rc;
    *as_of_ms = rows->as_of_ms;
    countd_rows_free(rows);
    return 0;
}

/* Has the log handed on until the reader's as_of passes `unix_ms`.
 *   -EAGAIN  not in time; -EPERM  the writer belongs to somebody else */
static int
await_reader(struct countd *c, const struct datadir *d, int64_t unix_ms,
             uint64_t timeout_ms, int64_t *as_of_ms)
{
    const uint64_t deadline = clock_ms() + timeout_ms;
    uint64_t rotated_ms = 0;
    unsigned pause_ms = 0;

    for (;;) {
        int rc = wait_rotate_again(d, &rotated_ms);

        if (rc == 0)
            rc = ask_as_of(c, as_of_ms);
        if (rc < 0)
            return rc;
        if (*as_of_ms > unix_ms)
            return 0;
        if (clock_ms() >= deadline)
            return -EAGAIN;
        wait_pause(&pause_ms);
    }
}

static int
too_late(int64_t as_of_ms)
{
    char age[32];

    output_age((int64_t)clock_unix_ms() - as_of_ms, age);
    diag(DIAG_ERROR,
         "not merged in time: readable as of %s ago; is "
         "countd-worker running? countd log list shows what waits",
         age);
    return CONFIG_EXIT_NEGATIVE;
}

static int
not_ours(void)
{
    diag(DIAG_ERROR, "countd-write belongs to another user and cannot be told "
                     "to hand its log on");
    return CONFIG_EXIT_SYSTEM;
}

int
cmd_flush(struct cmd_line *line)
{
    int64_t as_of_ms = 0;
    uint64_t timeout_ms;
    struct datadir d;
    struct countd *c;
    int rc, status;

    status = cmd_option_ms(line, "timeout", 30000, &timeout_ms);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;
    status = wait_datadir(line, &d);
    if (status != 0)
        goto close_client;

    rc = await_reader(c, &d, (int64_t)clock_unix_ms(), timeout_ms, &as_of_ms);
    datadir_close(&d);
    if (rc == -EAGAIN)
        status = too_late(as_of_ms);
    else if (rc == -EPERM)
        status = not_ours();
    else if (rc < 0)
        status = cmd_peer_failed(line, CMD_READER, rc);

close_client:
    countd_close(c);
    return status;
}
