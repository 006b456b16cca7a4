/* common/setup/nearest.c - see nearest.h. */
#include "common/setup/nearest.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t
nearest_distance(const char *a, const char *b)
{
    /* Three rows of the usual table: the one being made and the two before
     * it, which swaps of neighbours look back to. */
    size_t rows[3][NEAREST_SIZE_MAX + 1];
    const size_t a_size = strnlen(a, NEAREST_SIZE_MAX + 1);
    const size_t b_size = strnlen(b, NEAREST_SIZE_MAX + 1);

    if (a_size > NEAREST_SIZE_MAX || b_size > NEAREST_SIZE_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = j;

    for (size_t i = 1; i <= a_size; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            row[j] = least(above[j], row[j - 1]) + 1;
            row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_size % 3][b_size];
}

void
nearest_offer(struct nearest *n, const char *wanted, const char *known)
{
    const size_t distance = nearest_distance(wanted, known);
    const size_t size = strlen(known);

    /* More than a third of the word wrong is not a slip of the finger. */
    if (distance > 1 + size / 3)
        return;
    assert(distance <= NEAREST_SIZE_MAX);
    if (n->best != NULL && distance >= n->distance)
        return;
    n->best = known;
    n->distance = distance;
}
