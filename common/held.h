/* common/held.h - records set aside for a keyspace that cannot take them.
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
 * Errors: 0 or a negative errno; -EBADMSG for a damaged file.
 */
#ifndef COUNTD_HELD_H
#define COUNTD_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store.h"

/* Writes one file (one of the same fill that exists already is success).
 *   -EEXIST  one of another fill of this epoch waits to be merged: later */
int held_put(int held_fd, const uint8_t *hash_key, const uint8_t *name,
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
int held_write(int held_fd, const uint8_t *hash_key, const uint8_t *name,
               size_t name_size, const struct store_mark *mark,
               const struct store_delta *deltas, size_t count, bool sync);
int held_sync(int held_fd);
int held_publish(int held_fd, const uint8_t *hash_key, const uint8_t *name,
                 size_t name_size, const struct store_mark *mark);
int held_settle(int held_fd);
void held_discard(int held_fd, const uint8_t *hash_key, const uint8_t *name,
                  size_t name_size, const struct store_mark *mark);

struct held {
    uint8_t name[256];
    size_t name_size;
    struct store_mark mark;
    bool newer; /* of a newer version: nothing else is known (held_each) */
    struct store_delta *deltas; /* keys point into `bytes` */
    size_t count;
    uint8_t *bytes;
};

/* Reads one whole file by its name in the directory; held_free after. */
int held_get(int held_fd, const char *file, struct held *out);
void held_free(struct held *h);

/* Calls `file` for each held file; only its first 64 bytes + keyspace have
 * been read (deltas NULL).  A file whose head is damaged or of a newer
 * version comes with name_size 0, the latter with `newer`.  Stops on non-zero
 * and returns that. */
int held_each(int held_fd,
              int (*file)(void *ctx, const char *file, const struct held *h),
              void *ctx);

/* The log and epoch, without first_ms, in the name of a held file; false for
 * any other name. Names sort by keyspace, log, epoch. */
bool held_parse_name(const char *file, struct store_mark *mark);

/* Removes a merged file, durably; fine when it is gone already.  To be done
 * before a later epoch of the same log is merged into the keyspace. */
int held_remove(int held_fd, const char *file);

/* Removes unfinished files (%t...) not written to for `age_ms`, which a process
 * that died left behind. */
int held_tidy(int held_fd, uint64_t age_ms);

/* Renames a damaged file to bad-UUID-EPOCH-KEYSPACEFILE (written to `aside`),
 * which is never read, merged or removed here. */
int held_set_aside(int held_fd, const char *file, char *aside, size_t size);

/* first_ms of the oldest records held for this keyspace (UINT64_MAX: none). */
int held_oldest_ms(int held_fd, const uint8_t *name, size_t name_size,
                   uint64_t *oldest_ms);

#endif
