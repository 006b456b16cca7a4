/* common/store/lmdb/lmdb_pager.c - see lmdb_pager.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/lmdb_pager.h"

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
lmdb_each(MDB_txn *txn, MDB_dbi dbi,
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
        rc = item(ctx, &key, &value);
        if (rc == 0)
            code = mdb_cursor_get(c, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(c);
    return rc != 0 || code == MDB_NOTFOUND ? rc : lmdb_error(code);
}

int
lmdb_map_find(MDB_txn *txn, MDB_dbi dbi, const char *key, struct pages_map *map)
{
    MDB_val k = lmdb_val(key, strlen(key)), v;
    MDB_env *env = mdb_txn_env(txn);
    MDB_envinfo info;
    MDB_stat st;
    int rc;

    rc = lmdb_error(mdb_env_info(env, &info));
    if (rc == 0)
        rc = lmdb_error(mdb_env_stat(env, &st));
    if (rc == 0)
        rc = lmdb_error(mdb_get(txn, dbi, &k, &v));
    if (rc == 0)
        pages_map_find(map, v.mv_data, st.ms_psize, info.me_mapsize);
    return rc;
}

static int
get(void *ctx, uint64_t key, const uint8_t **bytes, size_t *size)
{
    struct lmdb_pager *p = ctx;
    uint8_t wire[8];
    MDB_val k = {.mv_size = sizeof wire, .mv_data = wire}, v;
    int code;

    if (p->renew) {
        code = mdb_cursor_renew(p->txn, p->cursor);
        if (code != 0)
            return lmdb_error(code);
        p->renew = false;
    }
    put_be64(wire, key);
    code = mdb_cursor_get(p->cursor, &k, &v, MDB_SET);
    if (code != 0)
        return lmdb_error(code);
    *bytes = v.mv_data;
    *size = v.mv_size;
    return 0;
}

/* Moves to a value that is about to be removed or replaced.  LMDB frees as many
 * pages as the value's page head says: -EBADMSG if that is damaged, because it
 * would free pages of other values.  *there is false if there is no such value;
 * then 0. */
static int
find_value(struct lmdb_pager *p, MDB_val *key, bool *there)
{
    MDB_val was;
    const int code = mdb_cursor_get(p->cursor, key, &was, MDB_SET);

    *there = code == 0;
    if (code != 0)
        return code == MDB_NOTFOUND ? 0 : lmdb_error(code);
    return pages_value_ok(p->map, was.mv_data, was.mv_size) ? 0 : -EBADMSG;
}

static int
put(void *ctx, uint64_t key, const uint8_t *bytes, size_t size)
{
    struct lmdb_pager *p = ctx;
    uint8_t wire[8];
    MDB_val k = {.mv_size = sizeof wire, .mv_data = wire};
    MDB_val v = lmdb_val(bytes, size);
    bool there;
    int rc;

    put_be64(wire, key);
    rc = find_value(p, &k, &there);
    if (rc < 0)
        return rc;
    k = (MDB_val){.mv_size = sizeof wire, .mv_data = wire};
    return lmdb_error(mdb_cursor_put(p->cursor, &k, &v, 0));
}

static int
remove_value(void *ctx, uint64_t key)
{
    struct lmdb_pager *p = ctx;
    uint8_t wire[8];
    MDB_val k = {.mv_size = sizeof wire, .mv_data = wire};
    bool there;
    int rc;

    put_be64(wire, key);
    rc = find_value(p, &k, &there);
    if (rc == 0)
        rc = there ? lmdb_error(mdb_cursor_del(p->cursor, 0)) : -EBADMSG;
    return rc;
}

struct pager
lmdb_pager(struct lmdb_pager *p)
{
    return (struct pager){
        .get = get, .put = put, .remove = remove_value, .ctx = p};
}
