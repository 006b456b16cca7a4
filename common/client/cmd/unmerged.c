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
note_waiting(void *ctx, const uint8_t *name, size_t name_size,
             const struct waiting_sum *sum)
{
    struct unmerged *out = ctx;

    if (out->fills == 0)
        strcpy(out->keyspace, cmd_text(name, name_size));
    out->fills += sum->fills;
    return 0;
}

static int
note_damaged(void *ctx, int folder_fd, const char *file)
{
    struct unmerged *out = ctx;

    (void)folder_fd;
    if (strncmp(file, WAITING_BAD, strlen(WAITING_BAD)) == 0 &&
        out->damaged++ == 0)
        strcpy(out->file, cmd_text(file, strlen(file)));
    return 0;
}

int
unmerged_list(struct waiting *w)
{
    struct wait_turn turn = {.deadline_ms = clock_ms() + TURN_TIMEOUT_MS};
    int rc;

    do
        rc = waiting_list(w);
    while (wait_turn(&turn, rc, 0));
    return rc;
}

int
unmerged_read(const struct datadir *d, struct waiting *w, struct store *s,
              struct unmerged *out)
{
    int rc;

    *out = (struct unmerged){0};
    rc = read_logs(d, out);
    if (rc == 0)
        rc = unmerged_list(w);
    if (rc == 0)
        rc = waiting_each(s, w, note_waiting, out);
    if (rc == 0)
        rc = dirstream_each(d->log_fd, WAITING_FOLDER, note_damaged, out);
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
    if (k->fills == 1)
        diag(DIAG_WARNING,
             "%s: a fill of a log waits for a keyspace that cannot take it now "
             "(%s); see countd held",
             what, k->keyspace);
    else if (k->fills > 0)
        diag(DIAG_WARNING,
             "%s: %" PRIu64 " fills of logs wait for keyspaces that cannot "
             "take them now (%s ...); see countd held",
             what, k->fills, k->keyspace);
    if (k->damaged > 0)
        diag(DIAG_WARNING,
             "%s: %zu damaged file%s (log/waiting/%s%s): what was damaged is "
             "lost; they stay until you remove them",
             what, k->damaged, output_plural(k->damaged), k->file,
             k->damaged == 1 ? "" : " ...");
}
