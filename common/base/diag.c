/* common/base/diag.c - see diag.h: diag(), diag_text(), diag_last_error(),
 * diag_errno(), diag_repeating(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/diag.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

#define DIAG_LINE_SIZE 2048  /* longer messages are cut */
#define DIAG_REPEAT_MS 60000 /* between two lines of one repeating fault */

static const char *diag_program = "countd";
static enum diag_level diag_max = DIAG_INFO;
static atomic_int last_error;

static const char *const level_names[] = {
    [DIAG_ERROR] = "error",
    [DIAG_WARNING] = "warning",
    [DIAG_INFO] = "info",
};

/* A line being made; one byte is always kept for the newline. */
struct line {
    char text[DIAG_LINE_SIZE];
    size_t size;
};

void
diag_init(const char *program, enum diag_level max)
{
    assert(program != NULL);
    assert(max <= DIAG_INFO);

    diag_program = program;
    diag_max = max;
}

static void line_addv(struct line *l, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void line_add(struct line *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
line_addv(struct line *l, const char *format, va_list args)
{
    const size_t left = sizeof l->text - 1 - l->size;
    const int size = vsnprintf(l->text + l->size, left, format, args);

    if (size < 0)
        return; /* only a bad multibyte conversion, which we do not use */
    l->size += (size_t)size < left ? (size_t)size : left - 1;
}

static void
line_add(struct line *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    line_addv(l, format, args);
    va_end(args);
}

static void
line_start(struct line *l, enum diag_level level)
{
    l->size = 0;
    line_add(l, "%s: %s: ", diag_program, level_names[level]);
}

static void
line_write(struct line *l)
{
    /* A file name may hold anything: one message stays one line, and no
     * terminal obeys it. */
    for (size_t i = 0; i < l->size; i++) {
        const unsigned char c = (unsigned char)l->text[i];

        if (c < 0x20 || c == 0x7f)
            l->text[i] = '?';
    }
    l->text[l->size++] = '\n';

    /* There is nowhere left to report that stderr cannot be written. */
    if (write(STDERR_FILENO, l->text, l->size) < 0)
        return;
}

const char *
diag_text(int error)
{
    const int number = error < 0 ? -error : error;
    const char *text;

    switch (number) {
    case EBADMSG:
        return "it is damaged";
    case EPROTONOSUPPORT:
        return "it is of a newer version of countd";
    default:
        /* Not strerror(): its buffer is everybody's. */
        text = strerrordesc_np(number);
        return text != NULL ? text : "unknown error";
    }
}

int
diag_last_error(void)
{
    return atomic_load_explicit(&last_error, memory_order_relaxed);
}

static void write_message(enum diag_level level, int error, const char *format,
                          va_list args) __attribute__((format(printf, 3, 0)));

/* Writes a line, which ends with the text of `error` unless that is 0. */
static void
write_message(enum diag_level level, int error, const char *format,
              va_list args)
{
    const int saved = errno;
    struct line l;

    if (level > diag_max)
        return;
    line_start(&l, level);
    line_addv(&l, format, args);
    if (error != 0)
        line_add(&l, ": %s", diag_text(error));
    line_write(&l);
    errno = saved;
}

void
diag(enum diag_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_message(level, 0, format, args);
    va_end(args);
}

void
diag_errno(enum diag_level level, int error, const char *format, ...)
{
    va_list args;

    if (level == DIAG_ERROR)
        atomic_store_explicit(&last_error, error < 0 ? -error : error,
                              memory_order_relaxed);
    va_start(args, format);
    write_message(level, error, format, args);
    va_end(args);
}

/* True when it is time for a line; *count is how often it happened unlogged
 * before. */
static bool
repeat_due(struct diag_repeat *repeat, uint64_t *count)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const uint64_t now = clock_ms();
    bool due;

    (void)pthread_mutex_lock(&mutex); /* a plain mutex cannot fail */
    due = repeat->last_ms == 0 || now - repeat->last_ms >= DIAG_REPEAT_MS;
    if (due) {
        *count = repeat->count;
        repeat->count = 0;
        repeat->last_ms = now > 0 ? now : 1;
    } else {
        repeat->count++;
    }
    (void)pthread_mutex_unlock(&mutex);
    return due;
}

void
diag_repeating(struct diag_repeat *repeat, enum diag_level level,
               const char *format, ...)
{
    const int saved = errno;
    uint64_t count;
    struct line l;
    va_list args;

    if (level > diag_max || !repeat_due(repeat, &count))
        return;
    line_start(&l, level);
    va_start(args, format);
    line_addv(&l, format, args);
    va_end(args);
    if (count > 0)
        line_add(&l, " unlogged=%llu", (unsigned long long)count);
    line_write(&l);
    errno = saved;
}
