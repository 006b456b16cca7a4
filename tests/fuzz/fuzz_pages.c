/* tests/fuzz/fuzz_pages.c - any bytes as an LMDB file: what passes the check
 * can be opened, read to the last byte and written by LMDB itself; all else
 * that pages.h offers survives it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/store/lmdb/pages.h"
#include "tests/lib/random.h"

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max,
                               unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t max)
    __attribute__((weak));

#define SIZE_MAX_BYTES ((size_t)1 << 20)
#define NAMES          8
#define FUZZ_PAGE      ((size_t)4096)

static volatile uint64_t sum; /* of all that is read */

static void
read_all(const uint8_t *bytes, size_t size)
{
    uint64_t all = 0;

    for (size_t i = 0; i < size; i++)
        all += bytes[i];
    sum += all;
}

static int
take_number(void *ctx, uint8_t *key, size_t key_size, uint8_t *value,
            size_t size)
{
    if (!bytes_equal(key, key_size, "state", 5))
        return 0;
    read_all(value, size);
    if (size < sizeof(uint64_t))
        return -EBADMSG;
    memcpy(ctx, value, sizeof(uint64_t));
    return 1;
}

static int
read_number(int fd, const struct pages_meta *meta, uint64_t *out)
{
    return pages_each(fd, meta,
                      &(struct pages_records){"meta", take_number, out});
}

static void
fault(void *ctx, const char *text)
{
    (void)ctx;
    read_all((const uint8_t *)text, strlen(text));
}

/* ---- what LMDB makes of it --------------------------------------------- */

/* Reads a database from its first key to its last; all keys are found again. */
static void
read_database(MDB_txn *txn, MDB_dbi dbi)
{
    MDB_val key, value, again;
    MDB_cursor *cursor;
    int rc;

    assert(mdb_cursor_open(txn, dbi, &cursor) == 0);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        read_all(key.mv_data, key.mv_size);
        read_all(value.mv_data, value.mv_size);
        assert(mdb_get(txn, dbi, &key, &again) == 0);
        assert(again.mv_data == value.mv_data);
    }
    assert(rc == MDB_NOTFOUND);
    mdb_cursor_close(cursor);
}

/* The names of databases in the main one. */
static unsigned
list_names(MDB_txn *txn, MDB_dbi main_dbi, char names[NAMES][512])
{
    MDB_cursor *cursor;
    MDB_val key, value;
    unsigned count = 0;

    assert(mdb_cursor_open(txn, main_dbi, &cursor) == 0);
    for (int rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
         rc == 0 && count < NAMES;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        if (memchr(key.mv_data, 0, key.mv_size) != NULL)
            continue; /* cannot be asked for */
        memcpy(names[count], key.mv_data, key.mv_size);
        names[count++][key.mv_size] = '\0';
    }
    mdb_cursor_close(cursor);
    return count;
}

static void
read_databases(MDB_env *env)
{
    static char names[NAMES][512];
    MDB_dbi main_dbi, dbi;
    unsigned count;
    MDB_txn *txn;

    assert(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) == 0);
    assert(mdb_dbi_open(txn, NULL, 0, &main_dbi) == 0);
    read_database(txn, main_dbi);
    count = list_names(txn, main_dbi, names);
    for (unsigned i = 0; i < count; i++)
        if (mdb_dbi_open(txn, names[i], 0, &dbi) == 0)
            read_database(txn, dbi);
    mdb_txn_abort(txn);
}

static MDB_env *
env_open(int fd, unsigned flags)
{
    MDB_env *env;
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert(mdb_env_create(&env) == 0);
    assert(mdb_env_set_maxdbs(env, NAMES) == 0);
    if ((flags & MDB_RDONLY) == 0)
        assert(mdb_env_set_mapsize(env, (size_t)5 << 30) == 0);
    assert(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | flags, 0600) ==
           0);
    return env;
}

/* Deletes every other key of a database and puts some. */
static void
write_database(MDB_txn *txn, MDB_dbi dbi)
{
    static uint8_t bytes[9000];
    MDB_val key, value = {.mv_data = bytes};
    MDB_cursor *cursor;
    unsigned n = 0;

    assert(mdb_cursor_open(txn, dbi, &cursor) == 0);
    while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0)
        if (n++ % 2 == 0)
            assert(mdb_cursor_del(cursor, 0) == 0);
    mdb_cursor_close(cursor);
    for (n = 0; n < 20; n++) {
        key = (MDB_val){.mv_size = 2 + n, .mv_data = bytes + n};
        value =
            (MDB_val){.mv_size = n % 5 == 0 ? 9000 : n * 20, .mv_data = bytes};
        bytes[n] = (uint8_t)(n * 37);
        assert(mdb_put(txn, dbi, &key, &value, 0) == 0);
    }
}

