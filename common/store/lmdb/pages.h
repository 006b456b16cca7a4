/* common/store/lmdb/pages.h - LMDB's files, read without LMDB.  Internal to
 * this room.
 *
 * LMDB believes what is in a file: a damaged page makes it crash, read beyond
 * the file or show an older commit.  So whoever opens a file has it looked at
 * here first:
 *
 *     rc = pages_check_file(fd, PAGES_FOR_WRITING, &why);
 *     if (rc == 0)
 *         rc = pages_check_newest(fd, &counter, &why);
 *     if (rc == 0)
 *         ... mdb_env_open() ...
 *
 * Only pages*.c know how LMDB lays out pages, nodes, meta pages and the lock
 * file; all else in this room uses LMDB's documented interface.
 *
 * Nothing that is read is believed: any bytes are survived, and so is a file
 * that others write to, cut or replace meanwhile (it is read into buffers,
 * never through a map).  Nothing is written.
 *
 * Errors: 0 or a negative errno.
 *   -EBADMSG  damaged; *why says what, in words that live for ever
 *   -ENOMEM
 */
#ifndef COUNTD_COMMON_STORE_LMDB_PAGES_H
#define COUNTD_COMMON_STORE_LMDB_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes of a page at most, and of a buffer for one. */
#define PAGES_SIZE_MAX 32768

/* Bytes of a database's record. */
#define PAGES_DB_SIZE 48

/* ---- meta pages (pages.c) ---------------------------------------------- */

/* One of the two meta pages.  Transactions take turns: those of an even number
 * write the first one. */
struct pages_meta {
    uint64_t map_size;
    uint64_t last_page;
    uint64_t txn;
    uint32_t page_size;
    uint8_t free[PAGES_DB_SIZE]; /* databases: the free list, */
    uint8_t main[PAGES_DB_SIZE]; /* the names of the others */
};

/* Reads both. */
int pages_metas(int fd, struct pages_meta metas[2], const char **why);

/* Which of the two LMDB goes on from. */
unsigned pages_newest(const struct pages_meta metas[2]);

/* Reads the meta page of transaction `txn` (0: the newest).
 *   -EAGAIN  that transaction's is no longer there */
int pages_meta(int fd, uint64_t txn, struct pages_meta *out, const char **why);

/* ---- finding (pages.c) ------------------------------------------------- */

/* The value of `key` in the named database `db`, as of a meta page: in `page`,
 * a buffer of PAGES_SIZE_MAX bytes.
 *   -ENOENT   no such database or key
 *   -EBADMSG  damaged, or not a value in a leaf of a plain database */
int pages_find(int fd, const struct pages_meta *meta, const char *db,
               const char *key, uint8_t *page, uint8_t **value, size_t *size);

/* A number in the value of `key` in the database `db` that no commit lowers. */
struct pages_counter {
    const char *db;
    const char *key;
    /* Reads it; false when the value is not whole. */
    bool (*get)(const uint8_t *value, size_t size, uint64_t *out);
};

/* Whether LMDB goes on from the newest commit.  A damaged transaction number in
 * a meta page makes it take the one before, and nothing else would tell.  LMDB
 * keeps the pages of both commits, so if the other meta page leads to a higher
 * counter (if it leads to one at all), it is the newer.
 *   -EBADMSG  an older commit would be taken for the newest
 *
 * A commit that failed in its last step leaves that, too: its root under the
 * number of the commit before the last.  Only the process whose commit that was
 * may go on, as it knows that nobody relies on it; another commit mends it. */
int pages_check_newest(int fd, const struct pages_counter *counter,
                       const char **why);

/* ---- the check before a file is opened (pages_check.c) ------------------ */

/* Whether LMDB can use a file: what it says of itself makes sense, and every
 * page that its newest commit reaches lies inside the file, knows its own
 * number, is of the right type, holds its nodes inside itself, with keys in
 * order, and is reached once; free pages are not in use.
 *
 * Of values that have pages of their own it is only looked at where they are,
 * but FOR_DELETING reads those pages, too.  A large file that is all there is
 * believed FOR_READING: a crash of who only reads costs less than the time. */
enum pages_use { PAGES_FOR_READING, PAGES_FOR_WRITING, PAGES_FOR_DELETING };

int pages_check_file(int fd, enum pages_use use, const char **why);

struct pages_check {
    /* Gets the first hundred faults; NULL: they are only counted. */
    void (*fault)(void *ctx, const char *text);
    void *ctx;
    bool quick; /* do not look at pages that only hold a part of a value */
    uint64_t used_size; /* bytes of pages in use */
    uint64_t faults;
};

/* Reads every page that the newest commit reaches; 0 also with faults. */
int pages_check(int fd, struct pages_check *check);

/* The same of a file by its name, once it is a regular one and its newest
 * commit is what LMDB would take; *size: bytes of it.  1: there are faults.
 * -ENOENT. */
int pages_check_named(int dir_fd, const char *file,
                      const struct pages_counter *counter,
                      struct pages_check *check, uint64_t *size);

/* ---- before a value is replaced (pages.c) ------------------------------- */

/* To look at all values that have pages of their own takes too long where files
 * are large, so pages_check_file() does not, and to read one needs nothing of
 * what is in front of it.  But who deletes or replaces one makes LMDB give as
 * many pages free, from the number on, as that says: other people's, or more
 * than memory holds. */

/* Where LMDB has a file in memory. */
struct pages_map {
    uintptr_t start; /* 0: cannot tell */
    size_t size;
    size_t page_size;
};

/* From a small value, one in a leaf, that LMDB gave in a transaction that has
 * not written yet. */
void pages_map_find(struct pages_map *map, const void *value, size_t page_size,
                    size_t map_size);

/* Whether a value that LMDB gave may be deleted or replaced.  (Not for values
 * of several pages that one transaction wrote and then made shorter: LMDB
 * leaves them all their pages.) */
bool pages_value_ok(const struct pages_map *map, const void *value,
                    size_t size);

/* ---- the lock file (pages.c) ------------------------------------------- */

/* Bytes of the lock file of an environment for so many readers. */
off_t pages_lock_size(unsigned readers);

#endif
