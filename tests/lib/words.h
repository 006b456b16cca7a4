/* tests/lib/words.h - the examples in the texts: README.md, man pages, help.
 *
 *     words_read(&w, "README.md");
 *     words_read(&w, "common/client/cmd/countd.1");
 *     for (size_t i = 0; i < w.count; i++)
 *         run(&w.pieces[i]);
 *     words_fini(&w);
 *
 * A text that cannot be read, or has more than there is room for, fails the
 * test.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_WORDS_H
#define COUNTD_TESTS_LIB_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define WORDS_MAX      192
#define WORDS_TEXT_MAX 8192

/* One example.  Its kind is what a fence is called (sh, c, python, or nothing),
 * or
 *     indented  a block behind four spaces
 *     span      a `countd ...` in a sentence
 *     literal   .Bd -literal of a man page, without its escapes
 *     line      .Dl of a man page
 *     named     .Ic countd SUBCOMMAND of one, as `countd help SUBCOMMAND`
 *     help      the example of `countd SUBCOMMAND -h` */
struct words_piece {
    char file[64];
    unsigned line; /* of its first line, from 1 */
    char kind[16];
    char *text; /* whole lines */
};

struct words {
    struct words_piece pieces[WORDS_MAX];
    size_t count;
};

/* Adds what a text has: Markdown when its name ends in .md, else mdoc.  *w is
 * zero before the first. */
void words_read(struct words *w, const char *path);

/* Adds the example of each subcommand that the built `countd` lists; fails the
 * test when one has none. */
void words_read_help(struct words *w);

void words_fini(struct words *w);

/* Replaces each `from` in a text with `to`; fails the test when `size` bytes
 * are too few. */
void words_replace(char *text, size_t size, const char *from, const char *to);

#endif
