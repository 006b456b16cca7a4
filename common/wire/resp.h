/* common/wire/resp.h - requests and answers of Redis clients (RESP2, RESP3).
 *
 * A request is an array of bulks, or an inline command: words with blanks
 * between, on a line that ends in LF or CR LF.
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
#ifndef COUNTD_COMMON_WIRE_RESP_H
#define COUNTD_COMMON_WIRE_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESP_ARGS_MAX   4100
#define RESP_BULK_MAX   65536 /* bytes of one argument */
#define RESP_INLINE_MAX 65536 /* bytes of an inline command */
#define RESP_ERROR_MAX  64    /* bytes of `why`, with NUL */
#define RESP_NUMBER_SIZE                                                       \
    ((size_t)32) /* a number, or the head of a bulk or array */
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
    struct resp_arg args[RESP_ARGS_MAX]; /* point into the bytes parsed */
};

/* Parses the request that `bytes` begin with. */
enum resp_parsed resp_parse(const uint8_t *bytes, size_t size,
                            struct resp_request *out);

/* Reads -?digits without leading zeros.  False: not that, or outside int64. */
bool resp_integer(const struct resp_arg *arg, int64_t *out);

/* Whether the argument is `word`, which is lower case, in any case. */
bool resp_is_word(const struct resp_arg *arg, const char *word);

/* Whether `name` matches a pattern of *, ?, [a-z], [^a] and backslash. */
bool resp_matches(const uint8_t *pattern, size_t pattern_size,
                  const uint8_t *name, size_t name_size);

/* A type byte, the number in decimal, CR LF: ':' integer, '*' array, '%' map,
 * ',' double, '$' bulk of that many bytes. */
size_t resp_put_number(uint8_t *out, char type, int64_t value);
size_t resp_put_bulk(uint8_t *out, const void *bytes, size_t size);

/* The number as the text of a bulk. */
size_t resp_put_number_bulk(uint8_t *out, int64_t value);

#endif
