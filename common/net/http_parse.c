/* common/net/http_parse.c - see http_parse.h.
 *
 * http_parse() is the entry; `headers` has those that matter. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/http_parse.h"

#include "common/base/bytes.h"
#include "common/wire/increment_line.h"

/* ---- bytes -------------------------------------------------------------- */

/* Of eight bytes: the lowest bit that is set is of the first control character,
 * if there is one. */
static uint64_t
find_control(const uint8_t *at)
{
    const uint64_t word = get_le64(at), ones = UINT64_MAX / 0xff;

    return (word - ones * ' ') & ~word & ones << 7;
}

/* The first byte from `i` on that belongs in no line: a control character but
 * TAB. */
static size_t
skip_plain(const uint8_t *at, size_t i, size_t size)
{
    uint64_t found = 0;

    while (i + 8 <= size && (found = find_control(at + i)) == 0)
        i += 8;
    if (found != 0)
        i += (size_t)__builtin_ctzll(found) / 8;
    while (i < size && (at[i] >= ' ' || at[i] == '\t'))
        i++;
    return i;
}

/* Letters and digits, and what else a name of a header may have. */
static bool
is_token(struct http_text text)
{
    static const uint32_t set[8] = {
        /* ! # $ % & ' * + - . 0-9 | A-Z ^ _ | ` a-z | ~ */
        0, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff, 0, 0, 0, 0};

    for (size_t i = 0; i < text.size; i++)
        if ((set[text.at[i] >> 5] >> (text.at[i] & 31) & 1) == 0)
            return false;
    return text.size > 0;
}

static bool
is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static struct http_text
trim_blanks(struct http_text text)
{
    while (text.size > 0 && is_blank(text.at[0])) {
        text.at++;
        text.size--;
    }
    while (text.size > 0 && is_blank(text.at[text.size - 1]))
        text.size--;
    return text;
}

struct http_text
http_cut(struct http_text *t, char stop)
{
    const uint8_t *at = memchr(t->at, stop, t->size);
    const struct http_text p = {t->at, at ? (size_t)(at - t->at) : t->size};
    const size_t used = at ? p.size + 1 : p.size;

    t->at += used;
    t->size -= used;
    return p;
}

/* ---- lines -------------------------------------------------------------- */

enum http_next
http_next_line(struct http_lines *p)
{
    const size_t end = skip_plain(p->at, p->next, p->size);
    size_t lf = end;

    if (end < p->size && p->at[end] == '\r')
        lf++;
    if (lf >= p->size)
        return HTTP_LINE_CUT;
    if (p->at[lf] != '\n') /* is its end there at all? */
        return memchr(p->at + lf, '\n', p->size - lf) ? HTTP_LINE_BAD
                                                      : HTTP_LINE_CUT;
    p->has_bare_end |= lf == end;
    p->line = (struct http_text){p->at + p->next, end - p->next};
    p->next = lf + 1;
    return HTTP_LINE_WHOLE;
}

/* ---- the request line --------------------------------------------------- */

const struct http_text http_method_names[HTTP_METHODS] = {
    HTTP_TEXT("GET"),    HTTP_TEXT("HEAD"), HTTP_TEXT("POST"),
    HTTP_TEXT("DELETE"), HTTP_TEXT("PUT"),  HTTP_TEXT("TRACE"),
    HTTP_TEXT("OPTIONS")};

static enum http_method
method_of(struct http_text t)
{
    for (unsigned i = 0; i < HTTP_METHODS; i++)
        if (t.size == http_method_names[i].size &&
            memcmp(t.at, http_method_names[i].at, t.size) == 0)
            return (enum http_method)(1u << i);
    return (enum http_method)0;
}

/* Up to the first blank; `t` then goes on behind it.  Empty: there is none. */
static struct http_text
cut_word(struct http_text *t)
{
    const uint8_t *blank = t->size > 0 ? memchr(t->at, ' ', t->size) : NULL;
    struct http_text w = {t->at, blank ? (size_t)(blank - t->at) : 0};

    if (blank) {
        t->at += w.size + 1;
        t->size -= w.size + 1;
    }
    return w;
}

