/* reader/resp/resp.c - see resp.h.
 *
 *     resp_parse()            parse_array() -> parse_bulk(), or parse_inline()
 *     resp_pattern_matches()  tries the last * again with one more byte: so a
 *                             match takes at most as many steps as the product
 *                             of both sizes */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/bytes.h"
#include "common/base/hex.h"
#include "common/wire/increment_line.h"

#define LENGTH_MAX 24 /* bytes of a length with CR LF */
#define DIGITS_MAX 20 /* of an int64, with its sign */

static enum resp_parsed
refuse_request(struct resp_request *out, const char *why)
{
    (void)snprintf(out->why, sizeof out->why, "%s", why);
    return RESP_BAD;
}

static enum resp_parsed
await_bytes(struct resp_request *out, size_t need)
{
    out->need = need;
    return RESP_PARTIAL;
}

/* ---- numbers and words -------------------------------------------------- */

bool
resp_integer(const struct resp_arg *arg, int64_t *out)
{
    const char *text = (const char *)arg->at;
    const size_t first = arg->size > 0 && text[0] == '-' ? 1 : 0;

    /* Not "+1", "-0" or "007", as Redis. */
    return arg->size > first && text[first] != '+' &&
           (text[first] != '0' || arg->size == 1) &&
           increment_number_parse(text, arg->size, out) == 0;
}

bool
resp_is_word(const struct resp_arg *arg, const char *word)
{
    return arg->size == strlen(word) &&
           strncasecmp((const char *)arg->at, word, arg->size) == 0;
}

/* ---- requests ----------------------------------------------------------- */

/* Whether CR LF follows. */
static bool
has_end(const uint8_t *at)
{
    return at[0] == '\r' && at[1] == '\n';
}

/* Parses a length of more than two digits, as parse_length() does. */
static enum resp_parsed
parse_long_length(const uint8_t *bytes, size_t size, size_t *at,
                  int64_t *length)
{
    struct resp_arg digits = {.at = bytes + *at + 1};
    const size_t left = size - *at - 1;

    while (digits.size < left && digits.size < LENGTH_MAX &&
           digits.at[digits.size] != '\r')
        digits.size++;
    if (digits.size == LENGTH_MAX)
        return RESP_BAD;
    if (digits.size == left)
        return RESP_PARTIAL;
    if (!resp_integer(&digits, length))
        return RESP_BAD;
    if (digits.size + 1 == left)
        return RESP_PARTIAL;
    *at += 1 + digits.size + 2;
    return bytes[*at - 1] == '\n' ? RESP_WHOLE : RESP_BAD;
}

/* Parses the length after a type byte at `*at`, with its CR LF, and moves *at
 * past them.  RESP_BAD: it is not a number. */
static inline enum resp_parsed
parse_length(const uint8_t *bytes, size_t size, size_t *at, int64_t *length)
{
    const uint8_t *digits = bytes + *at + 1;
    const bool has_one = size - *at > 4 && isdigit(*digits);

    if (has_one && has_end(digits + 1)) {
        *length = *digits - '0';
        *at += 4;
    } else if (has_one && *digits != '0' && isdigit(digits[1]) &&
               has_end(digits + 2)) {
        *length = 10 * (*digits - '0') + digits[1] - '0';
        *at += 5;
    } else
        return parse_long_length(bytes, size, at, length);
    return RESP_WHOLE;
}

static inline enum resp_parsed
parse_bulk(const uint8_t *bytes, size_t size, size_t *at,
           struct resp_request *out, struct resp_arg *arg)
{
    enum resp_parsed parsed;
    int64_t length;

    if (*at == size)
        return await_bytes(out, size + 1);
    if (bytes[*at] != '$') {
        (void)snprintf(out->why, sizeof out->why, "expected '$', got '%c'",
                       bytes[*at] >= 0x20 && bytes[*at] < 0x7f ? bytes[*at]
                                                               : '?');
        return RESP_BAD;
    }
    parsed = parse_length(bytes, size, at, &length);
    if (parsed == RESP_PARTIAL)
        return await_bytes(out, size + 1);
    if (parsed == RESP_BAD || length < 0 || length > RESP_BULK_MAX)
        return refuse_request(out, "invalid bulk length");
    arg->at = bytes + *at;
    arg->size = (uint32_t)length;
    *at += (size_t)length + 2;
    if (*at > size && (*at - 2 >= size || bytes[*at - 2] == '\r'))
        return await_bytes(out, *at);
    return has_end(bytes + *at - 2)
               ? RESP_WHOLE
               : refuse_request(out, "expected CRLF after bulk");
}

