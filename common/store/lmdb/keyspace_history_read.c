/* common/store/lmdb/keyspace_history_read.c - lmdb_history(): queries of
 * history. */
#include "common/store/lmdb/keyspace_history.h"

#include <errno.h>

int
lmdb_history(struct store *store, struct store_history_query *q,
             uint64_t until_ns)
{
    struct lmdb *s = lmdb_of(store);
    struct keyspace_history_kv kv;
    struct history h;
    int rc;

    if (q->op == STORE_HISTORY_KEY && q->key_size < 1)
        return -EINVAL;
    if (q->key_size > BLOCK_KEY_MAX)
        return -EINVAL;
    rc = keyspace_use_view(s, q->name, q->name_size);
    if (rc < 0)
        return rc;
    if (!s->shared_view->state.has_history)
        return -ENODATA;
    rc = keyspace_history_get(s->shared_view->keyspace->reader,
                              s->shared_view->keyspace->meta, &h);
    keyspace_history_kv_read(&kv, s->shared_view->keyspace);
    if (rc == 0)
        rc = history_answer(&h, &kv.kv, q, until_ns);
    if (rc != -EBADMSG)
        return rc;
    lmdb_read_end(store);
    return keyspace_report(s, q->name, q->name_size, "history", rc);
}
