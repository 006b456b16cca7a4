/* common/client/cmd/incr.c - countd incr: one acknowledged increment. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/wire/event_time.h"

/* Unix seconds of --at; 0: it is not there, or is wrong. */
static int64_t
read_time(const struct cmd_line *line)
{
    const uint64_t now_ms = clock_unix_ms();
    const int64_t at = (int64_t)(cmd_time_option(line, "at", now_ms, 0) / 1000);

    if (cmd_value(line, "at") == NULL || *line->status != 0)
        return 0;
    if (at < EVENT_TIME_MIN || at > (int64_t)(now_ms / 1000) + EVENT_TIME_AHEAD)
        *line->status =
            cmd_misuse(line, cmd_value(line, "at"),
                       "a time from 1970-01-01T00:01 to a day ahead "
                       "of now");
    return at;
}

int
cmd_incr(struct cmd_line *line)
{
    const struct cmd_name keyspace = cmd_name(line, line->args[0], "keyspace");
    const struct cmd_name key = cmd_name(line, line->args[1], "key");
    const int64_t increment =
        line->arg_count > 2
            ? cmd_number(line, line->args[2], "increment", INT64_MIN, INT64_MAX)
            : 1;
    const uint64_t timeout_ms = cmd_option_ms(line, "timeout", 10000);
    const int64_t at = read_time(line);
    struct countd *c;
    int rc, status;

    status = cmd_connect(line, CMD_WRITER, 0, &c);
    if (status != 0)
        return status;

    rc = countd_incr_at(c, keyspace.bytes, keyspace.size, key.bytes, key.size,
                        increment, at);
    if (rc == 0)
        rc = countd_sync(c, (int)timeout_ms);
    if (rc == -ETIMEDOUT || (rc < 0 && countd_lost(c) > 0))
        diag(DIAG_WARNING, "the increment was not acknowledged: it may or may "
                           "not have been counted");
    if (rc < 0)
        status = cmd_peer_failed(line, CMD_WRITER, rc);
    countd_close(c);
    return status;
}
