/* common/store/lmdb/check.c - common/store/lmdb/lmdb.h on LMDB: check,
 * marks, copy. */
#include "common/store/lmdb/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Adds up rows so that two orders of the same rows give the same. */
struct tally {
    uint64_t rows;
    uint64_t hash[2];
    int128 sum;
    uint64_t saturated;
};

struct check {
    struct lmdb *store;
    struct keyspace *keyspace;
    struct store_check_result *result;
    void (*fault)(void *ctx, const char *text);
    void *ctx;
    struct keyspace_state state;
    struct tally tally; /* of the order at hand */
};

static void
tell(void *ctx, const char *text)
{
    struct check *c = ctx;

    c->result->faults++;
    c->fault(c->ctx, text);
}

static void
tally_row(void *ctx, const struct row *r)
{
    static const uint8_t no_key[16];
    struct check *c = ctx;
    struct tally *t = &c->tally;
    uint8_t bytes[8 + BLOCK_KEY_MAX], hash[16];

    put_le64s(bytes, r->count);
    memcpy(bytes + 8, r->key, r->key_size);
    siphash128(no_key, bytes, 8u + r->key_size, hash);
    t->hash[0] += get_le64(hash);
    t->hash[1] += get_le64(hash + 8);
    t->rows++;
    t->sum += r->count;
    t->saturated += (r->flags & BLOCK_SATURATED) != 0 ? 1 : 0;
}

static int
check_order(struct check *c, enum block_order kind, MDB_cursor *cursor,
            const struct order_root *root)
{
    struct order_check oc = {.fault = tell, .row = tally_row, .ctx = c};
    struct order o = {
        .txn = c->keyspace->reader,
        .cursor = cursor,
        .kind = kind,
        .root = *root,
    };
    int rc;

    c->tally = (struct tally){.rows = 0};
    rc = order_error(mdb_cursor_renew(c->keyspace->reader, cursor));
    if (rc == 0)
        rc = order_check(&o, &oc);
    c->result->blocks += oc.blocks;
    return rc;
}

/* Both orders against each other and against the totals. */
static int
check_orders(struct check *c)
{
    struct tally keys;
    int rc;

    rc = check_order(c, BLOCK_KEYS, c->keyspace->keys_cursor, &c->state.keys);
    keys = c->tally;
    if (rc == 0)
        rc = check_order(c, BLOCK_RANKS, c->keyspace->ranks_cursor,
                         &c->state.ranks);
    if (rc < 0)
        return rc;
    c->result->keys = keys.rows;
    if (keys.rows != c->tally.rows || keys.hash[0] != c->tally.hash[0] ||
        keys.hash[1] != c->tally.hash[1])
        tell(c, "keys and ranks do not hold the same rows");
    if (keys.rows != c->state.keys.count)
        tell(c, "the number of keys is not what the totals say");
    if (keys.sum != c->state.sum)
        tell(c, "the sum is not what the totals say");
    if (keys.saturated != c->state.saturated)
        tell(c, "the saturated keys are not what the totals say");
    return 0;
}

/* Calls `record` for each record of the meta database. */
static int
each_record(const struct keyspace *k,
            int (*record)(void *ctx, const MDB_val *key, const MDB_val *value),
            void *ctx)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    int rc, code;

    rc = order_error(mdb_cursor_open(k->reader, k->meta, &cursor));
    if (rc < 0)
        return rc;
    code = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    while (code == 0 && rc == 0) {
        rc = record(ctx, &key, &value);
        if (rc == 0)
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    if (rc != 0)
        return rc;
    return code == MDB_NOTFOUND ? 0 : order_error(code);
}

static bool
is_mark(const MDB_val *key)
{
    return key->mv_size == 17 && *(const uint8_t *)key->mv_data == 'm';
}

static bool
is_text(const MDB_val *key, const char *text)
{
    return key->mv_size == strlen(text) &&
           memcmp(key->mv_data, text, key->mv_size) == 0;
}

static int
check_record(void *ctx, const MDB_val *key, const MDB_val *value)
{
    struct check *c = ctx;
    struct keyspace_mark m;

    if (is_mark(key)) {
        c->result->marks++;
        if (keyspace_mark_parse(key, value, &m) < 0)
            tell(c, "meta: a mark is damaged");
    } else if (!is_text(key, "name") && !is_text(key, "state")) {
        tell(c, "meta: a record of unknown kind");
    }
    return 0;
}

