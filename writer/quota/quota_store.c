/* writer/quota/quota_store.c - see quota_store.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "writer/quota/checkpoint.h"

int
quota_store_checkpoint(struct quota_store *store, uint64_t end)
{
    uint8_t *bytes;
    size_t size;
    int rc;

    rc = checkpoint_write(&store->quotas, &bytes, &size);
    if (rc == 0)
        rc = journal_checkpoint(&store->journal, end, bytes, size);
    free(bytes);
    return rc;
}

void
quota_store_free(struct quota_store *store)
{
    if (!store)
        return;
    quotas_fini(&store->quotas);
    journal_close(&store->journal);
    free(store);
}

/* ---- the start --------------------------------------------------- */

static int
check_limit(const struct quota_store *store, const struct config *c)
{
    const int64_t limit = store->journal.head.limit;

    if ((uint64_t)limit == c->quota_limit)
        return 0;
    diag(DIAG_ERROR,
         "quota.limit=%" PRIu64 ", but the journal was made with %" PRId64
         ": give quota.limit = %" PRId64 " and change what remains with "
         "/increase and /decrease, or move data_dir/live/" JOURNAL_NAME
         " and " JOURNAL_NOTE_NAME " away to begin a new one",
         c->quota_limit, limit, limit);
    return -EINVAL;
}

/* A journal that is gone is not begun anew silently. */
static int
make_journal(int dirfd, const struct config *c)
{
    bool noted;
    int rc;

    rc = journal_file_exists(dirfd, JOURNAL_NOTE_NAME, &noted);
    if (rc < 0 || !noted)
        return rc < 0 ? rc : journal_make(dirfd, (int64_t)c->quota_limit);
    diag(DIAG_ERROR,
         "data_dir/live/" JOURNAL_NAME " does not exist, but " JOURNAL_NOTE_NAME
         " does: restore it, or "
         "remove " JOURNAL_NOTE_NAME ", too, to begin a new journal");
    return -EBADMSG;
}

static int
open_store(struct quota_store *store, int dirfd, const struct config *c)
{
    const struct journal_reader reader = {checkpoint_begin, quotas_take,
                                          &store->quotas};
    int rc;

    rc = journal_open(&store->journal, dirfd, &reader);
    if (rc == 0)
        rc = check_limit(store, c);
    if (rc < 0)
        return rc;
    quotas_taken(&store->quotas, c->quota_max);
    return journal_needs_checkpoint(&store->journal)
               ? quota_store_checkpoint(store, store->journal.durable)
               : 0;
}

int
quota_store_open(int dirfd, const struct config *c, struct quota_store **out)
{
    struct quota_store *store;
    bool exists;
    int rc;

    rc = journal_file_exists(dirfd, JOURNAL_NAME, &exists);
    if (rc == 0 && !exists)
        rc = make_journal(dirfd, c);
    if (rc < 0)
        return rc;
    store = calloc(1, sizeof *store);
    if (!store)
        return -ENOMEM;
    store->journal.fd = store->journal.note_fd = -1;
    rc = open_store(store, dirfd, c);
    if (rc < 0)
        quota_store_free(store);
    else
        *out = store;
    return rc;
}

/* ---- the export -------------------------------------------------- */

static void
print_numbers(FILE *file, const struct quota *quota)
{
    for (size_t i = 0; i < quota->count; i++) {
        const struct quota_number *n = &quota->numbers[i];

        if (n->amount == NUMBER_IS_CANCEL)
            continue;
        (void)fprintf(file, "%zu %" PRId64, i + 1, n->amount);
        if (n->other != 0)
            (void)fprintf(file, " %" PRIu64, n->other);
        (void)fputc('\n', file);
    }
}

int
quota_store_export(const struct quota_store *store, const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    char temp[CONFIG_TEXT_SIZE + 8];
    FILE *file;
    int fd, rc = 0;

    (void)snprintf(temp, sizeof temp, "%s.tmp", path);
    fd = open(temp, flags, 0644);
    file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        rc = -errno;
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    print_numbers(file, quotas_unnamed(&store->quotas));
    if (fflush(file) != 0 || ferror(file) || fsync(fd) < 0 ||
        rename(temp, path) < 0)
        rc = errno != 0 ? -errno : -EIO;
    (void)fclose(file); /* synced, or given up */
    return rc;
}
