/* common/base/sigbus.c - see sigbus.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/sigbus.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hex.h"

#define LINE_SIZE 1024
#define NAME_SIZE 256

static char prefix[64];
static char line[LINE_SIZE]; /* of /proc/self/maps, then the report */
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

/* A mapping of a file that has the address. */
struct mapping {
    char *file;      /* NULL: no file is mapped there */
    uint64_t offset; /* of the address in the file */
};

static uint64_t
parse_hex(const char **at)
{
    uint64_t n = 0;

    for (; hex_value((uint8_t) * *at) >= 0; ++*at)
        n = n * 16 + (uint64_t)hex_value((uint8_t) * *at);
    return n;
}

/* Parses `line`, "START-END MODE OFFSET DEVICE INODE PATH"; true when the
 * address lies in it. */
static bool
parse_mapping(uint64_t address, struct mapping *m)
{
    const char *at = line;
    const uint64_t start = parse_hex(&at);
    uint64_t end;

    if (*at++ != '-')
        return false;
    end = parse_hex(&at);
    if (address < start || address >= end || *at++ != ' ')
        return false;
    at = strchr(at, ' ');
    if (at == NULL)
        return false;
    at++;
    m->offset = parse_hex(&at) + (address - start);
    m->file = strchr(line, '/');
    return true;
}

static void
find_mapping(uint64_t address, struct mapping *m)
{
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char bytes[512];
    size_t size = 0;
    ssize_t got;

    while (fd >= 0 && (got = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] != '\n') {
                if (size < sizeof line - 1)
                    line[size++] = bytes[i];
                continue;
            }
            line[size] = '\0';
            size = 0;
            if (parse_mapping(address, m)) {
                (void)close(fd);
                return;
            }
        }
    }
    if (fd >= 0)
        (void)close(fd);
}

/* Appends to `line`, which is written out at once by write_line(). */
static size_t line_used;

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

static void
append_signal(int signo)
{
    append_text(signo == SIGBUS    ? "SIGBUS"
                : signo == SIGSEGV ? "SIGSEGV"
                                   : "SIGABRT");
}

/* Determines the reason from the size of the file. */
static const char *
find_reason(const struct mapping *m)
{
    struct stat st;

    if (stat(m->file, &st) < 0)
        return ": the file was removed or cut short while it was in use";
    if ((uint64_t)st.st_size <= m->offset)
        return ": the page that was read lies behind the end of the file: a "
               "page number in it is damaged, or the file was cut short while "
               "it was in use; run countd check";
    return ": the disk cannot read a page of the file, or is full";
}

/* The report: signal, file, reason, keyspace. */
static void
on_fault(int signo, siginfo_t *info, void *context)
{
    static char file[LINE_SIZE];
    struct mapping m = {.file = NULL};

    (void)context;
    if (signo == SIGBUS && info->si_code > 0)
        find_mapping((uint64_t)(uintptr_t)info->si_addr, &m);
    if (m.file != NULL) {
        (void)stpncpy(file, m.file, sizeof file - 1);
        m.file = file;
    }
    append_text(prefix);
    append_signal(signo);
    if (m.file != NULL) {
        append_text(" at ");
        append_text(m.file);
        append_text(find_reason(&m));
    } else if (noted.size > 0) {
        append_text(": what was read may be damaged; run countd check");
    }
    if (noted.size > 0) {
        append_text(" keyspace=");
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

    (void)snprintf(prefix, sizeof prefix, "%s: error: ", program);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old,
            action = {.sa_sigaction = on_fault,
                      .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};

        /* A sanitizer's own report of a wrong address says more. */
        (void)sigaction(signals[i], NULL, &old);
        if (signals[i] == SIGSEGV && old.sa_handler != SIG_DFL)
            continue;
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(signals[i], &action, NULL);
    }
}
