/* common/store/cluster/backup_file.h - the file of a part: blocks of bytes,
 * each with a checksum (data/FORMAT.md, section 13.3).
 *
 *     backup_file_create -> backup_file_begin, _add ... -> backup_file_finish
 *     backup_file_open   -> backup_file_next ...        -> backup_file_close
 *
 * Ownership: the caller's.  Errors: 0 or a negative errno; -EBADMSG for what is
 * damaged or not whole. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_BACKUP_FILE_H
#define COUNTD_COMMON_STORE_CLUSTER_BACKUP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BACKUP_BLOCK_ENOUGH ((size_t)64 << 10) /* a block is written then */

/* Bytes of the heads of blocks: of the file without its name, of a period. */
#define CLUSTER_FILE_HEAD   24
#define CLUSTER_PERIOD_HEAD 16

enum backup_block {
    BACKUP_HEAD = 'H',
    BACKUP_COUNTS = 'C',
    BACKUP_PERIOD = 'P',
    BACKUP_END = 'E'
};

struct backup_file {
    FILE *stream;
    uint8_t *bytes; /* of a block; the first is its kind */
    size_t size, capacity;
    size_t head_size; /* of these, before the fields */
    uint64_t blocks;
};

struct backup_field {
    const uint8_t *field, *value;
    size_t field_size, value_size;
};

int backup_file_create(struct backup_file *f, int dir_fd, const char *name);

/* Begins a block with `head` bytes before its fields; what was begun is
 * written. */
int backup_file_begin(struct backup_file *f, enum backup_block kind,
                      const void *head, size_t head_size);
int backup_file_add(struct backup_file *f, const struct backup_field *field);

/* Ends and syncs the file. */
int backup_file_finish(struct backup_file *f);
void backup_file_close(struct backup_file *f);

int backup_file_open(struct backup_file *f, int dir_fd, const char *name);

/* Reads the next block: its kind, and a head of `*head_size` bytes at *head.
 * BACKUP_END is the last one. */
int backup_file_next(struct backup_file *f, enum backup_block *kind,
                     const uint8_t **head);

/* The field at *at, which is 0 at first; false at the end of the block. */
bool backup_file_field(const struct backup_file *f, size_t *at,
                       struct backup_field *out);

#endif