/* Returns the target without `http://` and the host, which precede the path in
 * the absolute form.  Clients use that form with proxies, and servers must
 * accept it (RFC 9112, 3.2.2). */
static struct http_text
skip_authority(struct http_request *r)
{
    static const char scheme[] = "http://";
    struct http_text t = r->target, begin = {t.at, sizeof scheme - 1};
    size_t i = begin.size;

    if (t.at[0] == '/' || t.size <= begin.size ||
        !http_text_is_like(begin, scheme))
        return t;
    while (i < t.size && t.at[i] != '/' && t.at[i] != '?' && t.at[i] != '#')
        i++;
    if (i == begin.size || i == t.size || t.at[i] != '/')
        return t;
    r->authority = (struct http_text){t.at + begin.size, i - begin.size};
    return (struct http_text){t.at + i, t.size - i};
}

static void
split_target(struct http_request *r)
{
    const struct http_text t = skip_authority(r);
    const uint8_t *mark = memchr(t.at, '?', t.size);
    struct http_text rest;

    r->path = t;
    if (!mark)
        return;
    r->path.size = (size_t)(mark - t.at);
    rest = (struct http_text){mark + 1, t.size - r->path.size - 1};
    r->query = http_cut(&rest, '#');
}

static bool
is_version(struct http_text t)
{
    return t.size == 8 && memcmp(t.at, "HTTP/", 5) == 0 && t.at[5] >= '0' &&
           t.at[5] <= '9' && t.at[6] == '.' && t.at[7] >= '0' && t.at[7] <= '9';
}

/* 0, or the status to refuse it with. */
static int
parse_request_line(struct http_request *r, struct http_text line)
{
    const struct http_text method = cut_word(&line);

    r->target = cut_word(&line);
    if (r->target.size > 0)
        split_target(r);
    if (r->target.size == 0 || !is_version(line) ||
        memchr(r->target.at, '\t', r->target.size))
        return 400;
    r->method = method_of(method);
    if (r->method == 0 && !is_token(method))
        return 400;
    if (line.at[5] != '1' || line.at[7] > '1')
        return 505;
    r->minor = (uint8_t)(line.at[7] - '0');
    r->keep = r->minor == 1;
    return r->method == 0 ? 501 : 0;
}

/* ---- headers ------------------------------------------------------------ */

/* A list with commas: `close` ends, whatever else there is; `keep-alive` keeps
 * where it has to be asked for. */
static int
parse_connection(struct http_request *r, struct http_text list)
{
    while (list.size > 0) {
        const struct http_text t = trim_blanks(http_cut(&list, ','));

        r->closes |= http_text_is_like(t, "close");
        r->keep |= http_text_is_like(t, "keep-alive");
    }
    r->keep &= !r->closes;
    return 0;
}

static int
parse_length(struct http_request *r, struct http_text value)
{
    uint64_t n = 0;

    if (r->has_length || r->is_chunked || value.size == 0)
        return 400;
    for (size_t i = 0; i < value.size; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return 400;
        if (n <= HTTP_LONG_BODY_MAX)
            n = 10 * n + (uint64_t)(value.at[i] - '0');
    }
    if (n > HTTP_LONG_BODY_MAX)
        return 413;
    r->has_length = true;
    r->body = (uint32_t)n;
    return 0;
}

/* A body has one length.  Another server may see another end of a
 * message with both headers, or with chunks in HTTP/1.0. */
static int
parse_transfer_encoding(struct http_request *r, struct http_text value)
{
    if (!http_text_is_like(value, "chunked"))
        return 501;
    if (r->has_length || r->is_chunked || r->minor == 0)
        return 400;
    r->is_chunked = true;
    return 0;
}