/* Changes what is in all databases but the main one. */
static void
write_databases(MDB_env *env)
{
    static char names[NAMES][512];
    MDB_dbi main_dbi, dbi;
    unsigned count;
    MDB_txn *txn;

    assert(mdb_txn_begin(env, NULL, 0, &txn) == 0);
    assert(mdb_dbi_open(txn, NULL, 0, &main_dbi) == 0);
    count = list_names(txn, main_dbi, names);
    for (unsigned i = 0; i < count; i++)
        if (mdb_dbi_open(txn, names[i], 0, &dbi) == 0)
            write_database(txn, dbi);
    assert(mdb_txn_commit(txn) == 0);
}

/* A file whose map would be large is as good; it only takes long. */
static bool
map_is_small(int fd)
{
    struct pages_meta meta;
    const char *why;

    return pages_meta(fd, &meta, &why) == 0 &&
           meta.map_size <= (uint64_t)1 << 32 &&
           meta.last_page <= (uint64_t)1 << 20;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct pages_check all = {.fault = fault};
    const char *why = NULL;
    MDB_env *env;
    int fd, quick, full, newest;

    if (size > SIZE_MAX_BYTES)
        return 0;
    fd = memfd_create("pages", MFD_CLOEXEC);
    assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    quick = pages_check_file(fd, PAGES_FOR_WRITING, &why);
    assert(why != NULL);
    newest = pages_check_newest(fd, read_number, &why);
    full = pages_check(fd, &all);

    /* To look closer finds more. */
    assert(quick == 0 || full < 0 || all.faults > 0);
    if (quick == 0 && newest == 0 && map_is_small(fd)) {
        env = env_open(fd, MDB_RDONLY);
        read_databases(env);
        mdb_env_close(env);
    }

    /* What LMDB makes of a good file is good. */
    if (quick == 0 && full == 0 && all.faults == 0 && map_is_small(fd)) {
        for (int i = 0; i < 3; i++) {
            env = env_open(fd, MDB_NOSYNC);
            write_databases(env);
            mdb_env_close(env);
            assert(pages_check(fd, &all) == 0 && all.faults == 0);
        }
    }
    (void)close(fd);
    return 0;
}

/* Most of a page is unused or a value: changes go to the heads of pages, to
 * what they point at, and into each other. */
size_t
LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max, unsigned seed)
{
    static const size_t fields[] = {0,  8,  10, 12, 14, 16, 18, 20,  24,  32,
                                    40, 44, 46, 80, 88, 92, 94, 128, 136, 144};
    struct random r = {.state = seed};
    size_t at, width = (size_t)1 << random_below(&r, 4);
    uint64_t value;

    if (random_chance(&r, 30) || size < 2 * FUZZ_PAGE)
        return LLVMFuzzerMutate(bytes, size, max);
    at = random_below(&r, size / FUZZ_PAGE) * FUZZ_PAGE;
    if (random_chance(&r, 50)) { /* a node of a page, or what is behind it */
        uint16_t node;

        memcpy(&node, bytes + at + 16 + 2 * random_below(&r, 6), sizeof node);
        at += node % FUZZ_PAGE + 2 * random_below(&r, 40);
    } else {
        at += fields[random_below(&r, sizeof fields / sizeof fields[0])];
    }
    if (at + 8 > size)
        return size;
    memcpy(&value, bytes + at, sizeof value);
    switch (random_below(&r, 6)) {
    case 0:
        value ^= (uint64_t)1 << random_below(&r, 8 * width);
        break;
    case 1:
        value += random_below(&r, 9) - 4;
        break;
    case 2:
        value = random_below(&r, 16);
        break;
    case 3:
        value = UINT64_MAX - random_below(&r, 3);
        break;
    case 4:
        memcpy(&value, bytes + random_below(&r, size - 8) / 2 * 2, 8);
        break;
    default:
        value = random_next(&r);
    }
    memcpy(bytes + at, &value, width);
    return size;
}
