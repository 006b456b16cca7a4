/* common/client/cmd/backup_kept.c - see cmd_data.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Goes through a fill once: counts its increments, or writes them. */
static int
read_fill(struct place *p, const struct archived *a, bool write)
{
    const struct archive_record *records;
    struct archive_reader *from;
    int fd, count, rc;

    rc = archived_open(a, &from, &fd);
    if (rc < 0)
        return rc;
    if (!write)
        place_begin(p, archive_reader_header(from));
    while (rc == 0 && (count = archive_reader_next(from, &records)) != 0) {
        rc = count < 0 ? count : 0;
        for (int i = 0; rc == 0 && i < count; i++)
            rc = write ? place_write(p, &records[i].m, records[i].received_ms)
                       : place_count(p, &records[i].m);
    }
    archived_close(from, fd);
    return rc;
}

static int
place_fill(struct place *p, const struct archived *a)
{
    int rc;

    if (a->missing || a->error < 0)
        return a->missing ? -ENOENT : a->error;
    rc = read_fill(p, a, false);
    if (rc == 0)
        rc = place_decide(p);
    if (rc == 0 && p->writes)
        rc = read_fill(p, a, true);
    if (rc == 0)
        return place_end(p);
    place_abort(p);
    return rc;
}

static int
by_fill(const void *a, const void *b)
{
    const struct archived *x = a, *y = b;
    const int c = memcmp(x->header.uuid, y->header.uuid, MESSAGE_UUID_SIZE);

    return c != 0 ? c
                  : (x->header.epoch > y->header.epoch) -
                        (x->header.epoch < y->header.epoch);
}

static bool
is_listed(const void *ctx, const uint8_t *uuid, uint64_t epoch)
{
    const struct archived_list *list = ctx;
    struct archived key = {.header = {.epoch = epoch}};

    memcpy(key.header.uuid, uuid, MESSAGE_UUID_SIZE);
    return list->count > 0 &&
           bsearch(&key, list->logs, list->count, sizeof key, by_fill) != NULL;
}

int
backup_kept(int from_fd, const char *kept_path, struct store_session *copy,
            int to_fd)
{
    struct archived_list list = {.count = 0};
    struct place place = {.in = copy};
    int rc;

    rc = archived_add(&list, kept_path);
    if (rc == 0)
        rc = unmerged_list(&copy->waiting);
    archived_sort(&list);
    for (size_t i = 0; rc == 0 && i < list.count; i++)
        rc = place_fill(&place, &list.logs[i]);
    place_fini(&place);
    if (list.count > 0)
        qsort(list.logs, list.count, sizeof *list.logs, by_fill);
    if (rc == 0 && list.count > 0)
        rc = backup_requests_add(from_fd, to_fd, is_listed, &list);
    archived_free(&list);
    return rc;
}

/* ---- what was dropped ------------------------------------------------------ */

struct dropped {
    struct store_session *in;
    const uint8_t *name;
    size_t size;
};

static bool
is_dropped(void *ctx, const struct waiting_fill *f)
{
    const struct dropped *d = ctx;
    const struct waiting *w = &d->in->waiting;

    return !waiting_same(w, waiting_find(w, d->name, d->size), f->uuid,
                         f->epoch, f->first_ms) &&
           waiting_is_in(d->in->store, d->name, d->size, f) == 0;
}

int
backup_dropped(struct store_session *in, struct waiting *copy)
{
    uint64_t fills = 0;
    int rc;

    rc = waiting_list(copy);
    if (rc == 0 && copy->name_count > 0)
        rc = unmerged_list(&in->waiting); /* before marks are asked */
    for (uint32_t i = 0; rc == 0 && i < copy->name_count; i++) {
        uint8_t name[MESSAGE_NAME_MAX];
        struct dropped d = {.in = in, .name = name};
        const uint8_t *listed = waiting_name(copy, i, &d.size);

        memcpy(name, listed, d.size); /* the next list may move it */
        rc = waiting_leave_out(copy, name, d.size, is_dropped, &d, &fills);
    }
    return rc;
}
