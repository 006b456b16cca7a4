/* common/client/cmd/progress.h - a progress bar on a terminal, nothing
 * elsewhere.
 *
 * Drawn on stderr, at most ten times a second, and removed at the end so that
 * the result stands alone:
 *
 *     loading [#######.....................]  25% 250 lines, 50/s, 15s left
 *
 * A terminal too narrow for that gets no bar, then a part of the line.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_PROGRESS_H
#define COUNTD_COMMON_CLIENT_CMD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on;           /* stderr is a terminal */
    const char *what;  /* "loading" */
    uint64_t total;    /* in the unit of `done`; 0: unknown, no bar */
    uint64_t start_ms; /* monotonic, as is drawn_ms */
    uint64_t drawn_ms;
    bool due; /* draw at the next occasion */
};

void progress_init(struct progress *p, const char *what, uint64_t total);

/* `done` of the total, and how many of what that were ("line", say). */
void progress_show(struct progress *p, uint64_t done, uint64_t count,
                   const char *thing);

/* The next progress_show() draws, however short the last one is ago: before
 * a wait of unknown length, which must not leave an old count standing. */
void progress_due(struct progress *p);

/* Clears the line; also before a message that interrupts the bar. */
void progress_clear(struct progress *p);

uint64_t progress_ms(const struct progress *p); /* since init */

#endif
