/* common/client/cmd/cmd_terminal.h - what a command shows a person and takes
 * from one: progress, charts, whole pages, signals, the lines of a file, and
 * the children of countd serve.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_CMD_TERMINAL_H
#define COUNTD_COMMON_CLIENT_CMD_CMD_TERMINAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>
#include <zlib.h>

#include "common/client/cmd/cmd.h"
#include "common/client/lib/countd.h"
#include "common/setup/config.h"

/* ---- progress ---------------------------------------------------------- */

/* How far a command is, on a terminal; nothing elsewhere.
 *
 * Drawn on stderr, at most ten times a second, cut to the terminal's width, and
 * removed at the end so that the result stands alone:
 *
 *     loading 25% 250 lines, 50/s, 15.0 s left */

struct progress {
    bool on;           /* stderr is a terminal */
    const char *what;  /* "loading" */
    uint64_t total;    /* in the unit of `done`; 0: unknown */
    uint64_t start_ms; /* monotonic, as is drawn_ms */
    uint64_t drawn_ms;
};

void progress_init(struct progress *p, const char *what, uint64_t total);

/* `done` of the total, and how many of what that were ("line", say). */
void progress_show(struct progress *p, uint64_t done, uint64_t count,
                   const char *thing);

/* Clears the line; also before a message. */
void progress_clear(struct progress *p);

uint64_t progress_ms(const struct progress *p); /* since init */

/* ---- interrupt --------------------------------------------------------- */

/* A ^C that ends a long subcommand in good order.
 *
 * From init on SIGINT, SIGTERM and SIGHUP wait to be looked at.  Once one was
 * seen the next one ends the process as usual, so nothing that hangs can
 * hold it up.  A signal that is ignored (nohup) stays so.
 *
 * Ownership: one struct interrupt, init to fini.  Threads: one. */

struct interrupt {
    sigset_t mask; /* what was blocked */
    int fd;
    int signo; /* signal that was seen; 0: none */
};

/* 0 or -errno: nothing has changed. */
int interrupt_init(struct interrupt *s);

/* True when a signal has come; does not wait. */
bool interrupt_asked(struct interrupt *s);

/* Waits until `fd` can be read or a signal comes: true for the latter. */
bool interrupt_wait(struct interrupt *s, int fd);

/* Ends the process by the signal that was seen, if there was one. */
void interrupt_fini(struct interrupt *s);

/* ---- lines ------------------------------------------------------------- */

/* The lines of a file or pipe, plain or gzip.
 *
 *     while ((rc = lines_fill(&l)) > 0)
 *         while (lines_next(&l, &text, &size)) ...
 *
 * A byte order mark before the first line is dropped; what is not text is refused.
 *
 * Gzip is recognised by its first two bytes; members may follow one another.
 * Lines end with \n or \r\n; the last one may lack it.  A line longer than
 * LINES_SIZE_MAX is given as its beginning, with `cut` set.
 *
 * Ownership: between open and close; a line is valid until the next call.
 * Errors: 0 or a negative errno; -EBADMSG for damaged gzip, -ENODATA for gzip
 * that ends too early, -EILSEQ for what is neither gzip nor text. */

#define LINES_SIZE_MAX 4096
#define LINES_BUFFER   ((size_t)128 << 10)

struct lines {
    int fd;
    bool gzip;
    bool started;       /* the first bytes have been looked at */
    bool ended;         /* nothing more comes */
    bool in_member;     /* gzip: inside of a member */
    bool skipping;      /* the rest of a line that was too long */
    bool cut;           /* the line given last was cut */
    uint64_t number;    /* number of the line given last, from 1 */
    uint64_t read_size; /* bytes read from fd */
    z_stream z;
    size_t at, end;            /* of the text not given yet */
    uint8_t raw[LINES_BUFFER]; /* gzip: as read */
    char text[LINES_BUFFER];
};

/* "-" is standard input. */
int lines_open(struct lines *l, const char *path);
void lines_close(struct lines *l);

/* True when lines_fill() would not wait (for a pipe, a person). */
bool lines_ready(const struct lines *l);

/* Returns how many bytes of the file have been returned as lines. All bytes of
 * a gzip file that were unpacked count. */
uint64_t lines_done(const struct lines *l);

/* Reads more bytes. 1: there may be lines; 0: the end of the file. */
int lines_fill(struct lines *l);

/* The next whole line without its end; false: fill first. */
bool lines_next(struct lines *l, const char **text, size_t *size);

/* ---- chart ------------------------------------------------------------- */

/* Sums drawn for people: a bar beside each row, a sparkline of all in one
 * line.
 *
 * Only on a terminal: what goes into a pipe or a file has no picture in it.
 * Sparklines are of the block characters of Unicode where the locale says
 * UTF-8, else of ASCII.  Only two functions have effects outside: they read
 * the size of the terminal and the locale. */

#define CHART_BAR_MAX   40 /* columns */
#define CHART_WIDTH_MAX 400
#define CHART_LINE_SIZE (3 * CHART_WIDTH_MAX + 1)

/* Returns the columns of the terminal, at most CHART_WIDTH_MAX; 0: the output
 * format is for programs, or stdout is not a terminal. */
unsigned chart_width(const struct output *o);

/* Whether the user's locale has UTF-8. */
bool chart_is_utf8(void);

/* `width` columns (CHART_BAR_MAX at most) for `most`, less in proportion; what
 * is not 0 is seen, and what is below 0 is of another character; a NAN is 0. */
void chart_bar(double value, double most, unsigned width,
               char bar[CHART_BAR_MAX + 1]);

/* A character for each sum, as high as it is between the least (or 0) and the
 * largest; a blank for a NAN: there were no increments.  Of more than `width`
 * sums some neighbours share a character, by their mean. */
void chart_spark(const double *sums, size_t count, unsigned width, bool utf8,
                 char line[CHART_LINE_SIZE]);

/* ---- screen ------------------------------------------------------------ */

/* A terminal that shows one page, drawn anew now and then.
 *
 * A page is written at once, line over line, so that nothing flickers.  The
 * terminal's own page is there again afterwards.
 *
 * Ownership: the caller's, between open and close.  One at a time. */

struct screen {
    struct termios before;
    struct interrupt stop;
    bool keys; /* stdin is a terminal, too */
};

/* Returns 0, or reports why it failed (stdout is not a terminal) and returns an
 * exit status. */
int screen_open(struct screen *s);
void screen_close(struct screen *s);

/* Draws lines of ASCII; what does not fit is cut. */
void screen_draw(const char *text);

/* Waits that long: true.  False: a signal or the key q ends it; the signal ends
 * the process when the screen is closed. */
bool screen_wait(struct screen *s, int ms);

#endif
