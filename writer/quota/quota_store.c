/* writer/quota/quota_store.c - see quota_store.h. */
#include "writer/quota/quota_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/diag.h"
#include "writer/quota/checkpoint.h"

static int
begin_store(void *ctx, const struct journal *j)
{
    const int rc = quotas_init(ctx, j->dirfd, j->limit);

    return rc < 0 || j->checkpoint_size == 0
               ? rc
               : checkpoint_read(ctx, j->fd, RECORDS_AT, j->checkpoint_size,
                                 j->checkpoint_crc);
}

static int
save_store(void *ctx, int fd, uint64_t at, uint64_t *size, uint32_t *crc)
{
    return checkpoint_write(ctx, fd, at, size, crc);
}

int
quota_store_checkpoint(struct quota_store *store, uint64_t end)
{
    return journal_checkpoint(&store->journal, end, save_store, &store->quotas);
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

static int
check_limit(const struct quota_store *store, const struct config *c)
{
    const int64_t limit = store->journal.limit;

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

    rc = journal_note_exists(dirfd, &noted);
    if (rc < 0)
        return rc;
    if (!noted)
        return journal_make(dirfd, (int64_t)c->quota_limit);
    diag(DIAG_ERROR,
         "data_dir/live/" JOURNAL_NAME " does not exist, but " JOURNAL_NOTE_NAME
         " does: restore it, or remove " JOURNAL_NOTE_NAME
         ", too, to begin a new journal");
    return -EBADMSG;
}

int
quota_store_open(int dirfd, const struct config *c, struct quota_store **out)
{
    struct quota_store *store;
    bool exists;
    int rc;

    rc = journal_exists(dirfd, &exists);
    if (rc == 0 && !exists)
        rc = make_journal(dirfd, c);
    if (rc < 0)
        return rc;
    store = calloc(1, sizeof *store);
    if (!store)
        return -ENOMEM;
    store->journal.fd = -1;
    rc = journal_open(&store->journal, dirfd, begin_store, quotas_take,
                      &store->quotas);
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
