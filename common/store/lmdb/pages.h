/* common/store/lmdb/pages.h - LMDB's files, read without LMDB.  Internal to
 * common/store/lmdb.
 *
 * LMDB believes what is in a file: a damaged page makes it crash, read beyond
 * the file or show an older commit.  So a file is checked here before it is
 * opened:
 *
 *     rc = pages_check_file(fd, PAGES_FOR_WRITING, &why);
 *     if (rc == 0)
 *         rc = pages_check_newest(fd, read_counter, &why);
 *     if (rc == 0)
 *         ... mdb_env_open() ...
 *
 * Only pages*.c know how LMDB lays out pages, nodes, meta pages and the lock
 * file; all other files of common/store/lmdb use LMDB's documented interface.
 *
 * No bytes that are read are trusted: any content is survived, and so is a file
 * that another process writes to, truncates or replaces meanwhile (it is read
 * into buffers, never through a map).  Nothing is written but by
 * pages_undo_commit().
 *
 * Errors: 0 or a negative errno.
 *   -EBADMSG  damaged; *why says what; a static string
 *   -ENOMEM
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_LMDB_PAGES_H
#define COUNTD_COMMON_STORE_LMDB_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes of a page at most. */
#define PAGES_SIZE_MAX 32768

/* Bytes of a database's record. */
#define PAGES_DB_SIZE 48

/* ---- meta pages (pages.c) ---------------------------------------------- */

/* One of the two meta pages.  Even transactions write the first, odd ones the
 * second. */
struct pages_meta {
    uint64_t map_size;
    uint64_t last_page;
    uint64_t txn;
    uint32_t page_size;
    uint8_t free[PAGES_DB_SIZE]; /* databases: the free list, */
    uint8_t main[PAGES_DB_SIZE]; /* the names of the others */
};

/* Reads the one that LMDB uses. */
int pages_meta(int fd, struct pages_meta *out, const char **why);

/* ---- records (pages_check.c) ------------------------------------------------- */

/* The records of the named database `db`, which are given to each(), whose bytes
 * live until it returns. */
struct pages_records {
    const char *db;
    int (*each)(void *ctx, uint8_t *key, size_t key_size, uint8_t *value,
                size_t size);
    void *ctx;
};

/* Gives them by key, as of a meta page; values in pages of their own are left out.
 * Stops on non-zero and returns that.
 *   -ENOENT   no such database
 *   -EBADMSG  damaged, or not a plain database */
int pages_each(int fd, const struct pages_meta *meta,
               const struct pages_records *asked);

/* Reads a number that each commit raises, as of a meta page, with pages_each():
 * 1, else there is none, or an error. */
typedef int pages_counter_fn(int fd, const struct pages_meta *meta,
                             uint64_t *out);

/* Checks that LMDB would use the newest commit.  A damaged transaction number
 * in a meta page makes LMDB use the commit before, which no other check would
 * notice.  LMDB keeps the pages of both commits: if the other meta page leads
 * to a higher counter (if it leads to one at all), it is the newer. -EBADMSG
 * LMDB would use an older commit
 *
 * A commit that fails in its last step leaves the same state: LMDB writes the
 * number of the commit before the last back, beside the new root.  Nothing in
 * the file distinguishes that from a bit that fell out of the number of a
 * commit on which answers rely.  So the process whose commit failed, which
 * knows, removes the state at once with pages_undo_commit(). */
int pages_check_newest(int fd, pages_counter_fn *counter, const char **why);

/* After transaction `txn` failed to commit: unless it happened after all, makes
 * both meta pages lead to the commit before it, durably, whatever the failed
 * one has left.  The caller has held the file's flock since that began.  If
 * this fails, too, only the caller's next commit repairs the file, and when the
 * caller ends before that it is refused as damaged. */
int pages_undo_commit(int fd, uint64_t txn);

/* ---- the check before a file is opened (pages_check.c) ------------------ */

/* Checks that LMDB can use a file: its meta data are consistent, and every page
 * that its newest commit reaches lies inside the file, has its own number and
 * the right type, holds its nodes inside itself, with keys in order, and is
 * reached once; free pages are not in use.
 *
 * Of overflow pages only the numbers are checked.  A large file that is not
 * truncated passes PAGES_FOR_READING unread: a crash of a process that only
 * reads costs less than the time. */
enum pages_use { PAGES_FOR_READING, PAGES_FOR_WRITING };

int pages_check_file(int fd, enum pages_use use, const char **why);

struct pages_check {
    /* Gets the first hundred faults; NULL: they are only counted. */
    void (*fault)(void *ctx, const char *text);
    void *ctx;
    bool quick;         /* do not read overflow pages */
    uint64_t used_size; /* bytes of pages in use */
    uint64_t faults;
};

/* Reads every page that the newest commit reaches; returns 0 also if there are
 * faults. */
int pages_check(int fd, struct pages_check *check);

/* ---- before a value is replaced (pages.c) ------------------------------- */

/* Reading all overflow pages takes too long for large files, so
 * pages_check_file() does not, and reading a value needs nothing of the page
 * head in front of it.  But deleting or replacing a value makes LMDB free as
 * many pages as that head says: if it is damaged, pages of other values, or
 * more than memory holds. */

/* Where LMDB has mapped a file. */
struct pages_map {
    uintptr_t start; /* 0: unknown */
    size_t size;
    size_t page_size;
};

/* Finds the map from a small value (one in a leaf) that LMDB returned in a
 * transaction that has not written yet. */
void pages_map_find(struct pages_map *map, const void *value, size_t page_size,
                    size_t map_size);

/* Whether a value that LMDB returned may be deleted or replaced.  (Not for
 * values of several pages that the same transaction wrote and then shortened:
 * LMDB leaves them all their pages.) */
bool pages_value_ok(const struct pages_map *map, const void *value,
                    size_t size);

/* ---- the lock file (pages.c) ------------------------------------------- */

/* Bytes of the lock file of an environment for `readers` readers. */
off_t pages_lock_size(unsigned readers);

#endif
