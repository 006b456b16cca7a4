/* tests/fuzz/fuzz_regular.c - any bytes as a regular expression, up to the first
 * LF, and as names, a line each.
 *
 * Whatever the bytes: nothing outside is read; one that is refused says why; what
 * is found lies in the name. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reader/graphite/regular.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
check_name(struct regular *r, const uint8_t *bytes, size_t size)
{
    char *name = malloc(size > 0 ? size : 1); /* for the sanitizer */
    struct regular_found found;

    assert(name != NULL);
    if (size > 0)
        memcpy(name, bytes, size);
    if (regular_search(r, (struct target_text){name, size}, 0, &found) == 1) {
        assert(found.begin[0] <= found.end[0] && found.end[0] <= size);
        for (unsigned i = 1; i < regular_groups(r); i++)
            assert(found.begin[i] == SIZE_MAX || found.end[i] <= size);
    }
    free(name);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint8_t *lf = size > 0 ? memchr(bytes, '\n', size) : NULL;
    const size_t first = lf ? (size_t)(lf - bytes) : size;
    char *text = malloc(first > 0 ? first : 1);
    struct scratch scratch;
    struct regular *r;
    const char *why = NULL;
    int rc;

    assert(text != NULL);
    if (first > 0)
        memcpy(text, bytes, first);
    scratch_init(&scratch, (size_t)4 << 20);
    rc = regular_compile(&scratch, (struct target_text){text, first}, &r, &why);
    assert(rc == 0 || rc == -ENOMEM || (rc == -EINVAL && why));
    while (rc == 0 && lf) {
        const uint8_t *name = lf + 1;

        lf = memchr(name, '\n', size - (size_t)(name - bytes));
        check_name(r, name,
                   lf ? (size_t)(lf - name) : size - (size_t)(name - bytes));
    }
    scratch_free(&scratch);
    free(text);
    return 0;
}
