/* tests/lib/store_faults.c - see store_faults.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/store_faults.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KEYSPACES 512

struct keyspace_faults {
    char name[STORE_NAME_MAX + 1]; /* empty: free */
    struct store_fault fault;
    unsigned applies;
};

static struct keyspace_faults *table; /* shared with children */
static const struct store_engine *real;
static struct store_engine wrapped;
static bool is_applying;

static struct keyspace_faults *
find_keyspace(const void *name, size_t size)
{
    for (unsigned i = 0; i < KEYSPACES; i++) {
        struct keyspace_faults *k = &table[i];

        if (k->name[0] == '\0')
            memcpy(k->name, name, size);
        if (strlen(k->name) == size && memcmp(k->name, name, size) == 0)
            return k;
    }
    abort(); /* more keyspaces than the table has */
}

static int
marks(struct store *s, const struct store_batch *b,
      struct store_mark_info *infos)
{
    const struct keyspace_faults *k = find_keyspace(b->name, b->name_size);

    if (k->fault.marks < 0)
        return k->fault.marks;
    return real->marks(s, b, infos);
}

static int
apply(struct store *s, const struct store_batch *b,
      struct store_applied *applied)
{
    struct keyspace_faults *k = find_keyspace(b->name, b->name_size);
    struct store_fault *f = &k->fault;
    int rc;

    k->applies++;
    if (f->error < 0 && f->times > 0) {
        f->times -= f->times != STORE_FAULTS_ALWAYS;
        *applied = (struct store_applied){
            .at_keyspace_max = f->error == -EDQUOT, .holder = f->holder};
        return f->error;
    }
    is_applying = true;
    rc = real->apply(s, b, applied);
    is_applying = false;
    return rc;
}

void
store_faults_begin(void)
{
    const size_t size = KEYSPACES * sizeof *table;

    if (table == NULL)
        table = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert(table != MAP_FAILED);
    memset(table, 0, size);
}

void
store_faults_wrap(struct store *s)
{
    real = s->engine;
    wrapped = *real;
    wrapped.marks = marks;
    wrapped.apply = apply;
    s->engine = &wrapped;
}

void
store_faults_set(const char *name, struct store_fault f)
{
    find_keyspace(name, strlen(name))->fault = f;
}

unsigned
store_faults_applies(const char *name)
{
    return find_keyspace(name, strlen(name))->applies;
}

bool
store_faults_is_applying(void)
{
    return is_applying;
}
