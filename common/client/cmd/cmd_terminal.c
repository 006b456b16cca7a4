/* common/client/cmd/cmd_terminal.c - see cmd_terminal.h: progress_show(),
 * interrupt_asked(), chart_bar() and chart_spark(), screen_draw(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_terminal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/setup/config.h"

#define USUAL_WIDTH  80 /* of a terminal that does not say */
#define USUAL_HEIGHT 24

static struct winsize
terminal_size(int fd)
{
    struct winsize w;

    if (ioctl(fd, TIOCGWINSZ, &w) < 0 || w.ws_col == 0)
        w = (struct winsize){.ws_row = USUAL_HEIGHT, .ws_col = USUAL_WIDTH};
    return w;
}

/* ---- progress ------------------------------------------------------------ */

#define LEFT_TEXT     48
#define LINE_TEXT     256
#define INTERVAL_MS   100
#define LEFT_AFTER_MS 1000
#define LEFT_MAX_MS   UINT64_C(360000000) /* longer ones are not shown */

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

/* ", 15.0 s left" at the speed up to now, once that says something. */
static void
put_left(const struct progress *p, uint64_t done, uint64_t elapsed_ms,
         char left[LEFT_TEXT])
{
    char age[32];
    uint64_t ms;

    left[0] = '\0';
    if (done == 0 || done >= p->total || elapsed_ms < LEFT_AFTER_MS)
        return;
    ms = scale_share(p->total - done, done, elapsed_ms);
    if (ms >= LEFT_MAX_MS)
        return;
    output_age((int64_t)ms, age);
    (void)snprintf(left, LEFT_TEXT, ", %s left", age);
}

void
progress_show(struct progress *p, uint64_t done, uint64_t count,
              const char *thing)
{
    const uint64_t now = clock_ms();
    const uint64_t elapsed_ms = now - p->start_ms;
    /* A file that grows meanwhile is whole, not more. */
    const uint64_t at = done < p->total ? done : p->total;
    char part[16] = "", left[LEFT_TEXT], line[LINE_TEXT];
    size_t width;

    if (!p->on || now - p->drawn_ms < INTERVAL_MS)
        return;
    p->drawn_ms = now;
    width = terminal_size(STDERR_FILENO).ws_col;
    if (p->total > 0)
        (void)snprintf(part, sizeof part, "%" PRIu64 "%% ",
                       scale_share(at, p->total, 100));
    put_left(p, done, elapsed_ms, left);
    (void)snprintf(line, sizeof line, "%s %s%" PRIu64 " %s%s, %" PRIu64 "/s%s",
                   p->what, part, count, thing, output_plural(count),
                   elapsed_ms > 0 ? scale_share(count, elapsed_ms, 1000) : 0,
                   left);
    /* A line that wraps cannot be cleared.  The last column stays free, for some
     * wrap there. */
    if (width > sizeof line)
        width = sizeof line;
    /* Errors of stderr are ignored: the work goes on without progress. */
    (void)fprintf(stderr, "\r\033[K%.*s", (int)width - 1, line);
    (void)fflush(stderr);
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

/* ---- interrupt ----------------------------------------------------------- */

int
interrupt_init(struct interrupt *s)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    int rc;

    *s = (struct interrupt){.fd = -1};
    /* These calls fail for bad signal numbers only. */
    (void)sigemptyset(&s->mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        (void)sigaction(signals[i], NULL, &now);
        if (now.sa_handler == SIG_DFL)
            (void)sigaddset(&s->mask, signals[i]);
    }
    if (sigprocmask(SIG_BLOCK, &s->mask, NULL) < 0)
        return -errno;
    s->fd = signalfd(-1, &s->mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd >= 0)
        return 0;
    rc = -errno;
    (void)sigprocmask(SIG_UNBLOCK, &s->mask, NULL);
    return rc;
}

bool
interrupt_asked(struct interrupt *s)
{
    struct signalfd_siginfo info;

    if (s->signo == 0 && read(s->fd, &info, sizeof info) == sizeof info) {
        s->signo = (int)info.ssi_signo;
        /* Cannot fail: the set is our own. */
        (void)sigprocmask(SIG_UNBLOCK, &s->mask, NULL);
    }
    return s->signo != 0;
}

bool
interrupt_wait(struct interrupt *s, int fd)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                            {.fd = s->fd, .events = POLLIN}};
    int n;

    if (interrupt_asked(s))
        return true;
    do
        n = poll(fds, 2, -1);
    while (n < 0 && errno == EINTR);
    /* A failed poll: let read() say what is wrong. */
    return n > 0 && fds[1].revents != 0 && interrupt_asked(s);
}

