/* common/setup/name_pattern.c - see name_pattern.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/name_pattern.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

static int
parse_pattern(const char *text, struct name_pattern *out, const char **why)
{
    size_t text_size = strlen(text);
    int rc;

    *out = (struct name_pattern){.prefix = text_size > 0 &&
                                           text[text_size - 1] == '*'};
    text_size -= out->prefix;
    rc = name_unescape(text, text_size, out->name, sizeof out->name);
    if (rc < 0 || (text_size == 0 && !out->prefix)) {
        *why = "that is not a name of a keyspace";
        return -EINVAL;
    }
    out->size = (uint16_t)rc;
    return 0;
}

static bool
is_equal(const struct name_pattern *a, const struct name_pattern *b)
{
    return a->prefix == b->prefix &&
           bytes_equal(a->name, a->size, b->name, b->size);
}

int
name_patterns_add(struct name_patterns *p, const char *text, const char **why)
{
    struct name_pattern new;
    const int rc = parse_pattern(text, &new, why);
    size_t i = 0;

    if (rc < 0)
        return rc;
    while (i < p->count && !is_equal(&p->at[i], &new))
        i++;
    if (i == NAME_PATTERNS_MAX) {
        *why = "these are too many keyspaces and patterns; give at most 64";
        return -E2BIG;
    }
    p->at[i] = new;
    p->count += i == p->count;
    return (int)i;
}

int
name_patterns_add_all(struct name_patterns *p, const char *texts,
                      const char **why)
{
    char text[NAME_TEXT_SIZE + 1];
    size_t size;
    int rc = 0;

    for (texts += strspn(texts, " "); rc >= 0 && *texts != '\0';
         texts += size + strspn(texts + size, " ")) {
        size = strcspn(texts, " ");
        if (size >= sizeof text) {
            *why = "a keyspace has at most 256 bytes";
            return -EINVAL;
        }
        memcpy(text, texts, size);
        text[size] = '\0';
        rc = name_patterns_add(p, text, why);
    }
    return rc < 0 ? rc : 0;
}

/* How well a pattern fits a name: 0, not at all; the more, the better. */
static size_t
measure_fit(const struct name_pattern *p, const uint8_t *name, size_t size)
{
    if (p->size > size || memcmp(p->name, name, p->size) != 0)
        return 0;
    if (p->prefix)
        return 1 + (size_t)p->size;
    return p->size == size ? SIZE_MAX : 0;
}

int
name_patterns_find(const struct name_patterns *p, const uint8_t *name,
                   size_t size)
{
    size_t best_fit = 0;
    int best = -1;

    for (size_t i = 0; i < p->count; i++) {
        const size_t fit = measure_fit(&p->at[i], name, size);

        if (fit > best_fit) {
            best_fit = fit;
            best = (int)i;
        }
    }
    return best;
}

int
name_patterns_first(const struct name_patterns *p, const uint8_t *name,
                    size_t size)
{
    for (size_t i = 0; i < p->count; i++)
        if (measure_fit(&p->at[i], name, size) > 0)
            return (int)i;
    return -1;
}
