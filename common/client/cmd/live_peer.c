/* common/client/cmd/live_peer.c - see cmd.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"

bool
live_is_semaphore(const struct cmd_line *line)
{
    return cmd_value(line, "semaphore") != NULL;
}

const char *
live_word(const struct cmd_line *line)
{
    return live_is_semaphore(line) ? "semaphore" : "counter";
}

int
live_name(const char *text, struct live_name *out)
{
    const size_t length = strlen(text);
    uint8_t *bytes = malloc(length + 1);
    int size;

    if (bytes == NULL)
        return cmd_failed(ENOMEM, "a name of %zu characters", length);
    size = name_unescape_any(text, length, bytes, LIVE_NAME_MAX);
    if (size > 0) {
        *out = (struct live_name){.bytes = bytes, .size = (size_t)size};
        return 0;
    }
    free(bytes);
    if (size == -EINVAL)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "the name has a bad escape; write a backslash as "
                        "\\\\, a byte as \\xHH");
    if (size == 0)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "the name is empty; names have 1 to %d bytes here",
                        LIVE_NAME_MAX);
    return cmd_fail(CONFIG_EXIT_USAGE, "the name is longer than %d bytes",
                    LIVE_NAME_MAX);
}

enum cmd_peer
live_peer(const struct cmd_line *line)
{
    return live_is_semaphore(line) ? CMD_SEMAPHORE : CMD_COUNTER;
}

int
live_connect(const struct cmd_line *line, struct countd_live **out)
{
    struct countd_live_options options = {.size = sizeof options,
                                          .semaphore = live_is_semaphore(line)};
    struct cmd_place place;
    int rc;

    if (*line->status != 0)
        return *line->status;
    cmd_find_place(line, live_peer(line), &place);
    options.directory = place.directory;
    if (!place.directory)
        options.address = place.address;
    if (!place.directory && strcmp(strrchr(place.address, ':'), ":0") == 0)
        return cmd_fail(
            CONFIG_EXIT_USAGE,
            "%s.port is 0: no port to connect to; give -o %s.port=PORT",
            live_word(line), live_word(line));
    rc = countd_live_open(out, &options);
    return rc < 0 ? cmd_peer_failed(line, live_peer(line), rc) : 0;
}