static enum resp_parsed
parse_array(const uint8_t *bytes, size_t size, struct resp_request *out)
{
    enum resp_parsed parsed;
    struct resp_arg *arg = out->args;
    int64_t count;
    size_t at = 0;

    parsed = parse_length(bytes, size, &at, &count);
    if (parsed == RESP_PARTIAL)
        return await_bytes(out, size + 1);
    if (parsed == RESP_BAD || count > RESP_ARGS_MAX)
        return refuse_request(out, "invalid multibulk length");
    for (; arg - out->args < count; arg++) {
        parsed = parse_bulk(bytes, size, &at, out, arg);
        if (parsed != RESP_WHOLE)
            return parsed;
    }
    out->count = (size_t)(arg - out->args);
    out->size = at;
    return RESP_WHOLE;
}

static bool
is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

/* "POST ...", "Host: ..." and "GET / HTTP/1.1": what no Redis client sends.
 * Quotes do not count, so that those of a web page cannot hide that it is
 * one. */
static bool
is_http(const uint8_t *line, size_t length)
{
    struct resp_arg first, last;

    while (length > 0 && is_blank(line[length - 1]))
        length--;
    for (; length > 0 && is_blank(*line); line++)
        length--;
    first = (struct resp_arg){.at = line};
    while (first.size < length && !is_blank(line[first.size]))
        first.size++;
    last = (struct resp_arg){.at = line + length};
    for (; last.at > line && !is_blank(last.at[-1]); last.at--)
        last.size++;
    return resp_is_word(&first, "post") || resp_is_word(&first, "host:") ||
           (last.at > line && last.size > 5 &&
            memcmp(last.at, "HTTP/", 5) == 0);
}

/* No Redis client sends control bytes in a line, but the first line of TLS and
 * STUN has some: a browser sends these, with lines in them that a web page
 * chose. */
static bool
has_control_byte(const uint8_t *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] < 0x20 && line[i] != '\t')
            return true;
    return false;
}

/* Reads the escape behind a backslash in double quotes at line[*at]. */
static uint8_t
read_escape(const uint8_t *line, size_t length, size_t *at)
{
    static const char letters[] = "nrtba", bytes[] = "\n\r\t\b\a";
    uint8_t byte = line[(*at)++];
    const char *letter = byte == '\0' ? NULL : strchr(letters, byte);

    if (byte == 'x' && *at + 1 < length && hex_get_any(line + *at, &byte, 1)) {
        *at += 2;
        return byte;
    }
    return letter ? (uint8_t)bytes[letter - letters] : byte;
}

/* Reads a word at line[*at], with its quotes as redis-cli writes them, into the
 * request's own memory.  False: a quote is not closed, or not by the end of the
 * word. */
static bool
parse_word(const uint8_t *line, size_t length, size_t *at,
           struct resp_request *out, size_t *used)
{
    struct resp_arg *arg = &out->args[out->count++];
    uint8_t quote = 0;
    size_t i = *at;

    arg->at = out->unquoted + *used;
    while (i < length && (quote != 0 || !is_blank(line[i]))) {
        const uint8_t byte = line[i++];

        if (quote != 0 && byte == quote) {
            if (i < length && !is_blank(line[i]))
                return false;
            quote = 0;
            break;
        }
        if (quote == 0 && (byte == '"' || byte == '\''))
            quote = byte;
        else if (quote == '"' && byte == '\\' && i < length)
            out->unquoted[(*used)++] = read_escape(line, length, &i);
        else if (quote == '\'' && byte == '\\' && i < length && line[i] == '\'')
            out->unquoted[(*used)++] = line[i++];
        else
            out->unquoted[(*used)++] = byte;
    }
    arg->size = (uint32_t)(out->unquoted + *used - arg->at);
    *at = i;
    return quote == 0;
}

static enum resp_parsed
parse_words(const uint8_t *line, size_t length, struct resp_request *out)
{
    size_t at = 0, used = 0;

    for (;;) {
        while (at < length && is_blank(line[at]))
            at++;
        if (at == length)
            return RESP_WHOLE;
        if (out->count == RESP_ARGS_MAX)
            return refuse_request(out, "too big inline request");
        if (!parse_word(line, length, &at, out, &used))
            return refuse_request(out, "unbalanced quotes in request");
    }
}

static enum resp_parsed
parse_inline(const uint8_t *bytes, size_t size, struct resp_request *out)
{
    const size_t most = size < RESP_INLINE_MAX + 1 ? size : RESP_INLINE_MAX + 1;
    const uint8_t *end = memchr(bytes, '\n', most);
    size_t length;

    if (!end)
        return most > RESP_INLINE_MAX
                   ? refuse_request(out, "too big inline request")
                   : await_bytes(out, size + 1);
    length = (size_t)(end - bytes);
    out->size = length + 1;
    if (length > 0 && bytes[length - 1] == '\r')
        length--;
    if (has_control_byte(bytes, length))
        return refuse_request(out, "control byte in an inline command");
    return is_http(bytes, length) ? RESP_HTTP : parse_words(bytes, length, out);
}

