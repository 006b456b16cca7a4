/* tests/lib/stored.c - see stored.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/stored.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/wire/query.h"
#include "tests/lib/test.h"

int
stored_apply(struct store *s, const char *name, const struct log_fill *mark,
             const struct store_delta *deltas, size_t count)
{
    const struct store_batch batch = {.name = (const uint8_t *)name,
                                      .name_size = strlen(name),
                                      .marks = mark,
                                      .mark_count = mark ? 1 : 0,
                                      .deltas = deltas,
                                      .delta_count = count};
    struct store_applied applied;

    return store_apply(s, &batch, &applied);
}

int
stored_add(struct store *s, const char *name, const struct log_fill *mark,
           const char *key, int64_t sum)
{
    const struct store_delta d = stored_delta(key, strlen(key), 0, sum);

    return stored_apply(s, name, mark, &d, 1);
}

int
stored_marks(struct store *s, const char *name, const struct log_fill *marks,
             size_t count, struct store_mark_info *infos)
{
    const struct store_batch batch = {.name = (const uint8_t *)name,
                                      .name_size = strlen(name),
                                      .marks = marks,
                                      .mark_count = count};

    return store_marks(s, &batch, infos);
}

int
stored_del(struct store *s, const char *name, const struct store_key *keys,
           size_t count, uint64_t *deleted)
{
    struct store_deletion d = {.name = (const uint8_t *)name,
                               .name_size = strlen(name),
                               .keys = keys,
                               .count = count,
                               .deleted = *deleted};
    const int rc = store_del(s, &d);

    *deleted = d.deleted;
    return rc;
}

void
print_fault(void *ctx, const char *text)
{
    (void)ctx; /* none is needed */
    print_error("fault: %s\n", text);
}

/* Asks one question. */
static int
ask_one(struct store *s, struct store_query *q, uint8_t *bytes, size_t size)
{
    const int rc = store_read(s, q, bytes, size);

    store_read_end(s);
    return rc;
}

static struct store_query
query_of(enum store_op op, const char *name)
{
    return (struct store_query){
        .op = op, .name = (const uint8_t *)name, .name_size = strlen(name)};
}

int
stored_get(struct store *s, const char *name, const char *key,
           struct store_row *row)
{
    struct store_query q = query_of(STORE_GET, name);
    int rc;

    q.key = (const uint8_t *)key;
    q.key_size = strlen(key);
    rc = ask_one(s, &q, NULL, 0);
    if (rc == 0)
        *row = q.row;
    return rc;
}

int
stored_totals(struct store *s, const char *name, struct store_totals *out)
{
    struct store_query q = query_of(STORE_TOTAL, name);
    const int rc = ask_one(s, &q, NULL, 0);

    if (rc == 0)
        *out = q.totals;
    return rc;
}

int
stored_range(struct store *s, const char *name, int64_t offset, uint64_t length,
             uint8_t *bytes, size_t size)
{
    struct store_query q = query_of(STORE_RANGE, name);
    int rc;

    q.offset = offset;
    q.length = length;
    rc = ask_one(s, &q, bytes, size);
    return rc < 0 ? rc : (int)q.rows;
}

int
stored_keys(struct store *s, const char *name, int64_t offset,
            const char *prefix, const char *after, uint64_t length,
            uint8_t *bytes, size_t size)
{
    struct store_query q = query_of(STORE_KEYS, name);
    int rc;

    q.offset = offset;
    q.prefix = (const uint8_t *)prefix;
    q.prefix_size = strlen(prefix);
    q.after = (const uint8_t *)after;
    q.after_size = strlen(after);
    q.length = length;
    rc = ask_one(s, &q, bytes, size);
    return rc < 0 ? rc : (int)q.rows;
}

/* Gives the rows of one piece. */
static int
give_rows(struct store *s, const char *name, const uint8_t *at, int rows,
          int (*row)(void *ctx, const uint8_t *key, size_t key_size,
                     const struct store_row *r),
          void *ctx)
{
    char key[STORE_NAME_MAX + 1];
    struct store_row found;
    int rc = 0;

    for (int i = 0; rc == 0 && i < rows; i++) {
        const size_t size = get_le16(at + 8);

        memcpy(key, at + QUERY_ROW_SIZE, size);
        key[size] = '\0';
        rc = stored_get(s, name, key, &found); /* the row has no flag */
        if (rc == 0 && found.count != get_le64s(at))
            return -EBADMSG;
        if (rc == 0)
            rc = row(ctx, at + QUERY_ROW_SIZE, size, &found);
        at += QUERY_ROW_SIZE + size;
    }
    return rc;
}

int
stored_each(struct store *s, const char *name,
            int (*row)(void *ctx, const uint8_t *key, size_t key_size,
                       const struct store_row *r),
            void *ctx)
{
    const size_t room =
        QUERY_ROWS_MAX * (size_t)(QUERY_ROW_SIZE + STORE_NAME_MAX);
    uint8_t *bytes = test_memory(malloc(room));
    int64_t offset = 0;
    int rows, rc = 0;

    do {
        rows = stored_range(s, name, offset, QUERY_ROWS_MAX, bytes, room);
        if (rows > 0)
            rc = give_rows(s, name, bytes, rows, row, ctx);
        offset += rows;
    } while (rc == 0 && rows == QUERY_ROWS_MAX);
    free(bytes);
    return rows < 0 ? rows : rc;
}

void
stored_open(struct stored_dir *s, const char *path, uint64_t (*now_ms)(void))
{
    struct lmdb_options options = {.keyspace_size = 256,
                                   .key_size = 256,
                                   .open_max = 64,
                                   .now_ms = now_ms};

    assert_rc(datadir_open(&s->dir, path, DATADIR_READ), 0);
    options.keyspace_fd = s->dir.keyspace_fd;
    assert_rc(lmdb_store_open(&s->store, &options), 0);
}

void
stored_write(struct stored_dir *s, const char *path, const char *tiers)
{
    struct lmdb_options options = {.keyspace_size = 256,
                                   .key_size = 256,
                                   .writable = true,
                                   .open_max = 8,
                                   .txn_memory = (size_t)256 << 20};
    const char *why;

    s->history = (struct tiers_rules){.all = {.count = 0}};
    if (tiers) {
        assert_rc(tiers_rules_set(&s->history, NULL, tiers, &why), 0);
        options.history = &s->history;
    }
    assert_rc(datadir_open(&s->dir, path, DATADIR_WRITE), 0);
    options.keyspace_fd = s->dir.keyspace_fd;
    assert_rc(lmdb_store_open(&s->store, &options), 0);
}

void
stored_close(struct stored_dir *s)
{
    store_close(s->store);
    datadir_close(&s->dir);
}

int64_t
stored_count(const char *path, const char *name, const char *key)
{
    struct store_row row = {.count = INT64_MIN};
    struct stored_dir s;
    int rc;

    stored_open(&s, path, NULL);
    rc = stored_get(s.store, name, key, &row);
    if (rc != -ENOENT)
        assert_rc(rc, 0);
    stored_close(&s);
    return row.count;
}
