/* reader/resp/resp.c - see resp.h.
 *
 *     resp_parse()            parse_array() -> parse_bulk(), or parse_inline()
 *     resp_pattern_matches()  the last * is tried again with one more byte: so
 *                             a name takes steps by the product of both sizes
 *                             at most */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/bytes.h"
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

/* ---- numbers and words --------------------------------------------------- */

/* Whether CR LF follows. */
static inline bool
has_end(const uint8_t *at)
{
    return at[0] == '\r' && at[1] == '\n';
}

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

/* ---- requests ------------------------------------------------------------ */

/* A number of one or two digits without leading zeros, as most lengths are,
 * with its CR LF; 4 bytes can be read.  Returns the bytes read; 0: it is
 * something else. */
static inline size_t
parse_short_length(const uint8_t *bytes, size_t *length)
{
    const unsigned first = bytes[0] - (unsigned)'0';
    const unsigned second = bytes[1] - (unsigned)'0';

    if (first > 9)
        return 0;
    if (second > 9 || first == 0) {
        *length = first;
        return has_end(bytes + 1) ? 3 : 0;
    }
    *length = first * 10 + second;
    return has_end(bytes + 2) ? 4 : 0;
}

/* A whole bulk whose length has one or two digits.  Returns its bytes; 0: it is
 * something else, or more bytes are needed. */
static inline size_t
parse_short_bulk(const uint8_t *bytes, size_t size, struct resp_arg *out)
{
    size_t head, length;

    if (size < 5 || bytes[0] != '$')
        return 0;
    head = 1 + parse_short_length(bytes + 1, &length);
    if (head == 1 || size < head + length + 2 ||
        !has_end(bytes + head + length))
        return 0;
    out->at = bytes + head;
    out->size = (uint32_t)length;
    return head + length + 2;
}

/* The length behind a type byte at `*at`, with its CR LF, which *at passes.
 * RESP_BAD: it is not a number. */
static enum resp_parsed
parse_length(const uint8_t *bytes, size_t size, size_t *at, int64_t *length)
{
    const size_t begin = *at + 1;
    const size_t left = size - begin;
    const size_t most = left < LENGTH_MAX ? left : LENGTH_MAX;
    struct resp_arg digits = {.at = bytes + begin};
    const uint8_t *end;
    size_t few, taken;

    taken = left < 4 ? 0 : parse_short_length(bytes + begin, &few);
    if (taken > 0) {
        *length = (int64_t)few;
        *at = begin + taken;
        return RESP_WHOLE;
    }
    end = memchr(bytes + begin, '\r', most);
    if (!end)
        return most == LENGTH_MAX ? RESP_BAD : RESP_PARTIAL;
    digits.size = (uint32_t)(end - digits.at);
    if (!resp_integer(&digits, length))
        return RESP_BAD;
    if (digits.size + 1 == left)
        return RESP_PARTIAL;
    if (end[1] != '\n')
        return RESP_BAD;
    *at = begin + digits.size + 2;
    return RESP_WHOLE;
}

static enum resp_parsed
parse_bulk(const uint8_t *bytes, size_t size, size_t *at,
           struct resp_request *out)
{
    enum resp_parsed parsed;
    int64_t length;
    char why[RESP_ERROR_MAX];

    if (*at == size)
        return await_bytes(out, size + 1);
    if (bytes[*at] != '$') {
        (void)snprintf(why, sizeof why, "expected '$', got '%c'",
                       bytes[*at] >= 0x20 && bytes[*at] < 0x7f ? bytes[*at]
                                                               : '?');
        return refuse_request(out, why);
    }
    parsed = parse_length(bytes, size, at, &length);
    if (parsed == RESP_PARTIAL)
        return await_bytes(out, size + 1);
    if (parsed == RESP_BAD || length < 0 || length > RESP_BULK_MAX)
        return refuse_request(out, "invalid bulk length");
    if (size - *at < (size_t)length + 2) {
        if (size - *at > (size_t)length && bytes[*at + (size_t)length] != '\r')
            return refuse_request(out, "expected CRLF after bulk");
        return await_bytes(out, *at + (size_t)length + 2);
    }
    out->args[out->count].at = bytes + *at;
    out->args[out->count++].size = (uint32_t)length;
    *at += (size_t)length;
    if (bytes[*at] != '\r' || bytes[*at + 1] != '\n')
        return refuse_request(out, "expected CRLF after bulk");
    *at += 2;
    return RESP_WHOLE;
}

/* Reads bulks while they are short and whole, up to `count` arguments.  Returns
 * the bytes read. */
static size_t
parse_short_bulks(const uint8_t *bytes, size_t size, size_t count,
                  struct resp_request *out)
{
    struct resp_arg *arg = out->args + out->count;
    const struct resp_arg *end = out->args + count;
    size_t at = 0, taken;

    for (; arg < end; arg++, at += taken) {
        taken = parse_short_bulk(bytes + at, size - at, arg);
        if (taken == 0)
            break;
    }
    out->count = (size_t)(arg - out->args);
    return at;
}

