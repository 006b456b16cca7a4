/* common/client/cmd/incr.c - countd incr: one acknowledged increment. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"

int
cmd_incr(struct cmd_line *line)
{
    const struct increment_name keyspace =
        cmd_name(line, line->args[0], "keyspace");
    const struct increment_name key = cmd_name(line, line->args[1], "key");
    const int64_t increment =
        line->arg_count > 2
            ? cmd_number(line, line->args[2], "increment", INT64_MIN, INT64_MAX)
            : 1;
    const uint64_t timeout_ms = cmd_option_ms(line, "timeout", 10000);
    const int64_t at = cmd_event_time(line, "at");
    struct countd *c;
    int rc, status;

    status = cmd_connect(line, CMD_WRITER, &c);
    if (status != 0)
        return status;

    rc = countd_incr_at(c, countd_bytes(keyspace.bytes, keyspace.size),
                        countd_bytes(key.bytes, key.size), increment, at);
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