enum resp_parsed
resp_parse(const uint8_t *bytes, size_t size, struct resp_request *out)
{
    out->count = 0;
    out->size = 0;
    if (size == 0)
        return await_bytes(out, 1);
    return bytes[0] == '*' ? parse_array(bytes, size, out)
                           : parse_inline(bytes, size, out);
}

/* ---- patterns ----------------------------------------------------------- */

/* Elements other than a literal byte; sets are numbered from ANY_SET on. */
enum { ANY_BYTE = 256, ANY_BYTES, ANY_SET };

static void
add_range(uint64_t set[4], uint8_t low, uint8_t high)
{
    for (unsigned byte = low; byte <= high; byte++)
        set[byte / 64] |= UINT64_C(1) << byte % 64;
}

/* Reads the set after '[' at text[i]; returns the index after its ']'. */
static size_t
compile_set(struct resp_pattern *out, const uint8_t *text, size_t size,
            size_t i)
{
    const bool negated = i < size && text[i] == '^';
    uint64_t *set = out->sets[out->set_count];

    memset(set, 0, sizeof out->sets[0]);
    for (i += negated ? 1 : 0; i < size && text[i] != ']'; i++) {
        const bool is_escaped = text[i] == '\\' && i + 1 < size;
        uint8_t low, high;

        i += is_escaped ? 1 : 0;
        low = high = text[i];
        /* An escaped byte begins no range. */
        if (!is_escaped && i + 2 < size && text[i + 1] == '-') {
            high = text[i + 2];
            i += 2;
        }
        add_range(set, low < high ? low : high, low < high ? high : low);
    }
    for (int k = 0; negated && k < 4; k++)
        set[k] = ~set[k];
    out->elements[out->count++] = (uint16_t)(ANY_SET + out->set_count++);
    return i < size ? i + 1 : size;
}

bool
resp_pattern_compile(struct resp_pattern *out, const uint8_t *text, size_t size)
{
    bool is_literal = true;

    if (size > RESP_PATTERN_MAX)
        return false;
    out->count = out->set_count = out->prefix_size = 0;
    for (size_t i = 0; i < size;) {
        const uint8_t byte = text[i++];
        const bool is_star = byte == '*';

        if (byte == '[') {
            i = compile_set(out, text, size, i);
        } else if (byte == '\\' && i < size) {
            out->elements[out->count++] = text[i++];
        } else if (!is_star || out->count == 0 ||
                   out->elements[out->count - 1] != ANY_BYTES) {
            out->elements[out->count++] = is_star       ? ANY_BYTES
                                          : byte == '?' ? ANY_BYTE
                                                        : byte;
        }
        is_literal &= out->elements[out->count - 1] < ANY_BYTE;
        if (is_literal && out->prefix_size < sizeof out->prefix)
            out->prefix[out->prefix_size++] =
                (uint8_t)out->elements[out->count - 1];
    }
    return true;
}

static bool
matches_byte(const struct resp_pattern *p, uint16_t element, uint8_t byte)
{
    if (element < ANY_BYTE)
        return element == byte;
    return element == ANY_BYTE ||
           (element >= ANY_SET &&
            (p->sets[element - ANY_SET][byte / 64] >> byte % 64 & 1) != 0);
}

bool
resp_pattern_matches(const struct resp_pattern *pattern, const uint8_t *name,
                     size_t size)
{
    const uint16_t *elements = pattern->elements;
    size_t p = 0, n = 0, star = SIZE_MAX, star_n = 0;

    while (n < size) {
        if (p < pattern->count && elements[p] == ANY_BYTES) {
            star = ++p;
            star_n = n;
        } else if (p < pattern->count &&
                   matches_byte(pattern, elements[p], name[n])) {
            p++;
            n++;
        } else if (star == SIZE_MAX) {
            return false;
        } else {
            p = star;
            n = ++star_n;
        }
    }
    while (p < pattern->count && elements[p] == ANY_BYTES)
        p++;
    return p == pattern->count;
}

/* ---- answers ------------------------------------------------------------ */

static inline uint8_t *
put_end(uint8_t *at)
{
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

size_t
resp_put_number(uint8_t *out, char type, int64_t value)
{
    out[0] = (uint8_t)type;
    return (size_t)(put_end(decimal_put_signed(out + 1, value)) - out);
}

size_t
resp_put_bulk(uint8_t *out, const void *bytes, size_t size)
{
    uint8_t *at = out + resp_put_number(out, '$', (int64_t)size);

    if (size > 0) /* `bytes` may be NULL then */
        at = bytes_append(at, bytes, size);
    return (size_t)(put_end(at) - out);
}

size_t
resp_put_number_bulk(uint8_t *out, int64_t value)
{
    uint8_t digits[DIGITS_MAX];

    return resp_put_bulk(out, digits,
                         (size_t)(decimal_put_signed(digits, value) - digits));
}
