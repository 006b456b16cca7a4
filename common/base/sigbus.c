/* common/base/sigbus.c - see sigbus.h. */
#include "common/base/sigbus.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 1024

static char prefix[64];
static char line[LINE_SIZE]; /* the signal comes once */

/* Only what is safe in a signal handler from here on. */

static uintptr_t
hex(const char **at)
{
    static const char digits[] = "0123456789abcdef";
    uintptr_t n = 0;

    for (; **at != '\0'; ++*at) {
        const char *digit = strchr(digits, **at);

        if (digit == NULL)
            break;
        n = n * 16 + (uintptr_t)(digit - digits);
    }
    return n;
}

/* Whether a line of /proc/self/maps, "START-END ...", is of this address. */
static bool
holds(const char *map, uintptr_t address)
{
    const uintptr_t start = hex(&map);

    if (*map++ != '-')
        return false;
    return start <= address && address < hex(&map);
}

/* Finds the file that is mapped there; NULL: none. */
static const char *
mapped_file(uintptr_t address)
{
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char bytes[512];
    size_t size = 0;
    ssize_t got;

    if (fd < 0)
        return NULL;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] != '\n') {
                if (size < sizeof line - 1)
                    line[size++] = bytes[i];
                continue;
            }
            line[size] = '\0';
            size = 0;
            if (holds(line, address)) {
                (void)close(fd); /* only read */
                return strchr(line, '/');
            }
        }
    }
    (void)close(fd); /* only read */
    return NULL;
}

static void
say(const char *text)
{
    /* There is nobody left to tell that it failed. */
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

/* The access is made again after this, and ends the process. */
static void
on_bus(int signo, siginfo_t *info, void *context)
{
    const char *file;

    (void)context; /* of no use here */
    if (info->si_code <= 0) {
        (void)raise(signo); /* somebody sent it: it comes after this */
        return;
    }
    file = mapped_file((uintptr_t)info->si_addr);
    say(prefix);
    say(file != NULL ? file : "memory");
    say(": a page of it is not there: it was cut short while it was in use, or "
        "the disk is damaged or full\n");
}

void
sigbus_init(const char *program)
{
    struct sigaction action = {.sa_sigaction = on_bus,
                               .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};

    (void)snprintf(prefix, sizeof prefix, "%s: error: ", program); /* fits */
    /* Both fail for bad signal numbers only. */
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL);
}
