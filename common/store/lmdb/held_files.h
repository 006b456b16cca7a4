/* common/store/lmdb/held_files.h - records set aside for a keyspace that cannot
 * take them.
 *
 * When one keyspace refuses its records (broken file, over a limit) the
 * others go on and the log is freed: the records go to data/held, durable
 * before the log is emptied, and are merged later under the same mark.
 *
 * A held file is named KEYSPACEFILE,UUID,EPOCH (hex; the epoch in 16 digits)
 * and written as %t..., fsync, rename without replacing, fsync of the
 * directory.  Bytes, little-endian:
 *
 *      0     8  magic "COUNTDH1"
 *      8     4  version 1          12  4  crc32 of the rest of the file
 *     16    16  uuid of the log    32  8  epoch
 *     40     8  first_ms: as_of of this keyspace stays before it
 *     48     8  records            56  2  keyspace size   58 6 zero
 *     64        keyspace, then the records: minute u32 | sum_high i64 |
 *               sum_low u64 | key_size u16 | key; sorted by key, then minute
 *
 * Keyspaces that there is no room for may be any number: names come from the
 * network.  So the records that a log has for all of these go to one file
 * for many keyspaces (common/store/lmdb/held_many.c), and those of its next
 * epochs behind them while it is small.  It is named %m,UUID,EPOCH, with the
 * first epoch:
 *
 *      0     8  magic "COUNTDM1"; version, crc32, uuid as above
 *     32     8  first epoch         40  8  oldest first_ms
 *     48     8  keyspaces           56  8  last epoch
 *     64     8  newest first_ms
 *     72        each: epoch u64 | first_ms u64 | records u64 | size u64 of the
 *               records | name size u16 | name | records as above
 *
 * Errors: 0 or a negative errno; -EBADMSG for a damaged file.
 */
#ifndef COUNTD_HELD_FILES_H
#define COUNTD_HELD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "common/store/store.h"

/* Writes one file (one of the same fill that exists already is success).
 *   -EEXIST  one of another fill of this epoch waits to be merged: later */
int heldfile_put(int held_fd, const uint8_t *hash_key, const uint8_t *name,
                 size_t name_size, const struct store_mark *mark,
                 const struct store_delta *deltas, size_t count);

/* The same in steps, for many at once:
 *
 *     held_write    each; durable only if `sync`
 *     held_sync     makes all that was written durable
 *     held_publish  each: it has its name
 *     held_settle   makes the names durable: now the logs may be emptied
 *
 * held_discard takes back what is written and not published; that goes away
 * by itself in time, too. */
int heldfile_write(int held_fd, const uint8_t *hash_key, const uint8_t *name,
                   size_t name_size, const struct store_mark *mark,
                   const struct store_delta *deltas, size_t count, bool sync);
int heldfile_sync(int held_fd);
int heldfile_publish(int held_fd, const uint8_t *hash_key, const uint8_t *name,
                     size_t name_size, const struct store_mark *mark);
int heldfile_settle(int held_fd);
void heldfile_discard(int held_fd, const uint8_t *hash_key, const uint8_t *name,
                      size_t name_size, const struct store_mark *mark);

struct heldfile {
    uint8_t name[256];
    size_t name_size;
    struct store_mark mark;
    bool newer; /* of a newer version: nothing else is known (held_each) */
    uint64_t keyspaces; /* of a file for many (held_each): it has no name */
    uint64_t newest_ms; /* and the newest first_ms in it; mark has the oldest */
    struct store_delta *deltas; /* keys point into `bytes` */
    size_t count;
    uint8_t *bytes;
};

/* Reads one whole file by its name in the directory; held_free after. */
int heldfile_get(int held_fd, const char *file, struct heldfile *out);
void heldfile_free(struct heldfile *h);

/* Calls `file` for each held file; only its first 64 bytes + keyspace have
 * been read (deltas NULL).  A file for many keyspaces comes with name_size 0
 * and `keyspaces`; one whose head is damaged or of a newer version with
 * name_size 0 as well, the latter with `newer`.  Stops on non-zero and returns
 * that. */
int heldfile_each(int held_fd,
                  int (*file)(void *ctx, const char *file,
                              const struct heldfile *h),
                  void *ctx);

/* The log and epoch, without first_ms, in the name of a held file; false for
 * any other name. Names sort by keyspace, log, epoch. */
