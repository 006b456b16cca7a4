/* common/base/sigbus.c - see sigbus.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/sigbus.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 1024
#define NAME_SIZE 256

static char line[LINE_SIZE];
static size_t line_used; /* from the start on: the program's name */
/* Each thread's own: the handler runs in the thread that met the fault. */
static _Thread_local struct {
    char name[NAME_SIZE];
    size_t size;
} noted;

void
sigbus_note(const uint8_t *keyspace, size_t size)
{
    noted.size = size < NAME_SIZE ? size : NAME_SIZE;
    memcpy(noted.name, keyspace, noted.size);
}

/* From here on only calls that are safe in a signal handler. */

static void
append_bytes(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size && line_used < sizeof line - 1; i++)
        line[line_used++] =
            bytes[i] >= ' ' && bytes[i] != 0x7f ? bytes[i] : '?';
}

static void
append_text(const char *text)
{
    append_bytes(text, strlen(text));
}

/* The report: signal, reason, keyspace. */
static void
on_fault(int signo)
{
    append_text(signo == SIGBUS    ? "SIGBUS"
                : signo == SIGSEGV ? "SIGSEGV"
                                   : "SIGABRT");
    if (noted.size > 0) {
        append_text(signo == SIGBUS
                        ? ": a page of its file cannot be read: the file was "
                          "cut short or is damaged, or the disk fails or is "
                          "full; run countd check keyspace="
                        : ": what was read may be damaged; run countd check "
                          "keyspace=");
        append_bytes(noted.name, noted.size);
    }
    line[line_used++] = '\n';
    if (write(STDERR_FILENO, line, line_used) < 0)
        line_used = 0;
    /* Its default action follows when this returns. */
    (void)raise(signo);
}

void
sigbus_init(const char *program)
{
    static const int signals[] = {SIGBUS, SIGSEGV, SIGABRT};

    (void)snprintf(line, sizeof line, "%s: error: ", program);
    line_used = strlen(line);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old,
            action = {.sa_handler = on_fault, .sa_flags = (int)SA_RESETHAND};

        /* A sanitizer's own report of a wrong address says more. */
        (void)sigaction(signals[i], NULL, &old);
        if (signals[i] == SIGSEGV && old.sa_handler != SIG_DFL)
            continue;
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(signals[i], &action, NULL);
    }
}
