/* tests/lib/specimen.c - see specimen.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/specimen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/dirstream.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/wire/query.h"
#include "tests/lib/aside.h"
#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/filler.h"
#include "tests/lib/stored.h"
#include "tests/lib/test.h"

#define LONG_KEY  240 /* bytes: few rows fill a block */
#define MARKS     90  /* more than a page holds */
#define LOG_SLOTS 12

static const struct {
    const char *name;
    size_t keys;
    size_t key_size;
} keyspaces[SPECIMEN_NAMES] = {
    [SPECIMEN_SMALL] = {"small", 105, LONG_KEY},
    [SPECIMEN_NODES] = {"nodes", 820, LONG_KEY},
    [SPECIMEN_LONG] = {"long-long-long-long-long-long-long-long-long-long-long-"
                       "long-long-long-long-long-long-long-long-long-long-long-"
                       "long-long-long-long-long-name",
                       3, 4},
    [SPECIMEN_SICK] = {"sick", 30, LONG_KEY},
};

size_t
specimen_keys(enum specimen_keyspace k)
{
    return keyspaces[k].keys;
}

const char *
specimen_name(enum specimen_keyspace k)
{
    return keyspaces[k].name;
}

static void
put_key(enum specimen_keyspace k, size_t i, char key[257])
{
    const int n = snprintf(key, 257, "%04zu", i);

    memset(key + n, 'x', keyspaces[k].key_size - (size_t)n);
    key[keyspaces[k].key_size] = '\0';
}

/* ---- history ----------------------------------------------------------- */

#define MINUTE 28333333 /* of the logs, and the batches before them */

static uint64_t
now_ms(void)
{
    return (uint64_t)(MINUTE + 1) * 60000;
}

/* ---- batches ----------------------------------------------------------- */

struct deltas {
    struct store_delta at[SPECIMEN_KEYS];
    char keys[SPECIMEN_KEYS][257];
};

static struct store_batch
make_batch(struct deltas *d, enum specimen_keyspace k, size_t first,
           size_t last, int64_t sum)
{
    for (size_t i = first; i < last; i++) {
        char *key = d->keys[i - first];

        put_key(k, i, key);
        d->at[i - first] = stored_delta(key, keyspaces[k].key_size,
                                        MINUTE - (uint32_t)(sum % 4) * 70, sum);
    }
    return (struct store_batch){.name = (const uint8_t *)keyspaces[k].name,
                                .name_size = strlen(keyspaces[k].name),
                                .deltas = d->at,
                                .delta_count = last - first};
}

/* The mark of a later fill each time. */
static struct log_fill
make_mark(uint8_t log)
{
    static uint64_t epoch;

    /* Spread, so that marks go to pages in no order. */
    return (struct log_fill){.uuid = {(uint8_t)(log * 151u), 5, log},
                             .epoch = ++epoch,
                             .first_ms = 1700000000000};
}

int
specimen_add(struct store *store, enum specimen_keyspace k, uint8_t log,
             size_t first, size_t last, int64_t sum)
{
    static struct deltas d;
    const struct log_fill mark = make_mark(log);
    struct store_batch b = make_batch(&d, k, first, last, sum);
    struct store_applied applied;

    b.marks = &mark;
    b.mark_count = 1;
    return store_apply(store, &b, &applied);
}

/* ---- making ------------------------------------------------------------ */

static void
base_add(struct specimen *s, struct store *store, enum specimen_keyspace k,
         uint8_t log, size_t first, size_t last, int64_t sum)
{
    assert_rc(specimen_add(store, k, log, first, last, sum), 0);
    for (size_t i = first; i < last; i++)
        s->base[k][i] += sum;
}

static struct store *
open_store(const struct specimen *s, bool writable, size_t memory)
{
    struct lmdb_options options = engine_lmdb_options(s->data.keyspace_fd);
    struct store *store;

    options.writable = writable;
    options.open_max = 16;
    options.txn_memory = memory;
    options.history = engine_rules(ENGINE_TIERS);
    options.now_ms = now_ms;
    assert_rc(lmdb_store_open(&store, &options), 0);
    return store;
}

struct store *
specimen_store(const struct specimen *s, bool writable)
{
    return open_store(s, writable, writable ? (size_t)4 << 20 : 0);
}

