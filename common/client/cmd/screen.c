/* common/client/cmd/screen.c - see cmd_terminal.h: screen_open(), then
 * screen_begin(), screen_line() and screen_end() for each frame. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/setup/config.h"

/* A page, with what is around its lines. */
#define PAGE_SIZE ((size_t)SCREEN_LINES_MAX * (SCREEN_WIDTH_MAX + 32))

#define OPEN_PAGE  "\033[?1049h\033[?25l"
#define CLOSE_PAGE "\033[?25h\033[?1049l"

static int
take_signals(struct screen *s)
{
    sigset_t mask;

    /* These cannot fail: the set and the numbers are valid. */
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGHUP);
    (void)sigaddset(&mask, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &mask, &s->mask);
    s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signals < 0 ? -errno : 0;
}

int
screen_open(struct screen *s)
{
    static char page[PAGE_SIZE];
    struct termios raw;
    int rc;

    *s = (struct screen){.signals = -1};
    if (isatty(STDOUT_FILENO) == 0)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "stdout is not a terminal; this command needs one");
    rc = take_signals(s);
    if (rc < 0)
        return cmd_failed(rc, "open the screen");
    (void)setvbuf(stdout, page, _IOFBF, sizeof page);
    s->keys = tcgetattr(STDIN_FILENO, &s->before) == 0;
    if (s->keys) {
        raw = s->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw); /* else keys echo */
    }
    (void)fputs(OPEN_PAGE, stdout); /* if it is gone, SIGHUP ends us */
    return 0;
}

void
screen_close(struct screen *s)
{
    (void)fputs(CLOSE_PAGE, stdout);
    (void)fflush(stdout);
    if (s->keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
    (void)close(s->signals);
    (void)sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

void
screen_begin(struct screen *s)
{
    struct winsize w;

    s->width = 80;
    s->height = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 &&
        w.ws_row > 0) {
        s->width = w.ws_col < SCREEN_WIDTH_MAX ? w.ws_col : SCREEN_WIDTH_MAX;
        s->height = w.ws_row < SCREEN_LINES_MAX ? w.ws_row : SCREEN_LINES_MAX;
    }
    s->lines = 0;
    (void)fputs("\033[H", stdout);
}

static void add_line(struct screen *s, const char *before, const char *format,
                     va_list args) __attribute__((format(printf, 3, 0)));

/* Adds a line. Text is ASCII, so one byte is one column. */
static void
add_line(struct screen *s, const char *before, const char *format, va_list args)
{
    char text[SCREEN_WIDTH_MAX + 1];

    if (s->lines == s->height)
        return;
    (void)vsnprintf(text, sizeof text, format, args); /* cut: meant */
    text[s->width] = '\0';
    (void)printf("%s%s%s%s\033[K", s->lines++ > 0 ? "\r\n" : "", before, text,
                 before[0] != '\0' ? "\033[0m" : "");
}

void
screen_line(struct screen *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_line(s, "", format, args);
    va_end(args);
}

void
screen_title(struct screen *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_line(s, "\033[1m", format, args);
    va_end(args);
}

void
screen_end(void)
{
    (void)fputs("\033[J", stdout);
    (void)fflush(stdout);
}

/* A signal that is there: 0 none, 1 another size, -1 the end. */
static int
read_signal(const struct screen *s)
{
    struct signalfd_siginfo info;
    int found = 0;

    while (read(s->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGWINCH)
            return -1;
        found = 1;
    }
    return found;
}

static bool
is_quit(void)
{
    char keys[64];
    const ssize_t n = read(STDIN_FILENO, keys, sizeof keys);

    return n > 0 && memchr(keys, 'q', (size_t)n) != NULL;
}

bool
screen_wait(struct screen *s, int ms)
{
    struct pollfd fds[2] = {
        {.fd = s->signals, .events = POLLIN},
        {.fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN}};

    if (poll(fds, 2, ms) <= 0)
        return true;
    if (read_signal(s) < 0 || (fds[1].revents & (POLLHUP | POLLERR)) != 0)
        return false;
    return (fds[1].revents & POLLIN) == 0 || !is_quit();
}