static int
parse_expect(struct http_request *r, struct http_text value)
{
    if (!http_text_is_like(value, "100-continue"))
        return 417;
    r->has_expected = r->minor == 1; /* HTTP/1.0 does not know the answer */
    return 0;
}

/* A header that decides something is parsed; of others the value is kept, at
 * that offset of struct http_request: of one that may be there once, or of the
 * first line of a list. */
struct header {
    struct http_text name;
    int (*parse)(struct http_request *r, struct http_text value);
    size_t at;
    bool once;
};

/* No parse(), and where the value is kept. */
#define KEPT(field) NULL, offsetof(struct http_request, field)

static const struct header headers[] = {
    {HTTP_TEXT("host"), KEPT(host), true},
    {HTTP_TEXT("accept"), KEPT(accept), false},
    {HTTP_TEXT("accept-encoding"), KEPT(codings), false},
    {HTTP_TEXT("connection"), parse_connection, 0, false},
    {HTTP_TEXT("content-length"), parse_length, 0, false},
    {HTTP_TEXT("content-type"), KEPT(type), true},
    {HTTP_TEXT("content-encoding"), KEPT(encoding), true},
    {HTTP_TEXT("transfer-encoding"), parse_transfer_encoding, 0, false},
    {HTTP_TEXT("idempotency-key"), KEPT(key), true},
    {HTTP_TEXT("if-none-match"), KEPT(versions), false},
    {HTTP_TEXT("authorization"), KEPT(authorization), true},
    {HTTP_TEXT("expect"), parse_expect, 0, false},
    {HTTP_TEXT("origin"), KEPT(origin), false},
    {HTTP_TEXT("referer"), KEPT(referer), false},
    {HTTP_TEXT("sec-fetch-site"), KEPT(fetch_site), true},
    {HTTP_TEXT("sec-fetch-mode"), KEPT(fetch_mode), true},
};

static int
keep_value(struct http_request *r, const struct header *h,
           struct http_text value)
{
    struct http_text *to = (struct http_text *)(void *)((uint8_t *)r + h->at);

    if (to->at && h->once)
        return 400;
    if (to->size == 0)
        *to = value;
    else
        r->has_more_lists = true;
    return 0;
}

/* Headers that are not in the table are passed over.  No blank may stand before
 * the colon, and no line goes on the one before. */
static int
parse_header(struct http_request *r, struct http_text line)
{
    struct http_text value = line;
    const struct http_text name = http_cut(&value, ':');

    if (name.size == line.size)
        return 400;
    value = trim_blanks(value);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        const struct header *h = &headers[i];

        if (http_text_is_same(name, h->name))
            return h->parse ? h->parse(r, value) : keep_value(r, h, value);
    }
    return is_token(name) ? 0 : 400;
}

/* ---- a head ------------------------------------------------------------- */

int
http_parse(const uint8_t *at, size_t size, struct http_request *r)
{
    const size_t most = size < HTTP_HEAD_MAX ? size : HTTP_HEAD_MAX;
    struct http_lines p = {.at = at, .size = most};
    enum http_next is;
    int status = 0;

    *r = (struct http_request){.minor = 1};
    for (int i = 0; i < HTTP_LINES_MAX && status == 0; i++) {
        is = http_next_line(&p);
        if (is == HTTP_LINE_CUT)
            return most < HTTP_HEAD_MAX ? 0 : -431;
        if (is == HTTP_LINE_BAD)
            return -400;
        if (p.line.size == 0 && r->target.at) {
            /* Another server may see another head, and so another body. */
            if (p.has_bare_end && (r->has_length || r->is_chunked))
                return -400;
            if (r->authority.at && (r->host.at || r->minor == 0))
                r->host = r->authority;
            r->head = (struct http_text){at, p.next};
            return (int)p.next;
        }
        /* Empty lines may be left from the request before. */
        if (p.line.size > 0)
            status = r->target.at ? parse_header(r, p.line)
                                  : parse_request_line(r, p.line);
    }
    return status != 0 ? -status : -431;
}

/* ---- parameters --------------------------------------------------------- */

