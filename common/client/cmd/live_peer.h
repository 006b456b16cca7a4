/* common/client/cmd/live_peer.h - what the subcommands for live resources
 * share: their names, and the port that the settings and --semaphore name.
 *
 * Everything here says on stderr what went wrong and returns an exit status.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_LIVE_PEER_H
#define COUNTD_COMMON_CLIENT_CMD_LIVE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/client/cmd/cmd.h"
#include "common/wire/frame.h"

#define LIVE_NAME_MAX FRAME_NAME_MAX
/* Size of a name in text form, with NUL. */
#define LIVE_TEXT_SIZE (4 * (size_t)LIVE_NAME_MAX + 1)

struct live_name {
    uint8_t *bytes; /* any, NUL too; the caller frees them */
    size_t size;
};

bool live_is_semaphore(const struct cmd_line *line);
enum cmd_peer live_peer(const struct cmd_line *line);
const char *live_word(const struct cmd_line *line); /* "counter" */

/* A name in its text form.  CONFIG_EXIT_USAGE when it is none. */
int live_name(const char *text, struct live_name *out);

/* Connects now. */
int live_connect(const struct cmd_line *line, struct countd_live **out);

#endif
