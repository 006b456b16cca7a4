/* common/setup/nearest.h - the known word nearest to a mistyped one.
 *
 * For "no such setting: log.siz; did you mean log.size?".  Pure; allocates
 * nothing.
 */
#ifndef COUNTD_NEAREST_H
#define COUNTD_NEAREST_H

#include <stddef.h>

#define NEAREST_SIZE_MAX 64 /* longer words are near to nothing */

/* Single-character insertions, deletions, replacements and swaps of
 * neighbours that turn `a` into `b`; a large number for words longer than
 * NEAREST_SIZE_MAX. */
size_t nearest_distance(const char *a, const char *b);

/* A search: start with zeroes, offer each known word, read `best` (NULL when
 * none was near enough to be worth a suggestion). */
struct nearest {
    const char *best;
    size_t distance;
};

void nearest_offer(struct nearest *n, const char *wanted, const char *known);

#endif
