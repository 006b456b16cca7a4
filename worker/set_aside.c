/* worker/set_aside.c - see set_aside.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/set_aside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log/logfile.h"
#include "common/log/mark.h"
#include "worker/apply_batch.h"

struct aside {
    struct merge *m;
    struct waiting_new file;
    struct archive_fill_name *names;
    size_t most;    /* keyspaces that refused */
    uint64_t fills; /* that were written */
    bool writes;    /* records are written, not counted */
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

static int
take_slot(void *ctx, uint32_t number, const struct message *msg,
          const struct slot_stamp *stamp)
{
    struct aside *a = ctx;
    struct fold_keyspace *k;

    (void)number;
    if (mark_is(msg) || msg->increment == 0)
        return 0;
    k = fold_find(&a->m->current->fold, msg->keyspace, msg->keyspace_size);
    if (!k || k->aside == UINT32_MAX)
        return 0;
    if (a->writes)
        return waiting_record(&a->m->folder, msg, stamp->received_ms);
    k->aside++;
    return 0;
}

/* Counts the records of a log that go into the file, or writes them. */
static int
take_slots(struct aside *a, const struct log *log, bool writes)
{
    a->writes = writes;
    return logfile_each_sealed(log, take_slot, a);
}

/* Finds the names of a fill that go into the file, and their records. */
static int
find_names(struct aside *a, unsigned i, struct archive_header *h)
{
    struct fold_keyspace *k;
    bool any = false;
    int rc;

    for (k = a->m->current->fold.first; k; k = k->next) {
        k->aside = is_wanted(a->m, k, i) ? 0 : UINT32_MAX;
        any = any || k->aside == 0;
    }
    h->count = h->names = 0;
    rc = any ? take_slots(a, &a->m->current->logs[i].log, false) : 0;
    for (k = a->m->current->fold.first; k; k = k->next) {
        if (k->aside == UINT32_MAX || k->aside == 0)
            continue;
        a->names[h->names++] =
            (struct archive_fill_name){k->name, k->name_size, k->aside};
        h->count += k->aside;
    }
    return rc;
}

static int
write_fill(struct aside *a, unsigned i)
{
    const struct log *log = &a->m->current->logs[i].log;
    struct archive_header h = archive_header_of(&log->header);
    struct waiting *w = &a->m->folder;
    int rc;

    rc = find_names(a, i, &h);
    if (rc < 0 || h.count == 0)
        return rc;
    rc = a->file.fd < 0 ? waiting_begin(w, &a->file, false) : 0;
    if (rc == 0)
        rc = waiting_member(w, &a->file, &h, a->names);
    if (rc == 0)
        rc = take_slots(a, log, true);
    if (rc == 0)
        rc = waiting_member_end(w, &a->file);
    a->fills += rc == 0;
    return rc;
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
    const struct fold_keyspace *k;
    int rc;

    for (k = m->current->fold.first; k; k = k->next)
        a.most += k->state == KEYSPACE_REFUSED;
    if (a.most == 0)
        return 0;
    a.names = calloc(a.most, sizeof *a.names);
    if (!a.names)
        return -ENOMEM;
    rc = write_all(&a);
    free(a.names);
    if (rc == 0)
        m->stats.held += a.fills;
    return rc;
}
