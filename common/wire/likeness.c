/* common/wire/likeness.c - see likeness.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/likeness.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct likeness
likeness_of(const char *text)
{
    const size_t size = strlen(text);

    return (struct likeness){.text = text,
                             .size = size,
                             .least = size < 3   ? 0
                                      : size < 6 ? 2
                                                 : 3};
}

static size_t
min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits from one word to the other (optimal string alignment). */
static size_t
count_edits(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t rows[3][LIKENESS_WORD_MAX + 1];

    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t *now = rows[i % 3];
        const size_t *up = rows[(i - 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            now[j] = min_of(min_of(up[j], now[j - 1]) + 1,
                            up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = min_of(now[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[a_size % 3][b_size];
}

void
likeness_try(struct likeness *l, const char *word)
{
    const size_t size = strlen(word);
    const char *dot = strrchr(word, '.');
    const bool is_end = l->size > 0 && dot && strcmp(dot + 1, l->text) == 0;
    size_t edits;

    if (l->size > LIKENESS_WORD_MAX || size > LIKENESS_WORD_MAX)
        return;
    edits = is_end ? 0 : count_edits(l->text, l->size, word, size);
    if (edits < l->least || (is_end && !l->word)) {
        l->least = edits;
        l->word = word;
    }
}

const char *
likeness_hint(const struct likeness *l, char text[LIKENESS_HINT_SIZE])
{
    (void)snprintf(text, LIKENESS_HINT_SIZE, "%s%s%s",
                   l->word ? " (did you mean " : "", l->word ? l->word : "",
                   l->word ? "?)" : ""); /* it has room */
    return text;
}
