/* tests/unit/test_lmdb_version.c - the engine is not begun on an LMDB whose files
 * countd cannot read. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <lmdb.h>

#include "common/store/lmdb/lmdb_store.h"
#include "tests/lib/counted.h"

static int version[3];

/* The program's own comes before the library's. */
char *
mdb_version(int *major, int *minor, int *patch)
{
    static char text[] = "LMDB of another day";

    *major = version[0];
    *minor = version[1];
    *patch = version[2];
    return text;
}

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, in_memory, remove_dir)

CASE(another_lmdb_than_0_9_is_refused, d)
{
    static const struct {
        int major, minor, rc;
    } cases[] = {{0, 9, 0},
                 {1, 0, -EPROTONOSUPPORT},
                 {0, 8, -EPROTONOSUPPORT},
                 {0, 10, -EPROTONOSUPPORT},
                 {1, 9, -EPROTONOSUPPORT}};
    const struct lmdb_options options = {
        .keyspace_fd = d->fd, .keyspace_size = 256, .key_size = 256};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct store *s = NULL;

        version[0] = cases[i].major;
        version[1] = cases[i].minor;
        assert_rc(lmdb_store_open(&s, &options), cases[i].rc);
        assert_true((s != NULL) == (cases[i].rc == 0));
        store_close(s);
    }
}
