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

/* The size at the beginning of a chunk's line.  False: there is none, or it has
 * too many digits. */
static bool
read_size(struct http_text line, uint32_t *value)
{
    size_t i;

    *value = 0;
    for (i = 0; i < line.size && hex_value(line.at[i]) >= 0; i++) {
        if (i == SIZE_DIGITS_MAX)
            return false;
        *value = *value << 4 | (uint32_t)hex_value(line.at[i]);
    }
    return i > 0 && (i == line.size || line.at[i] == ';');
}

static bool
refuse_chunk(int *status, int refusal)
{
    *status = refusal;
    return false;
}

/* Passes over one chunk, or one line behind the last, and copies its data where
 * `to` is not NULL.  False: over nothing. */
static bool
pass_chunk(struct http_chunks *k, struct http_text body, uint8_t *to,
           uint32_t *need, int *status)
{
    struct http_lines p = {.at = body.at, .size = body.size, .next = k->at};
    const enum http_next is = http_next_line(&p);
    const uint8_t *at = body.at;
    uint32_t chunk;
    size_t end;

    if (is == HTTP_LINE_CUT)
        return false;
    if (is == HTTP_LINE_BAD || p.has_bare_end)
        return refuse_chunk(status, 400);
    if (k->is_last) {
        k->at = (uint32_t)p.next;
        k->is_whole = p.line.size == 0;
        return true;
    }
    if (!read_size(p.line, &chunk))
        return refuse_chunk(status, 400);
    if (chunk > HTTP_BODY_MAX - k->size)
        return refuse_chunk(status, 413);
    end = p.next + chunk;
    if (chunk > 0 && body.size < end + 2) {
        *need = (uint32_t)end + 2;
        return false;
    }
    if (chunk > 0 && (at[end] != '\r' || at[end + 1] != '\n'))
        return refuse_chunk(status, 400);
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
