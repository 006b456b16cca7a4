/* common/client/cmd/progress.c - see cmd_terminal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"

#define BAR_SIZE      28
#define BAR_TEXT      (BAR_SIZE + 16)
#define LEFT_TEXT     24
#define LINE_TEXT     256
#define INTERVAL_MS   100
#define LEFT_AFTER_MS 1000
#define LEFT_MAX_S    360000 /* 6000m00s; longer estimates are not shown */

/* Returns a / b of `whole`, in 128 bits because the product exceeds 64. */
static uint64_t
scale_share(uint64_t a, uint64_t b, uint64_t whole)
{
    return (uint64_t)((uint128)a * whole / b);
}

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

/* "[####....]  50% ", or nothing when the total is not known. */
static void
put_bar(const struct progress *p, uint64_t done, char bar[BAR_TEXT])
{
    /* A file that grows meanwhile is full, not fuller. */
    const uint64_t at = done < p->total ? done : p->total;

    bar[0] = '\0';
    if (p->total == 0)
        return;
    bar[0] = '[';
    memset(bar + 1, '.', BAR_SIZE);
    memset(bar + 1, '#', scale_share(at, p->total, BAR_SIZE));
    (void)snprintf(bar + 1 + BAR_SIZE, BAR_TEXT - 1 - BAR_SIZE,
                   "] %3" PRIu64 "%% ",
                   scale_share(at, p->total, 100)); /* fits: three digits */
}

/* ", 1m05s left" at the speed up to now, once that says something. */
static void
put_left(const struct progress *p, uint64_t done, uint64_t dead_fills_ms,
         char left[LEFT_TEXT])
{
    uint64_t seconds;

    left[0] = '\0';
    if (done == 0 || done >= p->total || dead_fills_ms < LEFT_AFTER_MS)
        return;
    seconds = scale_share(p->total - done, done, dead_fills_ms) / 1000 + 1;
    if (seconds >= LEFT_MAX_S)
        return;
    /* Both fit: see LEFT_MAX_S. */
    if (seconds < 60)
        (void)snprintf(left, LEFT_TEXT, ", %" PRIu64 "s left", seconds);
    else
        (void)snprintf(left, LEFT_TEXT, ", %" PRIu64 "m%02" PRIu64 "s left",
                       seconds / 60, seconds % 60);
}

/* Returns the columns of the terminal; 0: unknown. */
static size_t
terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 ? 0 : size.ws_col;
}

void
progress_show(struct progress *p, uint64_t done, uint64_t count,
              const char *thing)
{
    const uint64_t now = clock_ms();
    const uint64_t elapsed_ms = now - p->start_ms;
    char bar[BAR_TEXT], left[LEFT_TEXT], line[LINE_TEXT];
    const char *shown = bar;
    size_t width;
    int size;

    if (!p->on || (!p->due && now - p->drawn_ms < INTERVAL_MS))
        return;
    p->due = false;
    p->drawn_ms = now;
    width = terminal_columns();
    put_bar(p, done, bar);
    put_left(p, done, elapsed_ms, left);
    /* A line that wraps cannot be cleared: in a narrow terminal without the
     * bar, and then cut.  The last column stays free, for some wrap there. */
    for (;;) {
        size = snprintf(
            line, sizeof line, "%s %s%" PRIu64 " %s%s, %" PRIu64 "/s%s",
            p->what, shown, count, thing, count == 1 ? "" : "s",
            elapsed_ms > 0 ? scale_share(count, elapsed_ms, 1000) : 0, left);
        if (shown[0] != '[' || width == 0 || (size_t)size < width)
            break;
        shown += 1 + BAR_SIZE + 2 + strspn(shown + 1 + BAR_SIZE + 2, " ");
    }
    if (width == 0 || width > sizeof line)
        width = sizeof line;
    /* Errors of stderr are ignored: the work goes on without a progress bar. */
    (void)fprintf(stderr, "\r\033[K%.*s", (int)width - 1, line);
    (void)fflush(stderr);
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
    (void)fflush(stderr);
}
