/* writer/quota/quota_store.c - see quota_store.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/diag.h"
#include "writer/quota/checkpoint.h"

static int
begin_store(void *ctx, const struct journal *j)
{
    const int rc = quotas_init(ctx, j->dirfd, j->head.limit);

    return rc < 0 || j->head.checkpoint_size == 0
               ? rc
               : checkpoint_read(ctx, j->fd, RECORDS_AT,
                                 j->head.checkpoint_size,
                                 j->head.checkpoint_crc);
}

int
quota_store_checkpoint(struct quota_store *store, uint64_t end)
{
    return journal_checkpoint(&store->journal, end, checkpoint_write,
                              &store->quotas);
}

void
quota_store_free(struct quota_store *store)
{
    if (!store)
        return;
    quotas_fini(&store->quotas);
    journal_note_close(&store->seen);
    journal_close(&store->journal);
    free(store);
}

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
         ", " JOURNAL_NOTE_NAME " and " JOURNAL_SEEN_NAME
         " away to begin a new one",
         c->quota_limit, limit, limit);
    return -EINVAL;
}

/* A journal that is gone is not begun anew silently. */
static int
make_journal(int dirfd, const struct config *c)
{
    bool noted = false, seen = false;
    int rc;

    rc = journal_file_exists(dirfd, JOURNAL_NOTE_NAME, &noted);
    if (rc == 0)
        rc = journal_file_exists(dirfd, JOURNAL_SEEN_NAME, &seen);
    if (rc < 0)
        return rc;
    if (!noted && !seen)
        return journal_make(dirfd, (int64_t)c->quota_limit);
    diag(DIAG_ERROR,
         "data_dir/live/" JOURNAL_NAME
         " does not exist, but %s does: restore it, or remove %s, too, to "
         "begin a new journal",
         seen ? JOURNAL_SEEN_NAME : JOURNAL_NOTE_NAME,
         noted && seen ? JOURNAL_NOTE_NAME " and " JOURNAL_SEEN_NAME
         : seen        ? JOURNAL_SEEN_NAME
                       : JOURNAL_NOTE_NAME);
    return -EBADMSG;
}

void
quota_store_note(struct quota_store *store, uint64_t end)
{
    static struct diag_repeat warning;
    int rc;

    journal_note_sync(&store->journal.note);
    if (store->seen.is_synced && store->seen.end == end)
        return;
    rc = journal_note_write(&store->seen, end);
    if (rc < 0)
        diag_repeating(&warning, DIAG_WARNING,
                       "write data_dir/live/" JOURNAL_SEEN_NAME
                       ": %s; an older copy of the quota journal may go "
                       "undetected",
                       diag_text(rc));
    else
        journal_note_sync(&store->seen);
    store->seen.end = end;
}

/* The journal must have all records that it had when the second note was
 * written. */
static int
check_seen(struct quota_store *store)
{
    const struct journal *j = &store->journal;
    int rc;

    rc = journal_note_open(&store->seen, j->dirfd, JOURNAL_SEEN_NAME, j->fd,
                           j->head.uuid, j->head.generation);
    if (rc < 0)
        return rc;
    if (j->durable >= store->seen.end) {
        quota_store_note(store, j->durable);
        return 0;
    }
    diag(DIAG_ERROR,
         "data_dir/live/" JOURNAL_NAME
         " is an older copy, and so is " JOURNAL_NOTE_NAME
         ", or it was removed: it has %" PRIu64 " records and had %" PRIu64
         ": restore the newer one; to serve this one nevertheless, which "
         "forgets what was answered since, remove "
         "data_dir/live/" JOURNAL_SEEN_NAME,
         j->durable, store->seen.end);
    return -EBADMSG;
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
    store->journal.fd = store->seen.fd = -1;
    rc = journal_open(&store->journal, dirfd, begin_store, quotas_take,
                      &store->quotas);
    if (rc == 0)
        rc = check_seen(store);
    if (rc == 0)
        rc = check_limit(store, c);
    if (rc < 0) {
        quota_store_free(store);
        return rc;
    }
    quotas_taken(&store->quotas, c->quota_max);
    if (journal_needs_checkpoint(&store->journal))
        rc = quota_store_checkpoint(store, store->journal.durable);
    if (rc < 0) {
        quota_store_free(store);
        return rc;
    }
    *out = store;
    return 0;
}