/* Leaves a mark that is partial: the second transaction of a batch fails. */
static void
add_partly(struct specimen *s, enum specimen_keyspace k, uint8_t log)
{
    static struct deltas d;
    const struct log_fill mark = make_mark(log);
    struct store_batch b = make_batch(&d, k, 0, keyspaces[k].keys, 1000);
    struct store *store = open_store(s, true, 1);
    struct store_applied applied;
    struct store_mark_info info;
    struct store_totals totals;

    b.marks = &mark;
    b.mark_count = 1;
    assert_rc(stored_totals(store, keyspaces[k].name, &totals), 0); /* opens */
    store_read_end(store);
    fault_inject("flock", 3, EIO); /* behind lock and unlock of the first */
    assert_rc(store_apply(store, &b, &applied), -EIO);
    fault_clear();
    assert_rc(store_marks(store, &b, &info), 0);
    assert_int_equal(info.state, STORE_MARK_PARTIAL);
    for (size_t i = 0; i < keyspaces[k].keys; i++) {
        struct store_row row;

        assert_rc(stored_get(store, keyspaces[k].name, d.keys[i], &row), 0);
        s->base[k][i] = row.count;
    }

    /* That has folded most: now buffers again. */
    base_add(s, store, k, (uint8_t)(log + 1), 20, 29, 2);
    store_close(store);
}

static void
fill_keyspaces(struct specimen *s, struct store *store)
{
    for (int i = 0; i < SPECIMEN_NAMES; i++) {
        const enum specimen_keyspace k = (enum specimen_keyspace)i;
        const size_t keys = keyspaces[k].keys;

        if ((s->parts & 1u << i) == 0)
            continue;
        base_add(s, store, k, 1, 0, keys, 1);
        for (size_t n = 0; n < keys; n += 3)
            base_add(s, store, k, 2 + (n == 0), n, n + 1, 1 + (int64_t)n % 7);
        if (k == SPECIMEN_SMALL)
            for (uint8_t log = 10; log < 10 + MARKS; log++)
                base_add(s, store, k, log, log % keys, log % keys + 1, 3);
    }
}

/* Three fills wait for the keyspace that was sick. */
static void
hold_fills(struct specimen *s)
{
    static char keys[SPECIMEN_KEYS][257];
    const enum specimen_keyspace k = SPECIMEN_SICK;
    struct aside_record records[16];

    for (uint8_t log = 120; log < 123; log++) {
        const size_t last = log == 121 ? 13 : 2;
        const struct log_fill mark = make_mark(log);

        for (size_t i = 0; i < last; i++) {
            put_key(k, i, keys[i]);
            records[i] = (struct aside_record){keyspaces[k].name, keys[i], log};
            s->rest[k][i] += log;
        }
        (void)aside_put(s->data.log_fd, false, &mark, records, last,
                        mark.first_ms);
    }
}

static void
log_add(struct specimen *s, struct filler *f, enum specimen_keyspace k,
        size_t i, int64_t sum)
{
    char key[257];

    if ((s->parts & 1u << k) == 0)
        return;
    put_key(k, i, key);
    filler_add(f, keyspaces[k].name, key, sum);
    s->rest[k][i] += sum;
}

static void
make_logs(struct specimen *s, struct store *store)
{
    static struct deltas d;
    struct store_applied applied;
    struct filler f;

    /* One that was merged: what its empty log still has must not count. */
    filler_open(&f, s->data.log_fd, 2, LOG_SLOTS);
    for (int i = 0; i < SPECIMEN_NAMES; i++) {
        const enum specimen_keyspace k = (enum specimen_keyspace)i;
        struct log_fill mark = {.epoch = f.log.header.epoch,
                                .first_ms = f.received_ms};
        struct store_batch b = make_batch(&d, k, 0, 1, 77);

        if ((s->parts & 1u << i) == 0)
            continue;
        log_add(s, &f, k, 0, 77);
        s->rest[k][0] -= 77;
        s->base[k][0] += 77;
        memcpy(mark.uuid, f.log.header.uuid, 16);
        b.marks = &mark;
        b.mark_count = 1;
        assert_rc(store_apply(store, &b, &applied), 0);
    }
    filler_seal(&f);
    filler_empty(s->data.log_fd, 2);

    for (uint64_t log = 0; log < 2; log++) {
        filler_open(&f, s->data.log_fd, log, LOG_SLOTS);
        for (int i = 0; i < SPECIMEN_NAMES; i++) {
            log_add(s, &f, (enum specimen_keyspace)i, 1, 10);
            log_add(s, &f, (enum specimen_keyspace)i, 2 - log, -300);
        }
        if (log == 0)
            filler_seal(&f);
        else
            filler_die(&f);
    }
}