bool heldfile_parse_name(const char *file, struct store_mark *mark);

/* Removes a merged file, durably; fine when it is gone already.  To be done
 * before a later epoch of the same log is merged into the keyspace. */
int heldfile_remove(int held_fd, const char *file);

/* Keeps the records of one keyspace as held_set_aside keeps a file. */
int heldfile_keep(int held_fd, const uint8_t *hash_key,
                  const struct heldfile *h, char *aside, size_t size);

/* Removes unfinished files (%t...) not written to for `age_ms`, which a process
 * that died left behind. */
int heldfile_tidy(int held_fd, uint64_t age_ms);

/* Renames a damaged file to bad-UUID-EPOCH-KEYSPACEFILE (written to `aside`),
 * which is never read, merged or removed here. */
int heldfile_set_aside(int held_fd, const char *file, char *aside, size_t size);

/* ---- files for many keyspaces (held_many.c) ---- */

bool heldfile_is_many(const char *file);

/* Writing what one log has: begin; add each of `keyspaces` keyspaces; end, also
 * when adding failed (`error`): then nothing is left.  Afterwards publish, with
 * what begin said of the file it goes behind, or discard it.  What is there
 * already of the same fill is written again: the log still has all of it.
 *   -EEXIST  as above, or another worker changes the file just now: later */
struct held_out;
struct held_many_base {
    bool any;
    uint64_t epoch; /* in its name */
    ino_t inode;
    off_t size;
    struct timespec changed;
};
int heldfile_many_begin(struct held_out **out, int held_fd,
                        const struct store_mark *mark, uint64_t keyspaces,
                        struct held_many_base *base);
int heldfile_many_add(struct held_out *o, const uint8_t *name, size_t name_size,
                      const struct store_delta *deltas, size_t count);
int heldfile_many_end(struct held_out *o, int held_fd,
                      const struct store_mark *mark, int error, bool sync);
int heldfile_many_publish(int held_fd, const struct store_mark *mark,
                          const struct held_many_base *base);
void heldfile_many_discard(int held_fd, const struct store_mark *mark);

/* A file for many, read and checked.  A mark says what is in its keyspace
 * already, as long as no later epoch of the log is, but for later ones of the
 * same file; so what is merged has to be dropped before that, and only one
 * process may do so at a time. */
struct heldfile_many {
    int fd;
    bool locked;            /* it is ours to change: nobody else does */
    struct store_mark mark; /* the first epoch, the oldest first_ms */
    uint64_t last;          /* epoch */
    uint64_t keyspaces;
    uint8_t *bytes;
    size_t size;
    bool *drop; /* per keyspace: to be left out by held_many_drop */
    uint64_t dropped;

    /* Where held_many_next is. */
    size_t at;
    uint64_t next;
    const uint8_t *records;
    struct store_delta *deltas;
    size_t deltas_max;
};

/* With `lock`, takes the lock unless another has it.  held_many_free after. */
int heldfile_many_get(int held_fd, const char *file, bool lock,
                      struct heldfile_many *out);
void heldfile_many_free(struct heldfile_many *m);

/* The next keyspace; `h` borrows from `m` until the next call.  Without its
 * records (deltas NULL) until held_many_records, which may find -EBADMSG or
 * -ENOMEM.  False at the end. */
bool heldfile_many_next(struct heldfile_many *m, struct heldfile *h);
int heldfile_many_records(struct heldfile_many *m, struct heldfile *h);
void heldfile_many_rewind(struct heldfile_many *m);

/* After held_many_next found `h`: the next of the same keyspace, which is of a
 * later epoch, without going on to it.  `from` is 0 at first. */
bool heldfile_many_later(const struct heldfile_many *m,
                         const struct heldfile *h, size_t *from,
                         struct store_mark *mark);

/* Keeps a damaged file as held_set_aside does; -EBUSY: it is another's, or is
 * another by now. */
int heldfile_many_set_aside(int held_fd, const char *file, char *aside,
                            size_t size);

/* Drops from the file, durably, what `drop` says; it must be locked.  To be
 * done before a later epoch of the same log is merged into those keyspaces. */
int heldfile_many_drop(struct heldfile_many *m, int held_fd, const char *file);

/* first_ms of the oldest records held for this keyspace (UINT64_MAX: none). */
int heldfile_oldest_ms(int held_fd, const uint8_t *name, size_t name_size,
                       uint64_t *oldest_ms);

#endif
