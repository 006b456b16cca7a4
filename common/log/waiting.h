/* common/log/waiting.h - log/waiting/: fills of logs that not every keyspace
 * has merged.
 *
 *     held-FIRSTMS-RRRRRRRR.gz    of the logs of one batch: the records that
 *                                 some keyspaces did not take
 *     placed-FIRSTMS-RRRRRRRR.gz  a fill that a command brought
 *     bad-...                     was damaged: kept, an operator's to remove
 *     %t...                       being written; removed by who lists when its
 *                                 flock is free
 *
 * A fill is a member of a file (archive_file.h), under the name that its log
 * gave it: uuid, epoch, first_ms.  Workers merge it by the path of full logs,
 * and remove the file when all keyspaces that it names have all its fills.
 * FIRSTMS is that of the oldest fill, RRRRRRRR is random: no name is given
 * twice, so removing one never hits another file.  A file is complete when it
 * has its name and never changes, so what does not check is damage.
 *
 * The rules that keep each fill counted once, although several workers may be
 * killed anywhere, and keyspaces refuse, heal and are put back older:
 *
 * R1 One name.  A waiting fill is applied by store_apply() under its own name.
 *    A worker may have committed it to a keyspace and died before that became
 *    unreadable: only the fill's own mark shows that then.  A partial mark goes
 *    on where it is, since the records of each key are the same.
 * R2 Claim, then list.  A worker claims its logs, then lists the folder, and
 *    merges no log that it claimed later: the list could lack what the log's
 *    last owner put here.
 * R3 Order of each log.  A keyspace takes fill (u, n) only if no listed fill
 *    (u, m < n) names it that its marks do not show; else (u, n) waits for it,
 *    too.  A mark says up to which fill a log is in, so a later one would hide
 *    the earlier.  A folder is read until nothing new is found, since one
 *    reading may meet a later fill that came meanwhile and not the earlier.
 *    With it: a keyspace has (u, m) if and only if its mark of u is at m or
 *    later, also in a file that was put back.
 * R4 Before a log is EMPTY, a file here is durable, its name included, for
 *    every keyspace that neither took the fill nor is named for it by another
 *    durable file.  EMPTY itself needs no sync: a log that comes back is merged
 *    again, and the marks answer.
 * R5 A file is removed when each keyspace that it names has all its fills,
 *    durably.  Removing needs no sync: a file that comes back is removed again.
 * R6 Replacing files (to join them, to leave a keyspace out) takes the folder's
 *    flock, exclusive, and that of each old file: the new one is durable, then
 *    the old name goes.  Who lists has the folder's flock shared, only while it
 *    reads, since a list that is being made can miss both.  It never waits for
 *    it, so processes never wait in a circle.
 * R7 A drop waits for the logs, syncs them, leaves the keyspace out here and
 *    syncs the folder, and then empties it: a file that comes back would bring
 *    back what was dropped.
 * R8 The file of an empty keyspace, and its marks with it, goes only if no file
 *    here names it after a sync of the folder, and while no backup runs: the
 *    marks say what is in.
 * R9 A backup copies live/requests, waits until what the logs had is merged or
 *    here, copies this folder, then the keyspaces.  What leaves the folder in
 *    between is in the later copy of its keyspace.  It waits once more, and then
 *    places in the folder of the copy, for the keyspaces that lack it there, each
 *    fill that was merged meanwhile (common/log/kept.h): the copy has all of a
 *    fill or nothing, and its requests are copied or not.  Fills that were
 *    dropped in between neither wait here then nor are in their keyspace: the copy
 *    leaves them out, too.
 * R10 A command places fills in order of time, and those of one log by epoch,
 *    each name durable before the next: workers merge beside it, and a later
 *    fill that comes first would hide an earlier one.
 * R11 While keyspace/ is older than log/ only placed files are merged, by the
 *    worker of the command that placed all of them: what a log or a held file
 *    has goes behind what is missing.
 *
 * An index of all fills and names is in memory: 110 bytes a fill, 24 for each
 * name in it, each name once.  Files never change, so each is read once.
 *
 * Ownership: struct waiting is the caller's between open and close; one thread
 * changes it.  Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_WAITING_H
#define COUNTD_COMMON_LOG_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/name_table.h"
#include "common/log/archive_file.h"
#include "common/log/log_fill.h"

#define WAITING_FOLDER     "waiting" /* in log/ */
#define WAITING_BAD        "bad-"
#define WAITING_NAME_SIZE  64
#define WAITING_NONE       NAME_TABLE_NONE
#define WAITING_JOIN_COUNT 64 /* more small held files than these are joined */
#define WAITING_JOIN_SIZE  (UINT64_C(256) << 10) /* a small one is below */

