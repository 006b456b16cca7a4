/* common/client/cmd/cmd_failure.c - see cmd.h: errors of commands.
 * cmd_peer_failed() finds in a table what an error of libcountd means. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd_data.h"
#include "common/net/net.h"

#define SOCKET   (1u << 31) /* only of the socket in a data directory */
#define WRITER   (1u << CMD_WRITER | 1u << CMD_WRITER_SILENT)
#define HISTORY  (1u << CMD_HISTORY)
#define READER   (1u << CMD_READER | HISTORY)
#define COUNTS   (WRITER | READER)
#define LIVE     (1u << CMD_COUNTER | 1u << CMD_SEMAPHORE)
#define SEQUENCE (1u << CMD_SEQUENCE)
#define QUOTA    (1u << CMD_QUOTA)
#define HTTP     (SEQUENCE | QUOTA)
#define ALL      (COUNTS | LIVE | HTTP)

#define TEXT_SIZE  2048 /* as long as a message */
#define VALUE_SIZE 128

/* Of the rows for a peer and an error the first one applies.  In its text:
 *
 *     %a  the address or the path of the socket
 *     %d  the daemon               %r  net_resolve_error()
 *     %s  the setting of the port  %u  the user id
 *     %w  what is served there, which begins its settings: "counter"
 *     %k  message.keyspace_size and message.key_size, with their values */
static const struct failure {
    unsigned peers;
    int rc;
    int status;
    const char *text;
} failures[] = {
    {ALL | SOCKET, -EPERM, CONFIG_EXIT_SYSTEM,
     "user id %u may not use %a: run countd as the owner of the directory, or "
     "set socket.group to a group of this user"},
    {ALL | SOCKET, -ECONNREFUSED, CONFIG_EXIT_SYSTEM,
     "%d does not serve %a; does it run on this directory, and is its port on? "
     "countd serve or systemctl start countd.target starts it, and -H or "
     "-o %s=... names another place"},

    {HISTORY, -ENODATA, CONFIG_EXIT_NEGATIVE,
     "the keyspace has no history; the setting history says what is kept"},
    {HISTORY, -EINVAL, CONFIG_EXIT_USAGE,
     "the keyspace has no history of such steps: a step is a multiple of one "
     "in the setting history"},
    {HISTORY, -E2BIG, CONFIG_EXIT_USAGE,
     "more than 4096 steps; give a longer --step or a shorter time"},

    {1u << CMD_READER, -E2BIG, CONFIG_EXIT_USAGE,
     "the keys are too long to be read at once; ask for fewer"},

    {COUNTS | HTTP, -EADDRNOTAVAIL, CONFIG_EXIT_USAGE, "%s: %a %r"},
    {SEQUENCE, -EINVAL, CONFIG_EXIT_USAGE, "%s: %a %r"},
    {COUNTS, -EAGAIN, CONFIG_EXIT_SYSTEM, "%s: %a %r"},
    {COUNTS, -ENAMETOOLONG, CONFIG_EXIT_USAGE, "a name is longer than %k"},
    {COUNTS, -ECONNREFUSED, CONFIG_EXIT_SYSTEM,
     "%d at %a does not answer; is it running? countd serve or systemctl start "
     "countd.target starts it, and %s says where it is"},
    {COUNTS | HTTP, -ENOTCONN, CONFIG_EXIT_SYSTEM,
     "%d at %a ended the connection; has it stopped? or is %s not its port?"},
    {ALL, -EPROTO, CONFIG_EXIT_SYSTEM,
     "what answers at %a is not %d; is %s its port?"},
    {READER | LIVE | HTTP, -ETIMEDOUT, CONFIG_EXIT_SYSTEM,
     "%d at %a did not answer in time; is %s its port?"},
    {WRITER, -ETIMEDOUT, CONFIG_EXIT_SYSTEM,
     "%d at %a did not answer in time; is %s its port, are the message sizes "
     "its own?"},
    {COUNTS, -EBADMSG, CONFIG_EXIT_SYSTEM,
     "%d at %a refused a message; are message.keyspace_size and "
     "message.key_size the server's?"},
    {WRITER, -EPROTONOSUPPORT, CONFIG_EXIT_SYSTEM,
     "%d at %a is too old to take increments with a time: upgrade it"},
    {COUNTS, -EIO, CONFIG_EXIT_SYSTEM,
     "%d cannot read the keyspace; its messages say why, and countd check says "
     "where the file is damaged"},

    {COUNTS, -EHOSTDOWN, CONFIG_EXIT_SYSTEM,
     "%d cannot read the keyspace now: the server that holds it does not "
     "answer; its messages say which"},

    {READER, -ETIME, CONFIG_EXIT_SYSTEM,
     "%d at %a needs longer than read.max_time for this: ask for fewer keys or "
     "a shorter time"},

    {LIVE | HTTP, -ECONNREFUSED, CONFIG_EXIT_SYSTEM,
     "%d at %a does not answer; does it run with %w.enable=true? %s says where "
     "it is"},
    {LIVE, -ENOTCONN, CONFIG_EXIT_SYSTEM,
     "%d at %a closed the connection; it stopped, or %w.max_connections are "
     "open"},
    {LIVE, -EADDRNOTAVAIL, CONFIG_EXIT_USAGE, "live.address: %a %r"},
    {LIVE, -EINVAL, CONFIG_EXIT_USAGE, "live.address: %a %r"},
    {LIVE, -EAGAIN, CONFIG_EXIT_SYSTEM, "live.address: %a %r"},
    {LIVE, -ENOMEM, CONFIG_EXIT_SYSTEM,
     "no memory; or %d at %a has used up its counter.max_memory"},
    {LIVE, -EOPNOTSUPP, CONFIG_EXIT_SYSTEM,
     "the server at %a does not know this request; is it for semaphores?"},

    {HTTP | READER, -EACCES, CONFIG_EXIT_SYSTEM,
     "%d at %a refuses this client: set COUNTD_TOKEN to a token of http.tokens "
     "with the right to do this; or its name is not in http.hosts"},
    {HTTP | READER, -EILSEQ, CONFIG_EXIT_USAGE,
     "COUNTD_TOKEN is not a token of 1 to 128 printable characters"},
    {SEQUENCE, -EOPNOTSUPP, CONFIG_EXIT_SYSTEM,
     "%a serves no sequence numbers; see sequence.enable"},
    {SEQUENCE, -EAGAIN, CONFIG_EXIT_SYSTEM,
     "%d at %a gives no numbers now; its messages say why"},
    {QUOTA, -EOPNOTSUPP, CONFIG_EXIT_SYSTEM,
     "%a serves no quotas; see quota.enable"},
    {QUOTA, -EAGAIN, CONFIG_EXIT_SYSTEM,
     "%d at %a changes no quotas now; its messages say why"},
    {QUOTA, -EINVAL, CONFIG_EXIT_USAGE,
     "invalid name, key or amount, or %s is not an address"},
    {QUOTA, -EDQUOT, CONFIG_EXIT_NEGATIVE, "refused: less than that remains"},
    {QUOTA, -ENOENT, CONFIG_EXIT_NEGATIVE,
     "refused: no such application, or it is cancelled already"},
    {QUOTA, -ERANGE, CONFIG_EXIT_NEGATIVE,
     "refused: what remains would be too large, or the number is 0"},
    {QUOTA, -ENODATA, CONFIG_EXIT_NEGATIVE, "there is no quota of that name"},
    {QUOTA, -EEXIST, CONFIG_EXIT_NEGATIVE,
     "there is a quota of that name already"},
    {QUOTA, -ENOSPC, CONFIG_EXIT_NEGATIVE,
     "there are as many quotas as quota.max allows"},
    {QUOTA, -EKEYREJECTED, CONFIG_EXIT_NEGATIVE,
     "the key was used for something else"},
};

