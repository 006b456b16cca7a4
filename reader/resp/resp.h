/* reader/resp/resp.h - requests and answers of Redis clients (RESP2, RESP3).
 *
 * A request is an array of bulks, or an inline command: words with blanks
 * between, on a line that ends in LF or CR LF.  A word may be "quoted", with
 * \n \r \t \b \a \xHH \\ and \" in it, or 'quoted', with \' in it.
 *
 *     *2 CR LF $4 CR LF ECHO CR LF $2 CR LF hi CR LF        ECHO hi LF
 *
 * An array of no elements and an empty line are requests without arguments,
 * which a server reads over.  An HTTP request line is recognised, so that a
 * web page cannot have its visitor's browser count.
 *
 * Answers are written by resp_put_*(), each of which returns the bytes written:
 * at most RESP_NUMBER_SIZE for numbers, RESP_BULK_SIZE() for a bulk.
 *
 * Everything here is pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_RESP_RESP_H
#define COUNTD_READER_RESP_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESP_ARGS_MAX    4100
#define RESP_BULK_MAX    65536 /* bytes of one argument */
#define RESP_INLINE_MAX  65536 /* bytes of an inline command */
#define RESP_PATTERN_MAX 4096  /* bytes of a pattern */
#define RESP_ERROR_MAX   64    /* bytes of `why`, with NUL */
/* A number, or the head of a bulk or array. */
#define RESP_NUMBER_SIZE     ((size_t)32)
#define RESP_BULK_SIZE(size) ((size_t)(size) + RESP_NUMBER_SIZE)

enum resp_parsed {
    RESP_WHOLE,
    RESP_PARTIAL, /* more bytes are needed: `need` from the first one */
    RESP_BAD,     /* no RESP; `why` is the answer's text */
    RESP_HTTP     /* an HTTP request */
};

struct resp_arg {
    const uint8_t *at;
    uint32_t size;
};

struct resp_request {
    size_t size;  /* WHOLE: bytes of the request */
    size_t need;  /* PARTIAL: bytes that must be there */
    size_t count; /* WHOLE: arguments; 0: nothing to do */
    char why[RESP_ERROR_MAX];
    struct resp_arg args[RESP_ARGS_MAX]; /* in the bytes parsed, or in: */
    uint8_t unquoted[RESP_INLINE_MAX];   /* words without their quotes */
};

/* Parses the request that `bytes` begin with. */
enum resp_parsed resp_parse(const uint8_t *bytes, size_t size,
                            struct resp_request *out);

/* Reads -?digits without leading zeros.  False: not that, or outside int64. */
bool resp_integer(const struct resp_arg *arg, int64_t *out);

/* Whether the argument is `word`, which is lower case, in any case. */
bool resp_is_word(const struct resp_arg *arg, const char *word);

/* A pattern of *, ?, [a-z], [^a] and backslash, compiled. */
struct resp_pattern {
    size_t count;       /* elements */
    size_t set_count;   /* sets */
    size_t prefix_size; /* bytes that every name begins with which matches */
    uint8_t prefix[256];
    uint16_t elements[RESP_PATTERN_MAX];
    uint64_t sets[(RESP_PATTERN_MAX + 1) / 2][4]; /* a bit for each byte */
};

/* False: the pattern is longer than RESP_PATTERN_MAX. */
bool resp_pattern_compile(struct resp_pattern *out, const uint8_t *text,
                          size_t size);

/* In the worst case takes time by the product of the sizes of a name and of the
 * pattern's part behind its last *. */
bool resp_pattern_matches(const struct resp_pattern *pattern,
                          const uint8_t *name, size_t size);

/* A type byte, the number in decimal, CR LF: ':' integer, '*' array, '%' map,
 * ',' double, '$' bulk of that many bytes. */
size_t resp_put_number(uint8_t *out, char type, int64_t value);
size_t resp_put_bulk(uint8_t *out, const void *bytes, size_t size);

/* The number as the text of a bulk. */
size_t resp_put_number_bulk(uint8_t *out, int64_t value);

#endif
