/* common/store/lmdb/keyspace_history_view.c - questions about history: see
 * keyspace_history.h. */
#include "common/store/lmdb/keyspace_history.h"

#include <errno.h>

int
lmdb_past(struct store *store, struct store_history_query *q, uint64_t until_ns)
{
    struct lmdb *s = lmdb_of(store);
    struct keyspace_history_kv kv;
    struct history h;
    int rc;

    if (q->op == STORE_HISTORY_KEY || q->op == STORE_HISTORY_RANK)
        if (q->key_size < 1 || q->key_size > BLOCK_KEY_MAX)
            return -EINVAL;
    rc = view_keep(s, q->name, q->name_size);
    if (rc < 0)
        return rc;
    if (!s->kept->state.has_history)
        return -ENODATA;
    rc = keyspace_history_get(s->kept->keyspace->reader,
                              s->kept->keyspace->meta, &h);
    keyspace_history_kv_read(&kv, s->kept->keyspace);
    if (rc == 0)
        rc = history_answer(&h, &kv.kv, q, until_ns);
    if (rc != -EBADMSG)
        return rc;
    lmdb_read_end(store);
    return keyspace_trouble(s, q->name, q->name_size, "history", rc);
}
