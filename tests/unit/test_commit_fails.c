/* tests/unit/test_commit_fails.c - LMDB cannot write a meta page: what it then
 * leaves in the file is not taken for damage. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/counted.h"

#define KEYS      25000u
#define KEY_SIZE  200u
#define ROUNDS    6
#define META_ENDS 8192 /* of both meta pages */

static unsigned fails_in; /* writes of a meta page; 0: never */

/* LMDB's calls come here, too. */
ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    if (fails_in > 0 && at < META_ENDS && --fails_in == 0) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, size, at);
}

/* A large merge is a commit, and one of nothing behind it. */
TEST_IN(a_large_merge_whose_second_commit_fails_is_readable, struct tmpdir *d,
        in_memory, remove_dir)
{
    struct store *s = open_store(d, 1 << 28, true);
    struct store_delta *deltas = calloc(KEYS, sizeof *deltas);
    char(*keys)[KEY_SIZE + 1] = calloc(KEYS, sizeof *keys);
    struct store_applied applied;

    assert_true(deltas != NULL && keys != NULL);
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%0*u", (int)KEY_SIZE, i);
        deltas[i] = delta(keys[i], 1);
    }
    /* Until pages of the file are used again: what is behind its end as of the
     * commit before is not looked at. */
    for (unsigned i = 1; i < ROUNDS; i++)
        assert_rc(apply_deltas(s, KS, NULL, 0, deltas, KEYS, &applied), 0);
    fails_in = 2;
    assert_rc(apply_deltas(s, KS, NULL, 0, deltas, KEYS, &applied), 0);
    assert_int_equal(fails_in, 0);
    assert_int_equal(applied.commits, 1);
    store_close(s);

    s = open_store(d, 1 << 28, true);
    assert_int_equal(get_one(s, KS_NAME, keys[KEYS - 1]), ROUNDS);
    check_clean(s);
    store_close(s);
    free(keys);
    free(deltas);
}