struct waiting_file {
    char name[WAITING_NAME_SIZE];
    uint64_t size;
    uint64_t since_ms; /* Unix time when its first fill was set aside */
    bool placed;
    bool damaged;                      /* a member is: waiting_repair() */
    bool listed;                       /* is in the folder */
    int lock_fd;                       /* has its flock, to read it; -1 */
    struct waiting_fill *first, *last; /* those in it that can be read */
    uint32_t fills;
    uint32_t left; /* parts that are not known to be in: waiting_sweep() */
};

struct waiting_fill {
    struct log_fill id;
    struct waiting_file *file;
    struct waiting_fill *next; /* behind it in the file */
    struct archive_member member;
    uint32_t count;  /* records */
    uint32_t number; /* its place in the index */
    uint32_t tried;  /* the pass that tried it */
    bool wanted;     /* waiting_sweep() */
    bool copied;     /* into the file that replaces its own */
};

/* A keyspace of a fill; sorted by name, then fill. */
struct waiting_part {
    struct waiting_fill *fill;
    uint32_t name;
    uint32_t increments;
    bool in; /* durably in the keyspace, as this handle knows */
};

struct waiting_index {
    struct waiting_fill **fills; /* sorted by log_fill_compare() */
    struct waiting_part *parts;
    size_t fill_count, fill_capacity, part_count, part_capacity;
};

struct waiting {
    int log_fd;    /* borrowed */
    int dir_fd;    /* -1: there is no folder yet */
    bool writable; /* may remove, write, replace */
    bool placed;   /* placed files are indexed, too */
    bool locked;   /* has the folder, exclusive */
    uint64_t max;  /* bytes of held files; 0: no limit */

    struct waiting_index index;
    struct waiting_file **files; /* sorted by name */
    size_t file_count, file_capacity, sorted_count;
    /* Never removed while any waits; a note is the pass in which the keyspace
     * refused. */
    struct name_table names;
    struct archive_writer *writer;

    /* As of the last list. */
    uint64_t held_bytes; /* in blocks of 4 KiB */
    size_t held_files, placed_files, bad_files;
    uint64_t held_fills;
    uint64_t oldest_ms, newest_ms; /* first_ms of held fills: UINT64_MAX, 0 */
};

/* `placed`: placed files are to be indexed, not only counted.  Makes nothing
 * and opens nothing yet. */
int waiting_open(struct waiting *w, int log_fd, bool writable, bool placed,
                 uint64_t max);
void waiting_close(struct waiting *w);

/* ---- what waits --------------------------------------------------------- */

/* Lists the folder.  Pointers to parts are valid until the next list; so are
 * those to files and fills, but of files that this handle has claimed, until it
 * lets go of them.
 *   -EAGAIN  files are being replaced: let go of all, and come again
 *   -EPROTONOSUPPORT  a newer version wrote a file; reported */
int waiting_list(struct waiting *w);

/* The number of a keyspace's name; WAITING_NONE: no file names it. */
uint32_t waiting_find(const struct waiting *w, const uint8_t *name,
                      size_t size);

/* The parts of a keyspace, by fill; none of WAITING_NONE. */
const struct waiting_part *waiting_parts(const struct waiting *w, uint32_t name,
                                         size_t *count);

/* The latest fill of a log before this one that names the keyspace (R3), and
 * whether this one does (R4). */