/* ---- files ------------------------------------------------------------- */

static void
keep_file(struct specimen *s, const char *path)
{
    struct specimen_file *f = &s->files[s->file_count];
    const size_t size = strlen(path);
    struct stat st, other;

    if (size > 5 && strcmp(path + size - 5, "-lock") == 0)
        return; /* LMDB makes it anew */
    assert_true(s->file_count < SPECIMEN_FILES);
    assert_int_equal(fstatat(s->dir.fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    *f = (struct specimen_file){.mode = st.st_mode & 07777, .link_of = -1};
    (void)snprintf(f->path, sizeof f->path, "%s", path); /* short */
    f->bytes = file_bytes(file_path(s->dir.path, "%s", path), &f->size);
    for (int i = 0; i < s->file_count; i++)
        if (fstatat(s->dir.fd, s->files[i].path, &other, 0) == 0 &&
            other.st_ino == st.st_ino)
            f->link_of = i;
    s->file_count++;
}

/* Calls `file` for each regular file of the data directory. */
static void
each_file(struct specimen *s,
          void (*file)(struct specimen *s, const char *path))
{
    static const char *const folders[] = {".", "keyspace", "log/waiting",
                                          "log"};
    char paths[64][200];
    const char *name;
    size_t count = 0;
    struct stat st;
    DIR *dir;

    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (dirstream_open(s->dir.fd, folders[i], &dir) == -ENOENT)
            continue;
        while (dirstream_next(dir, &name) > 0) {
            assert_true(count < 64);
            (void)snprintf(paths[count], 200, "%s%s%.170s",
                           i > 0 ? folders[i] : "", i > 0 ? "/" : "", name);
            if (fstatat(s->dir.fd, paths[count], &st, AT_SYMLINK_NOFOLLOW) ==
                    0 &&
                S_ISREG(st.st_mode))
                count++;
        }
        (void)closedir(dir);
    }
    for (size_t i = 0; i < count; i++)
        file(s, paths[i]);
}

void
specimen_make(struct specimen *s, unsigned parts)
{
    struct store *store;

    memset(s, 0, sizeof *s);
    s->parts = parts;
    tmpdir_make_in_memory(&s->dir);
    assert_rc(datadir_open(&s->data, s->dir.path, DATADIR_WRITE), 0);
    store = specimen_store(s, true);
    fill_keyspaces(s, store);
    if ((parts & SPECIMEN_LOGS) != 0)
        make_logs(s, store);
    store_close(store);
    if ((parts & 1u << SPECIMEN_SMALL) != 0)
        add_partly(s, SPECIMEN_SMALL, 200);
    if ((parts & 1u << SPECIMEN_SICK) != 0)
        hold_fills(s);
    each_file(s, keep_file);
}

void
specimen_fini(struct specimen *s)
{
    for (int i = 0; i < s->file_count; i++)
        free(s->files[i].bytes);
    datadir_close(&s->data);
    tmpdir_remove(&s->dir);
}

int
specimen_find(const struct specimen *s, const char *path)
{
    for (int i = 0; i < s->file_count; i++)
        if (strcmp(s->files[i].path, path) == 0)
            return i;
    return -1;
}

static void
remove_file(struct specimen *s, const char *path)
{
    (void)unlinkat(s->dir.fd, path, 0); /* it may be gone */
}

void
specimen_restore(struct specimen *s)
{
    each_file(s, remove_file);
    for (int i = 0; i < s->file_count; i++)
        if (s->files[i].link_of < 0)
            specimen_restore_file(s, i);
        else
            assert_int_equal(linkat(s->dir.fd,
                                    s->files[s->files[i].link_of].path,
                                    s->dir.fd, s->files[i].path, 0),
                             0);
}

void
specimen_restore_file(const struct specimen *s, int file)
{
    const struct specimen_file *f = &s->files[file];

    tmpdir_put(&s->dir, f->path, f->bytes, f->size, f->mode);
}

void
specimen_flip(const struct specimen *s, int file, size_t at, size_t size,
              uint8_t mask)
{
    const struct specimen_file *f = &s->files[file];
    uint8_t bytes[4096];

    assert_true(size <= sizeof bytes && at + size <= f->size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = f->bytes[at + i] ^ mask;
    file_write(file_path(s->dir.path, "%s", f->path), (off_t)at, bytes, size);
}

/* ---- comparing --------------------------------------------------------- */

/* One by one, from the tree of keys. */
static bool
keys_are_right(struct store *store, enum specimen_keyspace k,
               const int64_t *want)
{
    struct store_row row;
    char key[257];

    for (size_t i = 0; i < keyspaces[k].keys; i++) {
        put_key(k, i, key);
        if (stored_get(store, keyspaces[k].name, key, &row) < 0 ||
            row.count != want[i])
            return false;
    }
    return true;
}

/* All at once, from the tree of ranks. */
static bool
ranks_are_right(struct store *store, enum specimen_keyspace k,
                const int64_t *want)
{
    static uint8_t bytes[SPECIMEN_KEYS * (QUERY_ROW_SIZE + 256)];
    const int rows = stored_range(store, keyspaces[k].name, 0, SPECIMEN_KEYS,
                                  bytes, sizeof bytes);
    const uint8_t *at = bytes;
    int64_t last = INT64_MAX;
    char key[257];

    if (rows < 0 || (size_t)rows != keyspaces[k].keys)
        return false;
    for (int i = 0; i < rows; i++) {
        const size_t size = get_le16(at + 8);
        size_t n;

        memcpy(key, at + QUERY_ROW_SIZE, 4);
        key[4] = '\0';
        n = strtoul(key, NULL, 10);
        put_key(k, n < keyspaces[k].keys ? n : 0, key);
        if (n >= keyspaces[k].keys || size != keyspaces[k].key_size ||
            memcmp(at + QUERY_ROW_SIZE, key, size) != 0 ||
            get_le64s(at) != want[n] || want[n] > last)
            return false;
        last = want[n];
        at += QUERY_ROW_SIZE + size;
    }
    return true;
}

static bool
totals_are_right(struct store *store, enum specimen_keyspace k,
                 const int64_t *want)
{
    struct store_totals t;
    int64_t sum = 0;

    if (stored_totals(store, keyspaces[k].name, &t) < 0)
        return false;
    for (size_t i = 0; i < keyspaces[k].keys; i++)
        sum += want[i];
    return t.keys == keyspaces[k].keys && t.sum == sum && t.saturated == 0;
}

/* Whether `sum` came for a key (NULL: for all) in the days of the specimen. */
static bool
has_come(struct store *store, enum specimen_keyspace k, const char *key,
         int64_t sum)
{
    const uint32_t day = MINUTE / 1440 * 1440;
    struct store_bucket b;
    struct store_history_query q = {
        .op = key != NULL ? STORE_HISTORY_KEY : STORE_HISTORY_KEYSPACE,
        .name = (const uint8_t *)keyspaces[k].name,
        .name_size = strlen(keyspaces[k].name),
        .key = (const uint8_t *)key,
        .key_size = keyspaces[k].key_size,
        .from = day - 1440,
        .to = day + 1440,
        .step = 2880,
        .buckets = &b,
    };
    const int rc = store_history(store, &q, 0);

    store_read_end(store);
    return rc == 0 && b.sum == sum;
}

/* All that was counted is in history, for each key and together. */
static bool
history_is_right(struct store *store, enum specimen_keyspace k,
                 const int64_t *want)
{
    int64_t all = 0;
    char key[257];

    for (size_t i = 0; i < keyspaces[k].keys; i++) {
        put_key(k, i, key);
        all += want[i];
        if (!has_come(store, k, key, want[i]))
            return false;
    }
    return has_come(store, k, NULL, all);
}

bool
specimen_is_right(struct store *store, enum specimen_keyspace k,
                  const int64_t *want)
{
    /* All four are asked: what a daemon reports may be of the last one only. */
    bool right = totals_are_right(store, k, want);

    right = ranks_are_right(store, k, want) && right;
    right = keys_are_right(store, k, want) && right;
    return history_is_right(store, k, want) && right;
}
