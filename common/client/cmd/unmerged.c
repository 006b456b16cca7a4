/* common/client/cmd/unmerged.c - see cmd_data.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/log/logfile.h"

#define TURN_TIMEOUT_MS 3000

static int
read_logs(const struct datadir *d, struct unmerged *out)
{
    struct logfile_list list;
    const int rc = logfile_list_read(&list, d->log_fd);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < list.count; i++) {
        if (list.files[i].kind != LOGFILE_BAD)
            continue;
        if (out->logs++ == 0)
            strcpy(out->log,
                   cmd_text(list.files[i].name, strlen(list.files[i].name)));
    }
    logfile_list_free(&list);
    return 0;
}

static int
note_held(void *ctx, const struct held_summary *s)
{
    struct unmerged *out = ctx;

    if (out->held == 0)
        strcpy(out->keyspace, cmd_text(s->name, s->name_size));
    out->held += s->records;
    return 0;
}

static int
note_damaged(void *ctx, int folder_fd, const char *file)
{
    struct unmerged *out = ctx;

    (void)folder_fd;
    if (strncmp(file, HELD_BAD_PREFIX, strlen(HELD_BAD_PREFIX)) == 0 &&
        out->damaged++ == 0)
        strcpy(out->file, cmd_text(file, strlen(file)));
    return 0;
}

int
unmerged_snapshot_begin(struct held *h)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + TURN_TIMEOUT_MS};
    int rc;

    do
        rc = held_refresh(h);
    while (wait_turn(&turn, rc, 0));
    return rc;
}

int
unmerged_read(const struct datadir *d, struct held *h, struct unmerged *out)
{
    int rc;

    *out = (struct unmerged){0};
    rc = read_logs(d, out);
    if (rc == 0)
        rc = unmerged_snapshot_begin(h);
    if (rc == 0)
        rc = held_each(h, note_held, out);
    if (rc == 0)
        rc = dirstream_each(d->fd, HELD_FOLDER, note_damaged, out);
    return rc;
}

void
unmerged_warn(const struct unmerged *k, const char *what)
{
    if (k->logs > 0)
        diag(DIAG_WARNING,
             "%s: %zu damaged log%s quarantined (log/%s%s); countd log salvage "
             "merges what is valid",
             what, k->logs, output_plural(k->logs), k->log,
             k->logs == 1 ? "" : " ...");
    if (k->held > 0)
        diag(DIAG_WARNING,
             "%s: %" PRIu64 " record%s held because their keyspace cannot "
             "take them now (%s%s); see countd held",
             what, k->held, output_plural(k->held), k->keyspace,
             k->held == 1 ? "" : " ...");
    if (k->damaged > 0)
        diag(DIAG_WARNING,
             "%s: damaged records of %zu file%s (held/%s%s) were quarantined; "
             "they stay until you remove them",
             what, k->damaged, output_plural(k->damaged), k->file,
             k->damaged == 1 ? "" : " ...");
}
