/* reader/graphite/pattern.h - paths: keyspaces and keys as Graphite names them,
 * and patterns that match them.
 *
 * The path of a key is KEYSPACE.KEY, in nodes that dots part.  A byte that
 * target_is_word_byte() refuses, that has a meaning in a pattern or is not part of
 * valid UTF-8 is written %HH, and so are a dot that would make an empty node and the
 * `=` of a path that begins as a keyword does: every key has one path, `.` always
 * parts nodes, and a target takes each path as it is.  The same is read back.
 *
 * A pattern has for each node bytes as a path has them, and
 *
 *     *  any bytes    ?  one character    [ab] [a-c] [!a]    {x,y}
 *
 * A pattern has at most PATTERN_SIZE_MAX bytes and is compiled once, and matching
 * a node takes time proportional to the sizes of both: less than a millisecond.
 *
 * Ownership: a pattern is a piece of a scratch.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_PATTERN_H
#define COUNTD_READER_GRAPHITE_PATTERN_H

#include <stdbool.h>

#include "common/store/store.h"
#include "reader/graphite/target.h"
#include "reader/scratch.h"

/* Bytes of a name in a path. */
#define PATTERN_ESCAPED_MAX ((size_t)3 * STORE_NAME_MAX)
#define PATTERN_PATH_MAX    (2 * PATTERN_ESCAPED_MAX + 1)

#define PATTERN_SIZE_MAX 4096

/* A [class]: which characters it has, the bytes of one as a big-endian number. */
struct pattern_class {
    struct pattern_range {
        uint32_t low, high;
    } * ranges;
    size_t count;
    bool is_negated;
};

struct pattern_element {
    enum {
        PATTERN_BYTE,
        PATTERN_ANY,       /* bytes */
        PATTERN_CHARACTER, /* of the class, if there is one */
        PATTERN_OPEN,      /* a brace, */
        PATTERN_OR,        /* a comma in it, */
        PATTERN_CLOSE      /* and its end */
    } kind;
    uint8_t byte;
    struct pattern_class *class;
};

struct pattern_node {
    struct pattern_element *elements;
    size_t count;
    uint8_t *prefix; /* the bytes before the first other element */
    size_t prefix_size;
    bool is_literal; /* the prefix is all */
};

struct pattern {
    struct pattern_node *nodes;
    unsigned count;
    unsigned literals; /* nodes before the first with a wildcard */
};

/*   -EINVAL  `why` says what is wrong
 *   -ENOMEM  the scratch is used up */
int pattern_parse(struct scratch *scratch, struct target_text text,
                  struct pattern *out, char why[TARGET_WHY_SIZE]);

/* Whether a node of a name matches. */
bool pattern_matches(const struct pattern_node *node, const uint8_t *name,
                     size_t size);

/* Returns the size of the first node of a name of `size` bytes, at least 1;
 * after it is the end or a dot that parts nodes. */
size_t pattern_node_size(const uint8_t *name, size_t size);

/* Writes a name as a path has it, at most three times its size; returns the
 * size. */
size_t pattern_escape(const uint8_t *name, size_t size, char *out);

/* Writes the path of a key, or with key_size 0 that of a keyspace; returns the
 * size, at most PATTERN_PATH_MAX. */
size_t pattern_path(const uint8_t *keyspace, size_t keyspace_size,
                    const uint8_t *key, size_t key_size, char *out);

/* Reads it back, at most `max` bytes; returns the size.
 *   -EINVAL        a % without two hexadecimal digits, or of NUL
 *   -ENAMETOOLONG  more than `max` bytes */
int pattern_unescape(const char *text, size_t size, uint8_t *out, size_t max);

/* A path as a legend has it: what can be seen is itself; control characters and
 * bytes that are no UTF-8 stay %HH.  `at` is NULL: the scratch is used up. */
struct target_text pattern_show(struct scratch *scratch,
                                struct target_text path);

#endif