static enum resp_parsed
parse_array(const uint8_t *bytes, size_t size, struct resp_request *out)
{
    enum resp_parsed parsed;
    size_t at = 0;
    int64_t count;

    parsed = parse_length(bytes, size, &at, &count);
    if (parsed == RESP_PARTIAL)
        return await_bytes(out, size + 1);
    if (parsed == RESP_BAD || count > RESP_ARGS_MAX)
        return refuse_request(out, "invalid multibulk length");
    while (count > 0) {
        at += parse_short_bulks(bytes + at, size - at, (size_t)count, out);
        if (out->count == (size_t)count)
            break;
        parsed = parse_bulk(bytes, size, &at, out);
        if (parsed != RESP_WHOLE)
            return parsed;
    }
    out->size = at;
    return RESP_WHOLE;
}

static bool
is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

/* "POST ...", "Host: ..." and "GET / HTTP/1.1": what no Redis client sends. */
static bool
is_http(const struct resp_request *r)
{
    const struct resp_arg *last;

    if (r->count == 0)
        return false;
    last = &r->args[r->count - 1];
    return resp_is_word(&r->args[0], "post") ||
           resp_is_word(&r->args[0], "host:") ||
           (r->count > 1 && last->size > 5 &&
            memcmp(last->at, "HTTP/", 5) == 0);
}

/* No Redis client sends them in a line, but TLS and STUN have some in their
 * first line: a browser sends these, with lines in them that a web page chose.
 */
static bool
has_control_byte(const uint8_t *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] < 0x20 && line[i] != '\t')
            return true;
    return false;
}

/* The value of a hexadecimal digit; -1: it is none. */
static int
hex_value(uint8_t byte)
{
    const char *digits = "0123456789abcdef", *at;

    at = byte == '\0' ? NULL : strchr(digits, byte | 0x20);
    return !at || (byte < '0') ? -1 : (int)(at - digits);
}

/* Reads the escape behind a backslash in double quotes at line[*at]. */
static uint8_t
read_escape(const uint8_t *line, size_t length, size_t *at)
{
    static const char letters[] = "nrtba", bytes[] = "\n\r\t\b\a";
    const uint8_t byte = line[(*at)++];
    const char *letter = byte == '\0' ? NULL : strchr(letters, byte);

    if (byte == 'x' && *at + 1 < length && hex_value(line[*at]) >= 0 &&
        hex_value(line[*at + 1]) >= 0) {
        *at += 2;
        return (uint8_t)(hex_value(line[*at - 2]) << 4 |
                         hex_value(line[*at - 1]));
    }
    return letter ? (uint8_t)bytes[letter - letters] : byte;
}

/* Reads a word with quotes in it at line[*at] into the request's own memory, as
 * redis-cli writes it.  False: a quote is not closed, or not by the end of the
 * word. */
static bool
parse_quoted_word(const uint8_t *line, size_t length, size_t *at,
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

static size_t
word_end(const uint8_t *line, size_t length, size_t at)
{
    while (at < length && !is_blank(line[at]))
        at++;
    return at;
}

/* Cuts a line into words.  With `quotes` one that has some is read by their
 * rules. */
static enum resp_parsed
parse_words(const uint8_t *line, size_t length, bool quotes,
            struct resp_request *out)
{
    size_t at = 0, used = 0, end;

    for (out->count = 0;; at = end) {
        while (at < length && is_blank(line[at]))
            at++;
        if (at == length)
            return RESP_WHOLE;
        if (out->count == RESP_ARGS_MAX)
            return refuse_request(out, "too big inline request");
        end = word_end(line, length, at);
        if (quotes && (memchr(line + at, '"', end - at) ||
                       memchr(line + at, '\'', end - at))) {
            end = at;
            if (!parse_quoted_word(line, length, &end, out, &used))
                return refuse_request(out, "unbalanced quotes in request");
            continue;
        }
        out->args[out->count].at = line + at;
        out->args[out->count++].size = (uint32_t)(end - at);
    }
}

static enum resp_parsed
parse_inline(const uint8_t *bytes, size_t size, struct resp_request *out)
{
    const size_t most = size < RESP_INLINE_MAX + 1 ? size : RESP_INLINE_MAX + 1;
    const uint8_t *end = memchr(bytes, '\n', most);
    enum resp_parsed parsed;
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
    /* First without quotes: those of a web page do not hide that it is one. */
    parsed = parse_words(bytes, length, false, out);
    if (parsed == RESP_WHOLE && is_http(out))
        return RESP_HTTP;
    if (parsed == RESP_WHOLE &&
        (memchr(bytes, '"', length) || memchr(bytes, '\'', length)))
        return parse_words(bytes, length, true, out);
    return parsed;
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

/* ---- patterns ------------------------------------------------------------ */

/* Elements that are no literal byte; sets are numbered from ANY_SET on. */
enum { ANY_BYTE = 256, ANY_BYTES, ANY_SET };

static void
add_range(uint64_t set[4], uint8_t low, uint8_t high)
{
    for (unsigned byte = low; byte <= high; byte++)
        set[byte / 64] |= UINT64_C(1) << byte % 64;
}

/* Reads the set behind '[' at text[i]; returns what is behind its ']'. */
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

/* ---- answers ------------------------------------------------------------- */

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
