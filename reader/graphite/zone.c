/* reader/graphite/zone.c - see zone.h: zone_open() reads a file, zone_parse()
 * understands it; zone_ahead() looks for the last transition before a time. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"

#define HOUR ((int64_t)3600)
#define DAY  ((int64_t)86400)

/* ---- the rule behind the transitions ------------------------------------- */

struct text {
    const char *at, *end;
};

static bool
take_byte(struct text *t, char c)
{
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

/* Up to three digits. */
static bool
take_number(struct text *t, int most, int *out)
{
    const char *const begin = t->at;

    for (*out = 0;
         t->at < t->end && t->at - begin < 3 && *t->at >= '0' && *t->at <= '9';
         t->at++)
        *out = 10 * *out + (*t->at - '0');
    return t->at > begin && *out <= most;
}

/* [+-]HH[:MM[:SS]] */
static bool
take_time(struct text *t, int64_t *out)
{
    const bool is_negative = take_byte(t, '-');
    int hours, minutes = 0, seconds = 0;

    if (!is_negative)
        (void)take_byte(t, '+');
    if (!take_number(t, 167, &hours) ||
        (take_byte(t, ':') && !take_number(t, 59, &minutes)) ||
        (take_byte(t, ':') && !take_number(t, 59, &seconds)))
        return false;
    *out = hours * HOUR + minutes * (HOUR / 60) + seconds;
    *out = is_negative ? -*out : *out;
    return true;
}

/* CEST or <+0330> */
static bool
take_name(struct text *t)
{
    const char *const begin = t->at;

    if (take_byte(t, '<')) {
        while (t->at < t->end && *t->at != '>')
            t->at++;
        return take_byte(t, '>');
    }
    while (t->at < t->end && ((*t->at >= 'A' && *t->at <= 'Z') ||
                              (*t->at >= 'a' && *t->at <= 'z')))
        t->at++;
    return t->at > begin;
}

/* ,M3.5.0/2 */
static bool
take_rule(struct text *t, struct zone_rule *r)
{
    r->time = 2 * HOUR;
    return take_byte(t, ',') && take_byte(t, 'M') &&
           take_number(t, 12, &r->month) && r->month >= 1 &&
           take_byte(t, '.') && take_number(t, 5, &r->week) && r->week >= 1 &&
           take_byte(t, '.') && take_number(t, 6, &r->day) &&
           (!take_byte(t, '/') || take_time(t, &r->time));
}

/* Here a time is how far UTC is ahead, and summer time is usually an hour. */
static bool
read_footer(struct zone *z, struct text t)
{
    int64_t behind;

    z->has_rule = t.at < t.end;
    z->has_summer = false;
    if (!z->has_rule)
        return true;
    if (!take_name(&t) || !take_time(&t, &behind))
        return false;
    z->standard_seconds = -behind;
    if (t.at == t.end)
        return true;
    z->has_summer = true;
    z->summer_seconds = z->standard_seconds + HOUR;
    if (!take_name(&t))
        return false;
    if (t.at < t.end && *t.at != ',') {
        if (!take_time(&t, &behind))
            return false;
        z->summer_seconds = -behind;
    }
    return take_rule(&t, &z->summer) && take_rule(&t, &z->winter) &&
           t.at == t.end;
}

/* The day of a rule in a year, at its time, as if that were UTC. */
static int64_t
rule_time(const struct zone_rule *r, int year)
{
    struct tm first = {.tm_year = year, .tm_mon = r->month - 1, .tm_mday = 1};
    struct tm next = {.tm_year = year, .tm_mon = r->month, .tm_mday = 1};
    const int64_t begin = timegm(&first), end = timegm(&next);
    int64_t day =
        begin + ((r->day - first.tm_wday + 7) % 7 + 7 * (r->week - 1)) * DAY;

    if (day >= end) /* there is no fifth one */
        day -= 7 * DAY;
    return day + r->time;
}

static int64_t
ahead_by_rule(const struct zone *z, int64_t time)
{
    const time_t local = (time_t)(time + z->standard_seconds);
    struct tm day;
    int64_t summer, winter;
    bool is_summer;

    if (!z->has_summer || !gmtime_r(&local, &day))
        return z->standard_seconds;
    summer = rule_time(&z->summer, day.tm_year) - z->standard_seconds;
    winter = rule_time(&z->winter, day.tm_year) - z->summer_seconds;
    is_summer = summer < winter ? time >= summer && time < winter
                                : time >= summer || time < winter;
    return is_summer ? z->summer_seconds : z->standard_seconds;
}

/* ---- files --------------------------------------------------------------- */

#define HEADER_SIZE 44

/* The numbers in a header, in their order. */
enum { IS_UT, IS_STANDARD, LEAPS, TIMES, INFOS, LETTERS, COUNTS };

/* Reads the header at `at` and returns the size of the data behind it, whose
 * times have `width` bytes.  0: it is none. */
static size_t
read_header(const uint8_t *at, size_t size, size_t width,
            uint32_t counts[COUNTS])
{
    if (size < HEADER_SIZE || memcmp(at, "TZif", 4) != 0 || at[4] < '2')
        return 0;
    for (size_t i = 0; i < COUNTS; i++) {
        counts[i] = get_be32(at + 20 + 4 * i);
        if (counts[i] > ZONE_FILE_MAX)
            return 0;
    }
    return HEADER_SIZE + counts[TIMES] * (width + 1) +
           (size_t)counts[INFOS] * 6 + counts[LETTERS] +
           counts[LEAPS] * (width + 4) + counts[IS_STANDARD] + counts[IS_UT];
}

/* There are two parts: the first has times of 32 bits, for old programs. */
int
zone_parse(struct zone *z, size_t size)
{
    uint32_t counts[COUNTS];
    const uint8_t *at = z->bytes, *const end = at + size;
    size_t part;

    part = read_header(at, size, 4, counts);
    if (part == 0 || part > size)
        return -EBADMSG;
    at += part;
    part = read_header(at, (size_t)(end - at), 8, counts);
    if (part == 0 || part + 2 > (size_t)(end - at) || counts[LEAPS] > 0 ||
        counts[INFOS] == 0 || at[part] != '\n' || end[-1] != '\n')
        return -EBADMSG;
    z->time_count = counts[TIMES];
    z->info_count = counts[INFOS];
    z->times = at + HEADER_SIZE;
    z->types = z->times + 8 * z->time_count;
    z->infos = z->types + z->time_count;
    for (size_t i = 0; i < z->time_count; i++)
        if (z->types[i] >= z->info_count)
            return -EBADMSG;
    return read_footer(z, (struct text){(const char *)at + part + 1,
                                        (const char *)end - 1})
               ? 0
               : -EBADMSG;
}

void
zone_set_utc(struct zone *z)
{
    z->time_count = 0;
    z->has_rule = true;
    z->has_summer = false;
    z->standard_seconds = 0;
}

/* A name of a place has no dots, so that it cannot lead elsewhere. */
static bool
is_place(const char *name, size_t size)
{
    if (size > ZONE_NAME_MAX || name[0] == '/')
        return false;
    for (size_t i = 0; i < size; i++)
        if (!((name[i] >= 'A' && name[i] <= 'Z') ||
              (name[i] >= 'a' && name[i] <= 'z') ||
              (name[i] >= '0' && name[i] <= '9') ||
              (name[i] != '\0' && strchr("/_+-", name[i]))))
            return false;
    return true;
}

int
zone_open(struct zone *z, const char *name, size_t size)
{
    char path[sizeof ZONE_DIRECTORY + 1 + ZONE_NAME_MAX] = ZONE_DIRECTORY "/";
    struct stat st;
    ssize_t got = -1;
    int fd;

    if (size == 0 || (size == 3 && memcmp(name, "UTC", 3) == 0)) {
        zone_set_utc(z);
        return 0;
    }
    if (!is_place(name, size))
        return -ENOENT;
    memcpy(path + sizeof ZONE_DIRECTORY, name, size);
    path[sizeof ZONE_DIRECTORY + size] = '\0';
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? -ENOENT : -EBADMSG;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        got = read(fd, z->bytes, sizeof z->bytes);
    (void)close(fd); /* it was only read */
    return got < 0 || (size_t)got == sizeof z->bytes
               ? -EBADMSG
               : zone_parse(z, (size_t)got);
}

/* ---- times --------------------------------------------------------------- */

static int64_t
transition_at(const struct zone *z, size_t i)
{
    return (int64_t)get_be64(z->times + 8 * i);
}

int64_t
zone_ahead(const struct zone *z, int64_t time)
{
    size_t from = 0, to = z->time_count; /* transitions not after `time` */
    uint8_t info = 0;

    while (from < to) {
        const size_t middle = from + (to - from) / 2;

        if (transition_at(z, middle) <= time)
            from = middle + 1;
        else
            to = middle;
    }
    if (from == z->time_count && z->has_rule)
        return ahead_by_rule(z, time);
    if (from > 0)
        info = z->types[from - 1];
    return (int32_t)get_be32(z->infos + (size_t)6 * info);
}

int64_t
zone_to_unix(const struct zone *z, int64_t local)
{
    const int64_t near = local - zone_ahead(z, local);

    return local - zone_ahead(z, near);
}
