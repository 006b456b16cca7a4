/* common/client/cmd/live_peer.c - see live_peer.h. */
#include "common/client/cmd/live_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/net/net.h"

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

    if (bytes == NULL) {
        diag_errno(DIAG_ERROR, ENOMEM, "a name of %zu characters", length);
        return CONFIG_EXIT_SYSTEM;
    }
    size = name_unescape_any(text, length, bytes, LIVE_NAME_MAX);
    if (size > 0) {
        *out = (struct live_name){.bytes = bytes, .size = (size_t)size};
        return 0;
    }
    free(bytes);
    if (size == -EINVAL)
        diag(DIAG_ERROR, "the name has a bad escape; write a backslash as "
                         "\\\\, a byte as \\xHH");
    else
        diag(DIAG_ERROR, "the name is %s; here names have 1 to %d bytes",
             size == 0 ? "empty" : "too long", LIVE_NAME_MAX);
    return CONFIG_EXIT_USAGE;
}

static void
find_place(const struct cmd_line *line, struct cmd_place *out)
{
    cmd_find_place(line, live_is_semaphore(line) ? CMD_SEMAPHORE : CMD_COUNTER,
                   out);
}

int
live_connect(const struct cmd_line *line, struct countd_live **out)
{
    struct countd_live_options options = {.size = sizeof options,
                                          .semaphore = live_is_semaphore(line)};
    struct cmd_place place;
    int rc;

    find_place(line, &place);
    options.directory = place.directory;
    if (!place.directory)
        options.address = place.address;
    if (!place.directory && strcmp(strrchr(place.address, ':'), ":0") == 0) {
        diag(DIAG_ERROR,
             "%s.port is 0: no port to connect to; give -o %s.port=PORT",
             live_word(line), live_word(line));
        return CONFIG_EXIT_USAGE;
    }
    rc = countd_live_open(out, &options);
    return rc < 0 ? live_failed(line, rc) : 0;
}

int
live_failed(const struct cmd_line *line, int rc)
{
    const char *word = live_word(line);
    struct cmd_place place;
    const char *address = place.text;

    find_place(line, &place);
    if (cmd_socket_failed(&place, "countd-write", rc))
        return CONFIG_EXIT_SYSTEM;
    switch (rc) {
    case -ECONNREFUSED:
        diag(DIAG_ERROR,
             "countd-write at %s does not answer; does it run with "
             "%s.enable=true? live.address and %s.port say where it is",
             address, word, word);
        break;
    case -ENOTCONN:
        diag(DIAG_ERROR,
             "countd-write at %s closed the connection; it stopped, or "
             "%s.max_connections are open",
             address, word);
        break;
    case -ETIMEDOUT:
        diag(DIAG_ERROR, "countd-write at %s did not answer in time", address);
        break;
    case -EADDRNOTAVAIL:
    case -EINVAL:
        diag(DIAG_ERROR, "live.address: %s %s", address, net_resolve_error(rc));
        return CONFIG_EXIT_USAGE;
    case -EAGAIN:
        diag(DIAG_ERROR, "live.address: %s %s", address, net_resolve_error(rc));
        break;
    case -EPROTO:
        diag(DIAG_ERROR, "what answers at %s does not speak the %s protocol",
             address, word);
        break;
    case -ENOMEM:
        diag(DIAG_ERROR,
             "no memory; or countd-write at %s has used up its "
             "counter.max_memory",
             address);
        break;
    case -EOPNOTSUPP:
        diag(DIAG_ERROR,
             "the server at %s does not know this request; is it for "
             "semaphores?",
             address);
        break;
    default:
        diag_errno(DIAG_ERROR, rc, "countd-write at %s", address);
        break;
    }
    return CONFIG_EXIT_SYSTEM;
}
