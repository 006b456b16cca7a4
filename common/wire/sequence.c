/* common/wire/sequence.c - see sequence.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/sequence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define INDEX      01265 /* characters of each field, an octal digit each */
#define INDEX_SIZE 2

void
sequence_prefix(char to[SEQUENCE_PREFIX], unsigned reserve, unsigned server_no)
{
    sequence_digits(to, INDEX, INDEX_SIZE);
    sequence_digits(to + 2, reserve, 1);
    sequence_digits(to + 3, server_no, 2);
}

/* The value of a character, or -1. */
static int
value_of(char c)
{
    const char *at = c != '\0' ? strchr(sequence_alphabet, c) : NULL;

    return at ? (int)(at - sequence_alphabet) : -1;
}

static bool
take_digits(const char **at, const char *end, unsigned count, uint64_t *out)
{
    *out = 0;
    while (count-- > 0) {
        const int value = *at < end ? value_of(**at) : -1;

        if (value < 0)
            return false;
        *out = *out << 6 | (uint64_t)value;
        (*at)++;
    }
    return true;
}

bool
sequence_parse(const char *text, size_t size, struct sequence_parts *out)
{
    const char *at = text, *const end = text + size;
    uint64_t index;

    return take_digits(&at, end, INDEX_SIZE, &index) &&
           take_digits(&at, end, index >> 9 & 7, &out->reserve) &&
           take_digits(&at, end, index >> 6 & 7, &out->server_no) &&
           take_digits(&at, end, index >> 3 & 7, &out->second) &&
           take_digits(&at, end, index & 7, &out->serial);
}

size_t
sequence_explain(const struct sequence_parts *p, char to[SEQUENCE_TEXT_SIZE])
{
    const time_t second = (time_t)p->second; /* 42 bits at most */
    struct tm t;

    if (!localtime_r(&second, &t))
        return 0;
    return (size_t)snprintf(
        to, SEQUENCE_TEXT_SIZE,
        "reserve: %" PRIu64 "  server_no: %" PRIu64 "  secondstamp: %" PRIu64
        " (%04d-%02d-%02d %02d:%02d:%02d)  serial_no: %" PRIu64 "\n",
        p->reserve, p->server_no, p->second, t.tm_year + 1900, t.tm_mon + 1,
        t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, p->serial);
}
