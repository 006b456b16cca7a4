/* common/wire/first_bytes.c - see first_bytes.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/first_bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const uint8_t stun_cookie[] = {0x21, 0x12, 0xa4, 0x42};

const char first_bytes_text[] = "text";

static bool
is_text(const uint8_t *bytes)
{
    for (size_t i = 0; i < FIRST_BYTES_SIZE; i++)
        if ((bytes[i] < 0x20 || bytes[i] > 0x7e) && bytes[i] != '\t' &&
            bytes[i] != '\n' && bytes[i] != '\r')
            return false;
    return true;
}

/* Whether text is how requests of HTTP begin: capitals, a space, and a path, an
 * asterisk or a URL. */
static bool
is_http(const uint8_t *bytes)
{
    size_t i = 0;

    while (i < FIRST_BYTES_SIZE && bytes[i] >= 'A' && bytes[i] <= 'Z')
        i++;
    if (i == 0 || i == FIRST_BYTES_SIZE || bytes[i] != ' ')
        return false;
    return i + 1 == FIRST_BYTES_SIZE || bytes[i + 1] == '/' ||
           bytes[i + 1] == '*' || bytes[i + 1] == 'h';
}

static bool
is_tls(const uint8_t *bytes)
{
    return bytes[0] == 0x16 && bytes[1] == 3 && bytes[2] <= 4 &&
           bytes[5] == 1 && bytes[6] == 0 && bytes[7] > 0 && bytes[7] < 0x80;
}

static bool
is_stun(const uint8_t *bytes)
{
    return bytes[0] < 0x40 && memcmp(bytes + 4, stun_cookie, 4) == 0;
}

/* The length of RFC 4571 precedes a Binding request. */
static bool
is_framed_stun(const uint8_t *bytes)
{
    return bytes[2] == 0 && bytes[3] == 1 &&
           memcmp(bytes + 6, stun_cookie, 2) == 0;
}

const char *
first_bytes_browser(const uint8_t bytes[FIRST_BYTES_SIZE])
{
    if (is_text(bytes))
        return is_http(bytes) ? "HTTP" : first_bytes_text;
    if (is_tls(bytes))
        return "TLS";
    if (is_stun(bytes) || is_framed_stun(bytes))
        return "STUN";
    return NULL;
}