bool
http_parameter(const struct http_request *r, const char *name,
               struct http_text *value)
{
    struct http_text rest = r->query, p;

    if (!rest.at)
        return false;
    while (rest.size > 0) {
        p = http_cut(&rest, '&');
        *value = p;
        if (http_text_is(http_cut(value, '='), name) && value->at > p.at &&
            value->at[-1] == '=')
            return true;
    }
    return false;
}

bool
http_number(struct http_text text, int64_t *value)
{
    return text.size > 0 && text.size <= 19 && *text.at >= '0' &&
           increment_number_parse((const char *)text.at, text.size, value) == 0;
}

struct http_text
http_media_type(struct http_text type)
{
    return type.at ? trim_blanks(http_cut(&type, ';')) : type;
}

/* A weight of 0 to 1 with at most three decimals, in thousandths; 1000 for what
 * is none. */
static int
read_weight(struct http_text text)
{
    int weight = 0, unit = 100;

    if (text.size == 0 || text.size > 5 || text.at[0] != '0' ||
        (text.size > 1 && text.at[1] != '.'))
        return 1000;
    for (size_t i = 2; i < text.size; i++, unit /= 10) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return 1000;
        weight += (text.at[i] - '0') * unit;
    }
    return weight;
}

/* -1 where it is not in that part of a list. */
static int
weight_in_line(struct http_text list, const char *what)
{
    while (list.size > 0) {
        struct http_text parts = trim_blanks(http_cut(&list, ',')), part;

        if (parts.size == 0 ||
            !http_text_is_like(trim_blanks(http_cut(&parts, ';')), what))
            continue;
        while (parts.size > 0) {
            part = trim_blanks(http_cut(&parts, ';'));
            if (part.size < 2 || (part.at[0] | 0x20) != 'q' ||
                part.at[1] != '=')
                continue;
            part.at += 2;
            part.size -= 2;
            return read_weight(part);
        }
        return 1000;
    }
    return -1;
}

/* A list in several lines is one (RFC 9110, 5.3): moves on to the value of the
 * next line of that name. */
static bool
next_of_list(const struct http_request *r, const char *name,
             struct http_text *value)
{
    struct http_text rest = r->head, line;

    if (!r->has_more_lists || !value->at)
        return false;
    rest.size -= (size_t)(value->at - rest.at);
    rest.at = value->at;
    (void)http_cut(&rest, '\n');
    while (rest.size > 0) {
        line = http_cut(&rest, '\n');
        if (!http_text_is_like(http_cut(&line, ':'), name))
            continue;
        *value = trim_blanks(http_cut(&line, '\r'));
        return true;
    }
    return false;
}

static int
weight_in(const struct http_request *r, const char *name, struct http_text list,
          const char *what)
{
    int weight;

    do
        weight = weight_in_line(list, what);
    while (weight < 0 && next_of_list(r, name, &list));
    return weight;
}

int
http_weight(const struct http_request *r, const char *type)
{
    return weight_in(r, "accept", r->accept, type);
}

bool
http_takes_gzip(const struct http_request *r)
{
    return r->minor == 1 &&
           weight_in(r, "accept-encoding", r->codings, "gzip") > 0;
}

bool
http_has_any_version(const struct http_request *r)
{
    struct http_text list = r->versions;

    return http_text_is(list, "*") && !next_of_list(r, "if-none-match", &list);
}

bool
http_has_version(const struct http_request *r, const char *tag)
{
    const char *opaque = tag[0] == 'W' ? tag + 2 : tag;
    const size_t size = strlen(opaque);
    struct http_text list = r->versions;

    /* Nearly always it is the only one, and the same: its end is looked at. */
    if (list.size >= size &&
        memcmp(list.at + list.size - size, opaque, size) == 0)
        return true;
    do
        if (list.size > 0 && memmem(list.at, list.size, opaque, size))
            return true;
    while (next_of_list(r, "if-none-match", &list));
    return false;
}
