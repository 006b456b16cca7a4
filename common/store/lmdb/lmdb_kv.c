/* common/store/lmdb/lmdb_kv.c - see lmdb_kv.h: lmdb_kv(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/lmdb_kv.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

int
lmdb_error(int code)
{
    switch (code) {
    case MDB_SUCCESS:
        return 0;
    case MDB_MAP_FULL:
        return -EXFULL;
    case MDB_TXN_FULL:
    case MDB_CURSOR_FULL:
        return -E2BIG;
    case MDB_NOTFOUND:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_VALSIZE:
        return -EBADMSG;
    default:
        return code > 0 ? -code : -EIO;
    }
}

MDB_val
lmdb_val(const void *bytes, size_t size)
{
    MDB_val v = {.mv_size = size};

    memcpy(&v.mv_data, &bytes, sizeof bytes);
    return v;
}

int
lmdb_each(MDB_txn *txn, MDB_dbi dbi, const struct pages_map *map,
          int (*item)(void *ctx, const MDB_val *key, const MDB_val *value),
          void *ctx)
{
    MDB_val key, value;
    MDB_cursor *c;
    int rc, code;

    rc = lmdb_error(mdb_cursor_open(txn, dbi, &c));
    if (rc < 0)
        return rc;
    code = mdb_cursor_get(c, &key, &value, MDB_FIRST);
    while (code == 0 && rc == 0) {
        if (map && !pages_value_ok(map, value.mv_data, value.mv_size))
            rc = -EBADMSG;
        else if (item)
            rc = item(ctx, &key, &value);
        if (rc == 0)
            code = mdb_cursor_get(c, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(c);
    return rc != 0 || code == MDB_NOTFOUND ? rc : lmdb_error(code);
}

int
lmdb_env_sizes(MDB_env *env, MDB_envinfo *info, MDB_stat *st)
{
    const int rc = lmdb_error(mdb_env_info(env, info));

    return rc < 0 ? rc : lmdb_error(mdb_env_stat(env, st));
}

int
lmdb_kv_open(struct lmdb_kv *p, MDB_txn *txn, MDB_dbi dbi,
             const struct pages_map *map)
{
    *p = (struct lmdb_kv){.txn = txn, .map = map};
    return lmdb_error(mdb_cursor_open(txn, dbi, &p->cursor));
}

/* ---- values ------------------------------------------------------------ */

/* Moves the cursor; returns LMDB's code. */
static int
find_item(struct lmdb_kv *p, MDB_val *key, MDB_val *value, MDB_cursor_op op)
{
    int code = 0;

    if (p->renew)
        code = mdb_cursor_renew(p->txn, p->cursor);
    p->renew = false;
    return code != 0 ? code : mdb_cursor_get(p->cursor, key, value, op);
}

/* Moves to a value that is about to be removed or replaced.  LMDB frees as many
 * pages as the value's page head says: -EBADMSG if that is damaged, because it
 * would free pages of other values.  *there is false if there is no such value;
 * then 0. */
static int
find_value(struct lmdb_kv *p, MDB_val key, bool *there)
{
    MDB_val was;
    const int code = find_item(p, &key, &was, MDB_SET);

    *there = code == 0;
    if (code != 0)
        return code == MDB_NOTFOUND ? 0 : lmdb_error(code);
    return pages_value_ok(p->map, was.mv_data, was.mv_size) ? 0 : -EBADMSG;
}

static int
put(void *ctx, const uint8_t *key, size_t size, const uint8_t *value,
    size_t value_size)
{
    struct lmdb_kv *p = ctx;
    MDB_val k = lmdb_val(key, size), v = lmdb_val(value, value_size);
    bool there;
    const int rc = find_value(p, k, &there);

    return rc < 0 ? rc : lmdb_error(mdb_cursor_put(p->cursor, &k, &v, 0));
}

static int
del(void *ctx, const uint8_t *key, size_t size)
{
    struct lmdb_kv *p = ctx;
    bool there;
    const int rc = find_value(p, lmdb_val(key, size), &there);

    if (rc < 0 || !there)
        return rc < 0 ? rc : -EBADMSG;
    return lmdb_error(mdb_cursor_del(p->cursor, 0));
}

static int
fill_item(int code, const MDB_val *key, const MDB_val *value,
          struct kv_item *out)
{
    if (code != 0)
        return code == MDB_NOTFOUND ? 0 : lmdb_error(code);
    *out = (struct kv_item){key->mv_data, value->mv_data, key->mv_size,
                            value->mv_size};
    return 1;
}

static int
after(void *ctx, const uint8_t *key, size_t size, struct kv_item *out)
{
    MDB_val k = lmdb_val(key, size), v;
    const int code = find_item(ctx, &k, &v, MDB_SET_RANGE);

    return fill_item(code, &k, &v, out);
}

static int
before(void *ctx, const uint8_t *key, size_t size, struct kv_item *out)
{
    MDB_val k = lmdb_val(key, size), v;
    int code = find_item(ctx, &k, &v, MDB_SET_RANGE);

    if (code == MDB_NOTFOUND)
        code = find_item(ctx, &k, &v, MDB_LAST);
    else if (code == 0 && !bytes_equal(k.mv_data, k.mv_size, key, size))
        code = find_item(ctx, &k, &v, MDB_PREV);
    return fill_item(code, &k, &v, out);
}

struct kv
lmdb_kv(struct lmdb_kv *p)
{
    return (struct kv){
        .after = after, .before = before, .put = put, .del = del, .ctx = p};
}
