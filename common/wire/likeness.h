/* common/wire/likeness.h - "did you mean": which of our words a mistyped one
 * was meant to be.
 *
 *     struct likeness l = likeness_of("lgo.size");
 *     likeness_try(&l, "log.size");                  for each word
 *     likeness_hint(&l, text);             " (did you mean log.size?)"
 *
 * Pure; the words are the caller's. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_LIKENESS_H
#define COUNTD_COMMON_WIRE_LIKENESS_H

#include <stddef.h>

#define LIKENESS_WORD_MAX  48 /* bytes; longer words are like none */
#define LIKENESS_HINT_SIZE (LIKENESS_WORD_MAX + 24)

struct likeness {
    const char *text;
    size_t size;
    size_t least;     /* edits that make the text the word */
    const char *word; /* NULL: none is like it */
};

struct likeness likeness_of(const char *text);

/* An edit adds, takes away or changes a letter, or swaps two neighbours; of two
 * letters and less there is none that counts, of up to five one, else two.  A
 * word is also meant by what it has behind its dot. */
void likeness_try(struct likeness *l, const char *word);

/* " (did you mean WORD?)", or nothing.  Returns text. */
const char *likeness_hint(const struct likeness *l,
                          char text[LIKENESS_HINT_SIZE]);

#endif
