/* common/store/lmdb/held_file.h - what both kinds of held files are made of.
 * Internal: for held.c and held_many.c.
 *
 * Errors: 0 or a negative errno; -EBADMSG for bytes that cannot be.
 */
#ifndef COUNTD_HELD_FILE_H
#define COUNTD_HELD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/lmdb/held_files.h"
#include "common/store/store.h"

#define HELD_VERSION     1
#define HELD_CRC_AT      12
#define HELD_HEAD_SIZE   64
#define HELD_RECORD_SIZE 22 /* without the key */
#define HELD_BUFFER_SIZE ((size_t)64 << 10)

#define HELD_NAME_SIZE 256 /* of a file, with NUL */
#define HELD_TEMP_SIZE (HELD_NAME_SIZE + 4)

/* A file being written: what does not fit the buffer goes out. */
struct held_out {
    int fd;
    int rc; /* first failure; nothing is written after it */
    uint32_t crc;
    struct store_mark mark; /* of keyspaces to come (held_many.c) */
    size_t used;
    uint8_t bytes[HELD_BUFFER_SIZE];
};

/* PREFIX,UUID,EPOCH */
void heldfile_name(const char *prefix, const struct store_mark *mark,
                   char file[HELD_NAME_SIZE]);

/* Makes the file, in place of one of that name, and begins with the head, which
 * must be HELD_HEAD_SIZE bytes; its crc is put in by held_out_close. */
int heldfile_out_open(struct held_out **out, int held_fd, const char *temporary,
                      const uint8_t *head);
void heldfile_out_put(struct held_out *o, const void *bytes, size_t size);
void heldfile_out_delta(struct held_out *o, const struct store_delta *d);

/* Ends it, durable if `sync`; a file that failed (or when `error` says so) is
 * removed. */
int heldfile_out_close(struct held_out *o, int held_fd, const char *temporary,
                       int error, bool sync);

/* Reads one record of at most `size` bytes.  Returns its size. */
int heldfile_delta_get(const uint8_t *at, size_t size, struct store_delta *d);
bool heldfile_delta_before(const struct store_delta *a,
                           const struct store_delta *b);

/* Reads the head of a file for many keyspaces. */
int heldfile_many_head(const uint8_t *head, struct heldfile *h);

/* Opens a file and says how large it is. */
int heldfile_file_open(int held_fd, const char *file, size_t *size);
int heldfile_file_read(int fd, uint8_t *bytes, size_t size);

#endif
