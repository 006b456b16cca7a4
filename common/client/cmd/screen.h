/* common/client/cmd/screen.h - a terminal that shows one page, drawn anew now
 * and then.
 *
 * A page is made whole in memory and written at once, line over line, so that
 * nothing flickers; what does not fit is cut.  The terminal's own page is there
 * again afterwards.
 *
 * Ownership: the caller's, between open and close.  One at a time.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_SCREEN_H
#define COUNTD_COMMON_CLIENT_CMD_SCREEN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#define SCREEN_LINES_MAX 400
#define SCREEN_WIDTH_MAX 400

struct screen {
    unsigned width, height; /* of the terminal, as of screen_begin() */
    char *text;             /* of the page */
    size_t size, capacity;
    unsigned lines; /* of the page until now */
    struct termios before;
    sigset_t mask;
    int signals;
    bool keys; /* stdin is a terminal, too */
};

/* Returns 0, or reports why it failed (stdout is not a terminal) and returns an
 * exit status. */
int screen_open(struct screen *s);
void screen_close(struct screen *s);

/* A page: begin, lines, end. */
void screen_begin(struct screen *s);
void screen_line(struct screen *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void screen_title(struct screen *s, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* inverse */
void screen_end(struct screen *s);

/* Waits that long, or until the terminal has another size: true.  False: a
 * signal or the key q ends it. */
bool screen_wait(struct screen *s, int ms);

#endif
