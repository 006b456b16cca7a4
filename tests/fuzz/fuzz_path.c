/* tests/fuzz/fuzz_path.c - any bytes as a pattern of a path, up to the first
 * LF, and as names, a line each.
 *
 * Whatever the bytes: nothing outside is read; each name is read back from its
 * path, whose nodes are not empty and match themselves; a pattern of literal
 * nodes matches one name only. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reader/graphite/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The path of a name, as a pattern, matches it, node by node. */
static void
check_path(struct scratch *scratch, const char *path, size_t path_size,
           const uint8_t *name, size_t size)
{
    char why[TARGET_WHY_SIZE];
    struct pattern p;
    size_t at = 0;

    assert(pattern_parse(scratch, (struct target_text){path, path_size}, &p,
                         why) == 0);
    assert(p.literals == p.count);
    for (unsigned i = 0; i < p.count; i++) {
        const size_t n = pattern_node_size(name + at, size - at);

        assert(n >= 1 && at + n <= size);
        assert(pattern_matches(&p.nodes[i], name + at, n));
        assert(i + 1 == p.count || name[at + n] == '.');
        at += n + (i + 1 < p.count ? 1 : 0);
    }
    assert(at == size);
}

static void
check_name(struct scratch *scratch, const struct pattern *pattern,
           const uint8_t *bytes, size_t size)
{
    uint8_t *name = malloc(size);
    uint8_t back[STORE_NAME_MAX];
    char path[PATTERN_ESCAPED_MAX];
    size_t path_size;

    assert(name != NULL);
    memcpy(name, bytes, size);
    path_size = pattern_escape(name, size, path);
    assert(path_size <= 3 * size);
    assert(pattern_unescape(path, path_size, back, size) == (int)size);
    assert(memcmp(back, name, size) == 0);
    check_path(scratch, path, path_size, name, size);
    for (unsigned i = 0; pattern && i < pattern->count; i++)
        if (pattern_matches(&pattern->nodes[i], name, size) &&
            pattern->nodes[i].is_literal)
            assert(size == pattern->nodes[i].prefix_size);
    free(name);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint8_t *lf = memchr(bytes, '\n', size);
    const size_t first = lf ? (size_t)(lf - bytes) : size;
    char *text = malloc(first > 0 ? first : 1);
    char why[TARGET_WHY_SIZE] = "";
    struct scratch scratch;
    struct pattern p;
    int rc;

    assert(text != NULL);
    memcpy(text, bytes, first);
    scratch_init(&scratch, (size_t)64 << 20);
    rc = pattern_parse(&scratch, (struct target_text){text, first}, &p, why);
    assert(rc == 0 || (rc == -EINVAL && why[0] != '\0'));
    bytes += first;
    size -= first;
    while (size > 0) {
        size_t line;

        bytes++;
        size--;
        lf = memchr(bytes, '\n', size);
        line = lf ? (size_t)(lf - bytes) : size;
        if (line > 0 && line <= STORE_NAME_MAX && !memchr(bytes, '\0', line))
            check_name(&scratch, rc == 0 ? &p : NULL, bytes, line);
        bytes += line;
        size -= line;
    }
    scratch_free(&scratch);
    free(text);
    return 0;
}
