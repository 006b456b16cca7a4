/* common/net/http_parse.h - the head of an HTTP request, parsed where it lies.
 *
 * Lines end in CR LF or in LF, and are looked at in order when they are whole:
 * the first that is wrong decides, so that an answer does not depend on how the
 * bytes arrive.  Nothing is decoded.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_HTTP_PARSE_H
#define COUNTD_COMMON_NET_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define HTTP_HEAD_MAX      65536u /* bytes of a head, with its empty line */
#define HTTP_LINES_MAX     128    /* lines of a head */
#define HTTP_BODY_MAX      65536u
#define HTTP_LONG_BODY_MAX (1u << 20) /* of a route with HTTP_LONG_BODY */

/* In the order of http_method_names. */
enum http_method {
    HTTP_GET = 1,
    HTTP_HEAD = 2,
    HTTP_POST = 4,
    HTTP_DELETE = 8,
    HTTP_PUT = 16,
    HTTP_TRACE = 32,
    HTTP_OPTIONS = 64
};

struct http_text {
    const uint8_t *at; /* NULL: there is none */
    size_t size;
};

/* The initializer of one. */
#define HTTP_TEXT(literal)                                                     \
    {                                                                          \
        (const uint8_t *)(literal), sizeof(literal) - 1                        \
    }

#define HTTP_METHODS 7
extern const struct http_text http_method_names[HTTP_METHODS];

struct http_request {
    enum http_method method;
    uint8_t minor;     /* HTTP/1.minor: 0 or 1 */
    bool keep;         /* the connection is to be kept */
    bool closes;       /* Connection: close */
    bool has_length;   /* Content-Length is there */
    bool is_chunked;   /* Transfer-Encoding: chunked; its length is not known */
    bool has_expected; /* Expect: 100-continue, of an HTTP/1.1 client */
    bool has_more_lists; /* one of the lists goes on in a further line */
    uint32_t body;       /* bytes that follow the head, unless it is chunked */
    /* Values of headers are without the blanks around them. */
    struct http_text target;    /* as it was sent: path, "?", query */
    struct http_text path;      /* up to "?", behind `authority` */
    struct http_text query;     /* behind it, up to "#"; NULL: no "?" */
    struct http_text authority; /* of a target in absolute form; NULL:
                                   it is none */
    struct http_text host;      /* as it was sent, with its port; that of the
                                   target, if it has one */
    struct http_text key;       /* Idempotency-Key */
    struct http_text type;      /* Content-Type */
    struct http_text encoding;  /* Content-Encoding */
    struct http_text origin;    /* Origin: the first, if there are more */
    struct http_text referer;   /* Referer, as that */
    struct http_text fetch_site, fetch_mode; /* Sec-Fetch-Site, -Mode */
    struct http_text authorization;          /* that is there once */
    struct http_text head;                   /* all of it */
    /* Lists, which may go on in further lines: the first that is not
     * empty. */
    struct http_text accept;   /* Accept */
    struct http_text codings;  /* Accept-Encoding */
    struct http_text versions; /* If-None-Match */
};

/* Lines, one after the other. */
struct http_lines {
    const uint8_t *at;
    size_t size;
    size_t next;           /* where the next line begins */
    struct http_text line; /* the last one, without its end */
    bool has_bare_end;     /* a line ended with LF alone */
};

/* A line has no control characters but TAB. */
enum http_next { HTTP_LINE_WHOLE, HTTP_LINE_CUT, HTTP_LINE_BAD };
enum http_next http_next_line(struct http_lines *p);

/* Parses the head that `size` bytes begin with.  Returns its size; 0 when it is
 * not whole; or, negative, the status to refuse it with (minor and method are
 * set). */
int http_parse(const uint8_t *at, size_t size, struct http_request *r);

/* Cuts off the bytes before the first `stop`, or all; `t` then begins behind
 * it.
 */
struct http_text http_cut(struct http_text *t, char stop);

/* The value of a parameter of the query.  False: it is not there. */
bool http_parameter(const struct http_request *r, const char *name,
                    struct http_text *value);

/* A number of 1 to 19 digits and nothing else, at most INT64_MAX.  False: it is
 * none. */
bool http_number(struct http_text text, int64_t *value);

/* A Content-Type up to its parameters, such as charset. */
struct http_text http_media_type(struct http_text type);

/* How much the client wants `type`, in lower case, by Accept: its q in
 * thousandths, 1000 without one; -1 where it is not in the list. */
int http_weight(const struct http_request *r, const char *type);

/* Whether the client takes an answer that is packed by gzip. */
bool http_takes_gzip(const struct http_request *r);

/* Whether the client has the version `tag` of an answer, by If-None-Match; that
 * a tag is weak (W/) makes no difference there. */
bool http_has_version(const struct http_request *r, const char *tag);

/* Whether any version will do, and so the answer is not wanted if there is one:
 * `If-None-Match: *`. */
bool http_has_any_version(const struct http_request *r);

static inline bool
http_text_is(struct http_text text, const char *what)
{
    return text.size == strlen(what) && memcmp(text.at, what, text.size) == 0;
}

/* As that, whatever the case of letters. */
static inline bool
http_text_is_same(struct http_text a, struct http_text b)
{
    return a.size == b.size &&
           strncasecmp((const char *)a.at, (const char *)b.at, a.size) == 0;
}

static inline bool
http_text_is_like(struct http_text text, const char *what)
{
    return http_text_is_same(
        text, (struct http_text){(const uint8_t *)what, strlen(what)});
}

#endif
