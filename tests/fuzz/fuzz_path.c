/* tests/fuzz/fuzz_path.c - any bytes as a pattern of a path, up to the first
 * LF, and as names, a line each.
 *
 * Whatever the bytes: nothing outside is read; each name is read back from its
 * path, whose nodes are not empty and match themselves; a pattern of literal
 * nodes matches one name only. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "reader/graphite/pattern.h"

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
    uint8_t *name = fuzz_copy(bytes, size);
    uint8_t back[STORE_NAME_MAX];
    char path[PATTERN_ESCAPED_MAX];
    size_t path_size;

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
    struct fuzz_line line = {.size = 0};
    char *text;
    char why[TARGET_WHY_SIZE] = "";
    struct scratch scratch;
    struct pattern p;
    int rc;

    (void)fuzz_take_line(&bytes, &size, &line); /* none: an empty pattern */
    text = fuzz_copy(line.at, line.size);
    scratch_init(&scratch, (size_t)64 << 20);
    rc =
        pattern_parse(&scratch, (struct target_text){text, line.size}, &p, why);
    assert(rc == 0 || (rc == -EINVAL && why[0] != '\0'));
    while (fuzz_take_line(&bytes, &size, &line))
        if (line.size > 0 && line.size <= STORE_NAME_MAX &&
            !memchr(line.at, '\0', line.size))
            check_name(&scratch, rc == 0 ? &p : NULL, line.at, line.size);
    scratch_free(&scratch);
    free(text);
    return 0;
}