void
interrupt_fini(struct interrupt *s)
{
    const int signo = s->signo;

    (void)close(s->fd);
    /* One that came just now ends us here. */
    (void)sigprocmask(SIG_UNBLOCK, &s->mask, NULL);
    if (signo != 0)
        (void)raise(signo); /* its action is the default one: we end */
}

/* ---- chart --------------------------------------------------------------- */

#define LEVELS 8

unsigned
chart_width(const struct output *o)
{
    unsigned width;

    if (o->format != OUTPUT_PEOPLE || isatty(STDOUT_FILENO) != 1)
        return 0;
    width = terminal_size(STDOUT_FILENO).ws_col;
    return width < CHART_WIDTH_MAX ? width : CHART_WIDTH_MAX;
}

/* Asks the installed locale: the name of a locale that is not installed does
 * not determine its character set. */
bool
chart_is_utf8(void)
{
    return setlocale(LC_CTYPE, "") != NULL &&
           strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void
chart_bar(double value, double most, unsigned width,
          char bar[CHART_BAR_MAX + 1])
{
    const double size = isnan(value) ? 0 : fabs(value);
    size_t length = most > 0 ? (size_t)(size / most * width + 0.5) : 0;

    assert(width <= CHART_BAR_MAX && size <= most);
    if (length == 0 && size > 0)
        length = 1;
    memset(bar, value < 0 ? '-' : '#', length);
    bar[length] = '\0';
}

/* ---- sparklines -------------------------------------------------------- */

/* The mean of sums, of which those that are not there count as 0; NAN: none is
 * there. */
static double
mean_of(const double *sums, size_t count)
{
    double mean = 0;
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        any = any || !isnan(sums[i]);
        mean += isnan(sums[i]) ? 0 : sums[i] / (double)count;
    }
    return any ? mean : NAN;
}

static char *
put_level(char *at, unsigned level, bool utf8)
{
    if (!utf8) {
        *at++ = "_.:-=+*#"[level];
        return at;
    }
    *at++ = '\xe2'; /* U+2581 to U+2588 */
    *at++ = '\x96';
    *at++ = (char)(0x81 + level);
    return at;
}

void
chart_spark(const double *sums, size_t count, unsigned width, bool utf8,
            char line[CHART_LINE_SIZE])
{
    double means[CHART_WIDTH_MAX];
    const size_t each = width > 0 ? (count + width - 1) / width : 1;
    double least = 0, most = 0;
    size_t n = 0;

    assert(width >= 1 && width <= CHART_WIDTH_MAX);
    for (size_t i = 0; i < count; i += each) {
        means[n] = mean_of(&sums[i], count - i < each ? count - i : each);
        least = means[n] < least ? means[n] : least; /* false of a NAN */
        most = means[n] > most ? means[n] : most;
        n++;
    }
    for (size_t i = 0; i < n; i++) {
        const double part =
            most > least ? (means[i] - least) / (most - least) : 0;

        if (isnan(means[i]))
            *line++ = ' ';
        else
            line = put_level(line, (unsigned)(part * (LEVELS - 1) + 0.5), utf8);
    }
    *line = '\0';
}

/* ---- screen -------------------------------------------------------------- */

#define PAGE_SIZE ((size_t)1 << 16) /* of a page that is written at once */

#define OPEN_PAGE  "\033[?1049h\033[?25l"
#define CLOSE_PAGE "\033[?25h\033[?1049l"

int
screen_open(struct screen *s)
{
    static char page[PAGE_SIZE];
    struct termios raw;
    int rc;

    *s = (struct screen){.keys = false};
    if (isatty(STDOUT_FILENO) == 0)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "stdout is not a terminal; this command needs one");
    rc = interrupt_init(&s->stop);
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
    interrupt_fini(&s->stop);
}

void
screen_draw(const char *text)
{
    struct winsize w = terminal_size(STDOUT_FILENO);
    bool is_first = true;

    (void)fputs("\033[H", stdout);
    for (; w.ws_row > 0 && *text != '\0'; w.ws_row--, is_first = false) {
        const size_t size = strcspn(text, "\n");

        (void)printf("%s\033[K%.*s", is_first ? "" : "\r\n",
                     (int)(size < w.ws_col ? size : w.ws_col), text);
        text += size + (text[size] == '\n');
    }
    (void)fputs(w.ws_row > 0 ? "\r\n\033[J" : "", stdout);
    (void)fflush(stdout);
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
        {.fd = s->stop.fd, .events = POLLIN},
        {.fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN}};

    if (poll(fds, 2, ms) <= 0)
        return true;
    if (interrupt_asked(&s->stop) ||
        (fds[1].revents & (POLLHUP | POLLERR)) != 0)
        return false;
    return (fds[1].revents & POLLIN) == 0 || !is_quit();
}
