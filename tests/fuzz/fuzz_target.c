/* tests/fuzz/fuzz_target.c - any bytes as targets of Grafana, a line each.
 *
 * Whatever the bytes: nothing outside a target is read; one that is refused
 * says why; the arguments of a call are evaluated before it, all of them, and
 * are of less height; no tree is higher than the limit; calls that are bound
 * have a function. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "common/wire/utf8.h"
#include "reader/graphite/functions.h"
#include "reader/graphite/pattern.h"

static size_t
count_nodes(const struct target_node *node)
{
    size_t count = 1;
    unsigned args = 0;

    for (const struct target_node *v = node->args; v; v = v->next) {
        assert(v->height < node->height);
        count += count_nodes(v);
        args++;
    }
    assert(args == node->arg_count && node->height <= TARGET_DEPTH_MAX);
    return count;
}

static void
check_target(const uint8_t *text, size_t size)
{
    char *copy = fuzz_copy(text, size);
    struct scratch scratch;
    char why[TARGET_WHY_SIZE] = "";
    struct target t;
    size_t count = 0;
    int rc;

    scratch_init(&scratch, (size_t)64 << 20);
    rc = target_parse(&scratch, copy, size, &t, why);
    assert(rc == 0 || (rc == -EINVAL && why[0] != '\0'));
    for (struct target_node *n = t.first; rc == 0 && n; n = n->after) {
        struct pattern p;

        count++;
        assert(n->source.at >= copy &&
               n->source.at + n->source.size <= copy + size);
        assert(n->after || n == t.root);
        why[0] = '\0';
        if (n->kind == TARGET_CALL)
            assert(functions_bind(&scratch, n, why) == 0
                       ? functions_call(n)->function != NULL
                       : why[0] != '\0');
        else if (n->kind == TARGET_PATH &&
                 utf8_is_valid((const uint8_t *)n->text.at, n->text.size))
            assert(pattern_parse(&scratch, n->text, &p, why) == 0
                       ? p.count > 0
                       : why[0] != '\0');
    }
    if (rc == 0)
        assert(count == count_nodes(t.root));
    scratch_free(&scratch);
    free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_line line;

    while (fuzz_take_line(&bytes, &size, &line))
        check_target(line.at, line.size);
    return 0;
}