const struct log_fill *waiting_earlier(const struct waiting *w, uint32_t name,
                                       const struct log_fill *id);
bool waiting_has(const struct waiting *w, uint32_t name,
                 const struct log_fill *id);

/* ---- merging it (worker) ------------------------------------------------- */

/* Takes the flock of a file and opens it: file->lock_fd.
 *   -EAGAIN  another process has it   -ENOENT  it is gone */
int waiting_claim(struct waiting *w, struct waiting_file *file);
void waiting_let_go(struct waiting_file *file);

/* A keyspace has a fill, durably.  Returns whether that was not known. */
bool waiting_set_in(struct waiting *w, struct waiting_fill *fill,
                    const uint8_t *name, size_t size);

/* Counts what is left of each file, and finds which fills are wanted in this
 * pass: some keyspace does not have it and has not refused in it. */
void waiting_sweep(struct waiting *w, uint32_t pass);

/* Removes a claimed file of which nothing is left (R5). */
int waiting_remove(struct waiting *w, struct waiting_file *file);

/* ---- waiting_write.c: writing (worker, commands) ------------------------- */

/* A file that is being written: begin, fills, end or abort.
 *   -EDQUOT  (end) w->max would be passed, by the last list */
struct waiting_new {
    int fd;      /* -1: it is not begun */
    uint64_t at; /* its size */
    uint64_t first_ms;
    uint64_t since_ms; /* 0: now */
    bool placed;
    char temporary[16];
    char name[WAITING_NAME_SIZE]; /* set by the end */
};

int waiting_begin(struct waiting *w, struct waiting_new *n, bool placed);

/* The records of a fill: read() visits them, each time the same ones. */
struct waiting_source {
    int (*read)(void *ctx, slot_visit *visit, void *visit_ctx);
    void *ctx;
};

/* Notes for each keyspace in `names` how many increments other than 0 it has.
 */
int waiting_count_records(const struct waiting_source *from,
                          struct name_table *names);

/* Adds a fill, after waiting_count_records(): these increments of the keyspaces
 * whose note the caller has not set to 0.  If there are any, which is what it
 * returns, it begins a file that is not begun. */
int waiting_add(struct waiting *w, struct waiting_new *n,
                const struct archive_header *h, const struct name_table *names,
                const struct waiting_source *from);

/* Durable, its name included, when it returns 0. */
int waiting_end(struct waiting *w, struct waiting_new *n);
void waiting_abort(struct waiting *w, struct waiting_new *n);

/* Makes the folder's names durable: for R4, R7 and R8.  0 without a folder. */
int waiting_sync(struct waiting *w);

/* ---- waiting_replace.c: replacing (R6) ----------------------------------- */

/* Joins small held files, when there are more than WAITING_JOIN_COUNT.  What two
 * of them both have is in the new one once: a join was killed before it had
 * removed the old names, or a power loss brought them back. */
int waiting_join(struct waiting *w);

/* A keyspace that is left out of files. */
struct waiting_left_out {
    const uint8_t *name;
    size_t size;
    /* Of which fills it is left out; NULL: of all. */
    bool (*leaves)(void *ctx, const struct log_fill *id);
    void *ctx;
    uint64_t fills; /* it was left out of: 0 before the first call */
};

/* Leaves a keyspace out of all files, durably.  -EAGAIN: a file or the folder is
 * in use; call again. */
int waiting_leave_out(struct waiting *w, struct waiting_left_out *what);

/* Writes what is good of each damaged file anew and renames it to bad-...;
 * reported. */
int waiting_repair(struct waiting *w);

/* ---- waiting_write.c: check and copy -------------------------------------- */

/* Reads all members against their checksums; `fault` gets a line for each that
 * is damaged. */
int waiting_check(struct waiting *w, void (*fault)(void *ctx, const char *text),
                  void *ctx);

/* Lists, and copies all files into the folder of another log/, durably. */
int waiting_copy(struct waiting *w, int to_log_fd);

#endif
