/* common/client/cmd/backup_kept.c - see cmd_data.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <string.h>

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
        rc = place_archived(&place, &list.logs[i], NULL, NULL);
    place_fini(&place);
    archived_sort_fills(&list);
    if (rc == 0 && list.count > 0)
        rc = backup_requests_add(from_fd, to_fd, &list);
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
is_dropped(void *ctx, const struct log_fill *id)
{
    const struct dropped *d = ctx;
    const struct waiting *w = &d->in->waiting;

    return !waiting_has(w, waiting_find(w, d->name, d->size), id) &&
           waiting_is_in(d->in->store, d->name, d->size, id) == 0;
}

int
backup_dropped(struct store_session *in, struct waiting *copy)
{
    uint64_t fills = 0;
    int rc;

    rc = waiting_list(copy);
    if (rc == 0 && copy->names.count > 0)
        rc = unmerged_list(&in->waiting); /* before marks are asked */
    for (uint32_t i = 0; rc == 0 && i < copy->names.count; i++) {
        uint8_t name[MESSAGE_NAME_MAX];
        struct dropped d = {.in = in, .name = name};
        const uint8_t *listed = name_table_name(&copy->names, i, &d.size);

        memcpy(name, listed, d.size); /* the next list may move it */
        rc = waiting_leave_out(copy, name, d.size, is_dropped, &d, &fills);
    }
    return rc;
}
