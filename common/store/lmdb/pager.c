/* common/store/lmdb/pager.c - values of a tree in an LMDB database. */
#include "common/store/lmdb/pager.h"

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

static int
put(void *ctx, uint64_t key, const uint8_t *bytes, size_t size)
{
    struct lmdb_pager *p = ctx;
    uint8_t wire[8];
    MDB_val k = {.mv_size = sizeof wire, .mv_data = wire};
    MDB_val v = {.mv_size = size};

    put_be64(wire, key);
    memcpy(&v.mv_data, &bytes, sizeof bytes); /* LMDB takes no const */
    return lmdb_error(mdb_cursor_put(p->cursor, &k, &v, 0));
}

static int
remove_value(void *ctx, uint64_t key)
{
    struct lmdb_pager *p = ctx;
    uint8_t wire[8];
    MDB_val k = {.mv_size = sizeof wire, .mv_data = wire};
    int code;

    put_be64(wire, key);
    code = mdb_cursor_get(p->cursor, &k, NULL, MDB_SET);
    if (code == 0)
        code = mdb_cursor_del(p->cursor, 0);
    return lmdb_error(code);
}

struct pager
lmdb_pager(struct lmdb_pager *p)
{
    return (struct pager){
        .get = get, .put = put, .remove = remove_value, .ctx = p};
}
