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

void
diag_init(const char *program, enum diag_level max)
{
    assert(program != NULL);
    assert(max <= DIAG_INFO);

    diag_program = program;
    diag_max = max;
}

static void write_message(enum diag_level level, const char *end,
                          const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Writes a line; what is too long is cut. */
static void
write_message(enum diag_level level, const char *end, const char *format,
              va_list args)
{
    const int saved = errno;
    char body[DIAG_LINE_SIZE], line[DIAG_LINE_SIZE];
    int size;

    if (level > diag_max)
        return;
    (void)vsnprintf(body, sizeof body, format, args);
    size = snprintf(line, sizeof line, "%s: %s: %s%s", diag_program,
                    level_names[level], body, end);
    if (size >= DIAG_LINE_SIZE)
        size = DIAG_LINE_SIZE - 1;
    /* A file name may hold anything: one message stays one line, and no
     * terminal obeys it. */
    for (int i = 0; i < size; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[size++] = '\n'; /* in place of the NUL */
    /* There is nowhere left to report that stderr cannot be written. */
    (void)!write(STDERR_FILENO, line, (size_t)size);
    errno = saved;
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

void
diag(enum diag_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_message(level, "", format, args);
    va_end(args);
}

void
diag_errno(enum diag_level level, int error, const char *format, ...)
{
    char end[128] = "";
    va_list args;

    if (error != 0)
        (void)snprintf(end, sizeof end, ": %s", diag_text(error));
    if (level == DIAG_ERROR)
        atomic_store_explicit(&last_error, error < 0 ? -error : error,
                              memory_order_relaxed);
    va_start(args, format);
    write_message(level, end, format, args);
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
    char end[32] = "";
    uint64_t count;
    va_list args;

    if (level > diag_max || !repeat_due(repeat, &count))
        return;
    if (count > 0)
        (void)snprintf(end, sizeof end, " unlogged=%llu",
                       (unsigned long long)count);
    va_start(args, format);
    write_message(level, end, format, args);
    va_end(args);
}
