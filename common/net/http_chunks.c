/* common/net/http_chunks.c - a request body in chunks (RFC 9112, 7.1).
 *
 *     5 CR LF  hello CR LF  0 CR LF  CR LF
 *
 * A line with the size in hexadecimal digits, perhaps with an extension behind
 * a semicolon, then that many bytes; a chunk of no bytes is the last; behind it
 * come header lines, which are ignored, and an empty line.  Lines end in CR LF
 * and in nothing else: a proxy that sees another end of a request than this
 * server would let its client smuggle one in.  Pure; nothing is copied until
 * the body is whole.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/http_internal.h"

#include <assert.h>
#include <string.h>

#include "common/base/hex.h"

#define SIZE_DIGITS_MAX 8

/* The size at the beginning of a chunk line of `size` bytes; *digits are its
 * own.  False: there is none, or it has too many digits. */
static bool
read_size(const uint8_t *line, size_t size, uint32_t *value, size_t *digits)
{
    *value = 0;
    for (*digits = 0; *digits < size; (*digits)++) {
        const int digit = hex_value(line[*digits]);

        if (digit < 0)
            break;
        if (*digits == SIZE_DIGITS_MAX)
            return false;
        *value = *value << 4 | (uint32_t)digit;
    }
    return *digits > 0;
}

/* Whether a line has no byte that a line must not have: of the control
 * characters only TAB. */
static bool
is_plain(const uint8_t *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((line[i] < 0x20 && line[i] != '\t') || line[i] == 0x7f)
            return false;
    return true;
}

/* The size of the next line without CR LF.  False: it is not whole, or, with
 * *status, malformed. */
static bool
find_line(const uint8_t *at, size_t size, size_t *length, int *status)
{
    const uint8_t *lf = memchr(at, '\n', size);
    const size_t before = lf ? (size_t)(lf - at) : size;
    const uint8_t *cr = memchr(at, '\r', before);

    /* A CR that ends no line, or a line that ends without one. */
    if ((cr && cr + 1 < at + before) || (lf && !cr))
        *status = 400;
    if (!lf || *status != 0)
        return false;
    *length = before - 1;
    if (!is_plain(at, *length))
        *status = 400;
    return *status == 0;
}

/* Passes over one chunk, or one line behind the last, and copies its data where
 * `to` is not NULL.  False: over nothing. */
static bool
pass_chunk(struct http_chunks *k, struct http_text body, uint8_t *to,
           uint32_t *need, int *status)
{
    const uint8_t *at = body.at;
    size_t length, digits, end;
    uint32_t chunk;

    if (!find_line(at + k->at, body.size - k->at, &length, status))
        return false;
    if (k->is_last) {
        k->at += (uint32_t)length + 2;
        k->is_whole = length == 0;
        return true;
    }
    if (!read_size(at + k->at, length, &chunk, &digits) ||
        (digits < length && at[k->at + digits] != ';')) {
        *status = 400;
        return false;
    }
    if (chunk > HTTP_BODY_MAX - k->size) {
        *status = 413;
        return false;
    }
    end = k->at + length + 2 + chunk;
    if (chunk > 0 && body.size < end + 2) {
        *need = (uint32_t)end + 2;
        return false;
    }
    if (chunk > 0 && (at[end] != '\r' || at[end + 1] != '\n')) {
        *status = 400;
        return false;
    }
    if (to)
        memcpy(to + k->size, at + end - chunk, chunk);
    k->is_last = chunk == 0;
    k->size += chunk;
    k->at = (uint32_t)(chunk > 0 ? end + 2 : end);
    return true;
}

bool
http_chunks_read(struct http_chunks *k, const uint8_t *at, size_t size,
                 uint32_t *need, int *status)
{
    assert(k->at <= size);
    *status = 0;
    *need = 0;
    if (size > HTTP_CHUNKS_MAX)
        size = HTTP_CHUNKS_MAX;
    while (!k->is_whole &&
           pass_chunk(k, (struct http_text){at, size}, NULL, need, status))
        continue;
    if (k->is_whole || *status != 0)
        return k->is_whole;
    if (size == HTTP_CHUNKS_MAX || *need > HTTP_CHUNKS_MAX)
        *status = 413;
    else if (*need == 0)
        *need = (uint32_t)size + 1;
    return false;
}

void
http_chunks_join(const struct http_chunks *k, const uint8_t *at, uint8_t *to)
{
    struct http_chunks again = {.at = 0};
    uint32_t need = 0;
    int status = 0;

    while (again.at < k->at && pass_chunk(&again, (struct http_text){at, k->at},
                                          to, &need, &status))
        continue;
}
