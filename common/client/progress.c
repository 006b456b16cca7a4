/* common/client/progress.c - see progress.h. */
#include "common/client/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#define BAR_SIZE    28
#define INTERVAL_MS 100

void
progress_init(struct progress *p, const char *what, uint64_t total)
{
    *p = (struct progress){
        .on = isatty(STDERR_FILENO) == 1,
        .what = what,
        .total = total,
        .start_ms = clock_ms(),
    };
}

uint64_t
progress_ms(const struct progress *p)
{
    return clock_ms() - p->start_ms;
}

void
progress_show(struct progress *p, uint64_t done, uint64_t count,
              const char *thing)
{
    const uint64_t now = clock_ms();
    const uint64_t spent = now - p->start_ms;
    char bar[BAR_SIZE + 16] = "";
    uint64_t parts;

    if (!p->on || (!p->due && now - p->drawn_ms < INTERVAL_MS))
        return;
    p->due = false;
    p->drawn_ms = now;
    if (p->total > 0) {
        /* A file that grows meanwhile is full, not fuller. */
        parts = done < p->total ? done * BAR_SIZE / p->total : BAR_SIZE;
        bar[0] = '[';
        memset(bar + 1, '.', BAR_SIZE);
        memset(bar + 1, '#', parts);
        (void)snprintf(bar + 1 + BAR_SIZE, sizeof bar - 1 - BAR_SIZE,
                       "] %3" PRIu64 "%% ",
                       done < p->total ? done * 100 / p->total
                                       : 100); /* fits: three digits */
    }
    /* A bar that cannot be drawn is no reason to stop. */
    (void)fprintf(stderr, "\r\033[K%s %s%" PRIu64 " %s%s, %" PRIu64 "/s",
                  p->what, bar, count, thing, count == 1 ? "" : "s",
                  spent > 0 ? count * 1000 / spent : 0);
    (void)fflush(stderr); /* likewise */
}

void
progress_due(struct progress *p)
{
    p->due = true;
}

void
progress_clear(struct progress *p)
{
    if (!p->on || p->drawn_ms == 0)
        return;
    p->drawn_ms = 0;
    (void)fputs("\r\033[K", stderr); /* as in progress_show() */
    (void)fflush(stderr);            /* likewise */
}
