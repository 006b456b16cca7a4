/* reader/graphite/zone.c - see zone.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static char variable[sizeof "TZ=" + sizeof(struct zone)] = "TZ=";

void
zone_begin(void)
{
    (void)putenv(variable); /* a failure leaves the zone that there is */
    tzset();
}

/* Whether a file is one of tzfile(5): 0, or as zone_open(). */
static int
check_file(const char *path)
{
    char magic[4];
    ssize_t got;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? -ENOENT : -EBADMSG;
    got = read(fd, magic, sizeof magic); /* no bytes if it is not a file */
    (void)close(fd);                     /* it was only read */
    return got == sizeof magic && memcmp(magic, "TZif", sizeof magic) == 0
               ? 0
               : -EBADMSG;
}

int
zone_open(struct zone *z, const char *name, size_t size)
{
    char place[ZONE_NAME_MAX + 1] = "";

    z->value[0] = '\0';
    if (size == 0 || (size == 3 && memcmp(name, "UTC", 3) == 0))
        return 0;
    if (size > ZONE_NAME_MAX)
        return -ENOENT;
    memcpy(place, name, size);
    /* A name without dots cannot lead elsewhere, and those below right/ count
     * leap seconds, which Unix time does not. */
    if (place[0] == '/' || strncmp(place, "right/", 6) == 0 ||
        strspn(place, LETTERS "0123456789/_+-") != size)
        return -ENOENT;
    (void)sprintf(z->value, ":" ZONE_DIRECTORY "/%s", place);
    return check_file(z->value + 1);
}

int64_t
zone_ahead(const struct zone *z, int64_t time)
{
    const time_t t = (time_t)time;
    char *value = variable + strlen("TZ=");
    struct tm day;

    if (strcmp(value, z->value) != 0) {
        memcpy(value, z->value, sizeof z->value);
        tzset();
    }
    return localtime_r(&t, &day) ? day.tm_gmtoff : 0;
}

int64_t
zone_to_unix(const struct zone *z, int64_t local)
{
    const int64_t near = local - zone_ahead(z, local);

    return local - zone_ahead(z, near);
}
