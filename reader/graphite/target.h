/* reader/graphite/target.h - a target of /render, parsed.
 *
 *     alias(sumSeries(web.hits.*, pages.*), "hits")
 *     web.hits.* | sumSeries() | scale(0.5)
 *
 *     expression = primary { "|" call }          x|f(a) is f(x, a)
 *     primary    = call | path | number | string | "true" | "false"
 *     call       = name "(" [ argument { "," argument } ] ")"
 *     argument   = [ name "=" ] expression
 *     string     = "..." or '...'; a backslash before the quote is left out
 *
 * A path is a run of other bytes: target_is_word_byte() says which, here and
 * where paths are listed; commas belong to it between braces.  A word such as
 * 2024.1 is a number and a path, and k=v.x a keyword and a path: what the
 * parameter takes decides, target_read_path().  What functions there are, and
 * what a path may be, is checked elsewhere.
 *
 * Ownership: nodes are pieces of the scratch and point into the text.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_TARGET_H
#define COUNTD_READER_GRAPHITE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/bytes.h"
#include "reader/scratch.h"

#define TARGET_SIZE_MAX  65536u
#define TARGET_DEPTH_MAX 32
#define TARGET_WHY_SIZE  256 /* text of why something is refused, with NUL */

enum target_kind {
    TARGET_CALL,
    TARGET_PATH,
    TARGET_NUMBER,
    TARGET_STRING,
    TARGET_BOOL
};

struct target_text {
    const char *at;
    size_t size;
};

struct target_node {
    enum target_kind kind;
    unsigned height;            /* 1, or more than that of each argument */
    struct target_text source;  /* as it is written */
    struct target_text text;    /* of a call its name; path; string */
    struct target_text keyword; /* of an argument; size 0: none */
    long double number;
    int64_t whole; /* of a number with is_whole */
    bool is_whole; /* a number without point and exponent, in 64 bits */
    bool truth;
    unsigned arg_count;
    struct target_node *args;   /* the first argument of a call */
    struct target_node *next;   /* the next argument of the same call */
    struct target_node *parent; /* that call; NULL: none */
    struct target_node *after;  /* the node that is evaluated next: all
                                  arguments come before their call */
    void *result;               /* the evaluator's */
};

struct target {
    struct target_node *root;  /* also the last to be evaluated */
    struct target_node *first; /* to be evaluated */
};

/* Whether a byte belongs to a word wherever it stands: all but control
 * characters, blanks and ( ) " ' | \ and a comma. */
static inline bool
target_is_word_byte(char c)
{
    return (c < 0 || c > ' ') && c != 0x7f && !strchr("()\"'|\\,", c);
}

/* Bytes of the name of a function or a keyword at `at`; 0: there is none. */
size_t target_name_size(const char *at, const char *end);

/* Reads a path or a call where one is wanted: a number of two nodes, such as
 * 2024.1, becomes a path.  False: it is neither. */
bool target_read_path(struct target_node *node);

/* The same where the function has no parameter `keyword`: `keyword=` begins the
 * path. */
bool target_read_keyword_path(struct target_node *node);

/* Parses the `size` bytes of a target, which are valid UTF-8.
 *   -EINVAL  `why` says what is wrong
 *   -ENOMEM  the scratch is used up */
int target_parse(struct scratch *scratch, const char *text, size_t size,
                 struct target *out, char why[TARGET_WHY_SIZE]);

static inline bool
target_text_is(struct target_text text, const char *what)
{
    return bytes_equal(text.at, text.size, what, strlen(what));
}

static inline bool
target_text_equals(struct target_text a, struct target_text b)
{
    return bytes_equal(a.at, a.size, b.at, b.size);
}

#endif