static const struct failure *
find_failure(enum cmd_peer peer, const struct cmd_place *place, int rc)
{
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++)
        if (failures[i].rc == rc && (failures[i].peers & 1u << peer) != 0 &&
            (place->directory || (failures[i].peers & SOCKET) == 0))
            return &failures[i];
    return NULL;
}

/* What a letter of a text stands for, in `text` or elsewhere. */
static const char *
expand_letter(char letter, const struct cmd_line *line,
              const struct cmd_place *place, int rc, char text[VALUE_SIZE])
{
    switch (letter) {
    case 'a':
        return place->text;
    case 'd':
        return place->daemon;
    case 's':
        return place->setting;
    case 'w':
        return place->word;
    case 'r':
        return net_resolve_error(rc);
    case 'u':
        (void)snprintf(text, VALUE_SIZE, "%ld", (long)geteuid());
        return text;
    default:
        (void)snprintf(text, VALUE_SIZE,
                       "message.keyspace_size=%" PRIu64
                       " or message.key_size=%" PRIu64,
                       line->config.keyspace_size, line->config.key_size);
        return text;
    }
}

static void
report_failure(const struct failure *f, const struct cmd_line *line,
               const struct cmd_place *place, enum diag_level level)
{
    char text[TEXT_SIZE] = "", value[VALUE_SIZE];
    size_t size = 0;

    for (const char *at = f->text; *at != '\0' && size < sizeof text;) {
        const size_t run = strcspn(at, "%");
        const char *letter = at[run] == '\0' ? NULL : at + run + 1;

        size += (size_t)snprintf(
            text + size, sizeof text - size, "%.*s%s", (int)run, at,
            letter ? expand_letter(*letter, line, place, f->rc, value) : "");
        at = letter ? letter + 1 : at + run;
    }
    diag(level, "%s", text);
}

const char *
cmd_text(const void *bytes, size_t size)
{
    static char text[4 * CMD_TEXT_MAX + 1];

    (void)name_escape(bytes, size < CMD_TEXT_MAX ? size : CMD_TEXT_MAX, text);
    return text;
}

int
cmd_fail(int status, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    diag(DIAG_ERROR, "%s", text);
    return status;
}

int
cmd_failed(int rc, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    diag_errno(DIAG_ERROR, rc, "%s", text);
    return CONFIG_EXIT_SYSTEM;
}

int
cmd_peer_failed(const struct cmd_line *line, enum cmd_peer peer, int rc)
{
    const struct failure *f;
    struct cmd_place place;

    cmd_find_place(line, peer, &place);
    f = find_failure(peer, &place, rc);
    if (rc == -ETIMEDOUT && (WRITER & 1u << peer) != 0 &&
        wait_has_datadir(line) && wait_report_cause(line))
        return CONFIG_EXIT_SYSTEM;
    if (!f)
        return cmd_failed(rc, "%s at %s", place.daemon, place.text);
    /* No history is an answer, like no key. */
    report_failure(f, line, &place,
                   peer == CMD_HISTORY && f->status == CONFIG_EXIT_NEGATIVE
                       ? DIAG_INFO
                       : DIAG_ERROR);
    return f->status;
}
