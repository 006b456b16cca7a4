/* tests/crash/test_new_keyspace.c - a keyspace's file is made by a worker that
 * dies before its name is durable.
 *
 * The process that commits to the file next empties logs for it, so it must make
 * the name survive a power loss first.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/setup/datadir.h"
#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

struct side {
    struct datadir dir;
    struct store *store;
};

static void
open_side(struct side *s, const char *path)
{
    diag_init("test", DIAG_ERROR);
    assert_rc(datadir_open(&s->dir, path, DATADIR_WRITE), 0);
    s->store = engine_open(s->dir.keyspace_fd);
}

static void
close_side(struct side *s)
{
    store_close(s->store);
    datadir_close(&s->dir);
}

static int
apply_one(struct side *s, uint8_t log)
{
    const struct log_fill mark = {.uuid = {log}, .epoch = 1};

    return stored_add(s->store, "new", &mark, "key", 1);
}

/* Applies in a child that dies at its nth fsync; true when it did. */
static bool
die_at_fsync(const char *path, unsigned n)
{
    struct side s;
    int status = 0;
    pid_t pid;

    pid = test_fork();
    if (pid == 0) {
        open_side(&s, path);
        fault_kill("fsync", n);
        _exit(apply_one(&s, 1) < 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

IN_TMPDIR(the_next_one_makes_a_dead_creators_name_durable, dir)
{
    struct side s;

    open_side(&s, dir->path);
    /* The first fsync is of the file, the second of the folder. */
    for (unsigned n = 1; !tmpdir_has(dir, "keyspace/new.mdb"); n++)
        assert_true(die_at_fsync(dir->path, n));

    fault_clear();
    assert_rc(apply_one(&s, 2), 0);
    assert_true(fault_calls("fsync") > 0);
    close_side(&s);
}