/* The pages, before LMDB reads any of them.  1: they are bad, go no further. */
static int
check_pages(struct check *c, const char *file)
{
    struct pages_check pages = {.fault = tell, .ctx = c};
    struct pages_meta meta;
    struct stat st;
    const char *why;
    int fd, rc;

    fd = openat(c->store->options.keyspace_fd, file,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    rc = fstat(fd, &st) < 0 ? -errno : 0;
    why = "it is not a regular file";
    if (rc == 0)
        rc = S_ISREG(st.st_mode) ? pages_meta(fd, 0, &meta, &why) : -EBADMSG;
    if (rc == 0)
        rc = keyspace_file_newest(fd, &why);
    if (rc == -EBADMSG) {
        tell(c, why);
        rc = 1;
    }
    if (rc == 0)
        rc = pages_check(fd, &pages);
    if (rc == 0 && fstat(fd, &st) < 0) /* it may have grown */
        rc = -errno;
    (void)close(fd); /* only read */
    if (rc != 0)
        return rc;
    c->result->file_size = (uint64_t)st.st_size;
    c->result->used_size = pages.used_size;
    return pages.faults > 0 ? 1 : 0;
}

static int
check_contents(struct check *c)
{
    int rc;

    rc = keyspace_read(c->keyspace);
    if (rc < 0)
        return rc;
    rc = keyspace_state_get(c->keyspace->reader, c->keyspace->meta, &c->state);
    if (rc == -EBADMSG) {
        tell(c, "meta: the state record is damaged");
        rc = 0;
    } else if (rc == 0) {
        rc = check_orders(c);
    }
    if (rc == 0)
        rc = each_record(c->keyspace, check_record, c);
    keyspace_read_end(c->keyspace);
    return rc;
}

int
lmdb_check(struct lmdb *s, const uint8_t *name, size_t name_size,
           void (*fault)(void *ctx, const char *text), void *ctx,
           struct store_check_result *out)
{
    struct check c = {.store = s, .result = out, .fault = fault, .ctx = ctx};
    char file[KEYSPACE_FILE_SIZE];
    int rc;

    if (name_size < 1 || name_size > NAME_MAX_SIZE)
        return -EINVAL;
    *out = (struct store_check_result){.keys = 0};
    name_to_file(name, name_size, s->options.hash_key, file);
    memcpy(file + strlen(file), KEYSPACE_SUFFIX, sizeof KEYSPACE_SUFFIX);
    rc = check_pages(&c, file);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &c.keyspace);
    if (rc == -EBADMSG || rc == -EPROTONOSUPPORT) {
        tell(&c, "not a keyspace this program can open");
        return 0;
    }
    if (rc < 0)
        return rc;
    return check_contents(&c);
}

struct each_mark {
    int (*mark)(void *ctx, const struct store_mark *m,
                const struct lmdb_mark_info *info);
    void *ctx;
};

static int
give_mark(void *ctx, const MDB_val *key, const MDB_val *value)
{
    const struct each_mark *each = ctx;
    struct lmdb_mark_info info = {.state = STORE_MARK_DONE};
    struct keyspace_mark found;
    struct store_mark m;
    int rc;

    if (!is_mark(key))
        return 0;
    rc = keyspace_mark_parse(key, value, &found);
    if (rc < 0)
        return rc;
    memcpy(m.uuid, (const uint8_t *)key->mv_data + 1, sizeof m.uuid);
    m.epoch = found.epoch;
    m.first_ms = found.first_ms;
    if (!found.done) {
        info.state = STORE_MARK_PARTIAL;
        info.last_key_size = found.last_key_size;
        memcpy(info.last_key, found.last_key, found.last_key_size);
    }
    return each->mark(each->ctx, &m, &info);
}

int
lmdb_each_mark(struct lmdb *s, const uint8_t *name, size_t name_size,
               int (*mark)(void *ctx, const struct store_mark *m,
                           const struct lmdb_mark_info *info),
               void *ctx)
{
    struct each_mark each = {.mark = mark, .ctx = ctx};
    struct keyspace *k;
    int rc;

    if (name_size < 1 || name_size > NAME_MAX_SIZE)
        return -EINVAL;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    rc = keyspace_read(k);
    if (rc < 0)
        return rc;
    rc = each_record(k, give_mark, &each);
    keyspace_read_end(k);
    return rc;
}

/* Writes the copy; without compaction when LMDB refuses that, as it does for
 * files in which pages have got lost. */
static int
copy_to(struct keyspace *k, int fd)
{
    int code;

    code = mdb_env_copyfd2(k->env, fd, MDB_CP_COMPACT);
    if (code == MDB_INCOMPATIBLE) {
        if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
            return -errno;
        code = mdb_env_copyfd2(k->env, fd, 0);
    }
    return order_error(code);
}

int
lmdb_copy(struct lmdb *s, const uint8_t *name, size_t name_size, int to_fd)
{
    char temp[KEYSPACE_FILE_SIZE];
    struct keyspace *k;
    int fd, rc;

    if (name_size < 1 || name_size > NAME_MAX_SIZE)
        return -EINVAL;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    fd = keyspace_file_temp(to_fd, temp);
    if (fd < 0)
        return fd;
    rc = copy_to(k, fd);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (rc == 0)
        rc = keyspace_file_rename(to_fd, temp, k->file);
    if (rc < 0)
        (void)unlinkat(to_fd, temp, 0); /* a left over one is no copy */
    if (rc == 0 && fsync(to_fd) < 0)
        rc = -errno;
    (void)close(fd); /* synced above */
    return rc;
}
