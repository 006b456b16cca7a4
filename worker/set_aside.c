/* worker/set_aside.c - see set_aside.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/set_aside.h"

#include <errno.h>

#include "common/log/logfile.h"
#include "worker/apply_batch.h"

struct aside {
    struct merge *m;
    struct waiting_new file;
    uint64_t fills; /* that were written */
};

/* Whether a fill's records of a keyspace go into the file: unless one that is
 * listed names it.  That one is durable when the folder was synced. */
static bool
is_wanted(const struct merge *m, const struct fold_keyspace *k, unsigned i)
{
    return k->state == KEYSPACE_REFUSED && fold_bit(k->touched, i) &&
           !waiting_has(&m->folder,
                        waiting_find(&m->folder, k->name, k->name_size),
                        &m->current->logs[i].mark);
}

static bool
is_any_wanted(const struct merge *m, unsigned i)
{
    const struct fold_keyspace *k = m->current->fold.first;

    while (k && !is_wanted(m, k, i))
        k = k->next;
    return k != NULL;
}

static int
read_log(void *ctx, slot_visit *visit, void *visit_ctx)
{
    return logfile_each_sealed(ctx, visit, visit_ctx);
}

static int
write_fill(struct aside *a, unsigned i)
{
    struct log *log = &a->m->current->logs[i].log;
    const struct archive_header h = archive_header_of(&log->header);
    const struct waiting_source from = {read_log, log};
    struct name_table names;
    int rc;

    if (!is_any_wanted(a->m, i))
        return 0;
    rc = name_table_init(&names);
    if (rc == 0)
        rc = waiting_count_records(&from, &names);
    for (uint32_t n = 0; rc == 0 && n < names.count; n++) {
        size_t size;
        const uint8_t *name = name_table_name(&names, n, &size);

        if (!is_wanted(a->m, fold_find(&a->m->current->fold, name, size), i))
            names.entries[n].note = 0;
    }
    if (rc == 0)
        rc = waiting_add(&a->m->folder, &a->file, &h, &names, &from);
    name_table_clear(&names);
    a->fills += rc > 0;
    return rc < 0 ? rc : 0;
}

static int
write_all(struct aside *a)
{
    const struct log_batch *b = a->m->current;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < b->count; i++) {
        if (!b->logs[i].whole)
            continue;
        if (apply_batch_stopped(a->m))
            rc = -ECANCELED;
        else
            rc = write_fill(a, i);
    }
    if (rc == 0 && a->file.fd >= 0)
        return waiting_end(&a->m->folder, &a->file);
    if (a->file.fd >= 0)
        waiting_abort(&a->m->folder, &a->file);
    /* What other files name is durable only now. */
    return rc == 0 ? waiting_sync(&a->m->folder) : rc;
}

int
set_aside(struct merge *m)
{
    struct aside a = {.m = m, .file = {.fd = -1}};
    const struct fold_keyspace *k = m->current->fold.first;
    int rc;

    while (k && k->state != KEYSPACE_REFUSED)
        k = k->next;
    if (!k)
        return 0;
    rc = write_all(&a);
    if (rc == 0)
        m->stats.held += a.fills;
    return rc;
}
