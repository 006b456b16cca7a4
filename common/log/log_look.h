/* common/log/log_look.h - reading a commit log: its headers, then its slots.
 *
 * The judgement that recovery, `countd log` and tests share; only log.c and
 * log_look.c include this.  Pure but for pread; the scan of the slots maps a
 * buffer of LOG_CHUNK_SIZE while it runs.
 */
#ifndef COUNTD_LOG_LOOK_H
#define COUNTD_LOG_LOOK_H

#include "common/log/log.h"

#define LOG_CHUNK_SIZE (1u << 20) /* of large reads and of zeros */

struct log_look {
    int headers_rc; /* as in struct log_report */
    bool header_ok[2];
    int turn; /* header block that does not rule: the next goes there */
    struct log_header header;
    struct layout layout;
    uint32_t missing; /* slots the file is too short for */

    /* Set by log_look_slots(). */
    uint32_t prefix; /* valid slots before the first that is not */
    uint32_t valid;
    uint32_t damaged;
    uint32_t end;
    uint64_t first_ms; /* of slot 0, when prefix > 0 */
    uint64_t last_ms;  /* of slot prefix - 1 */
};

/* Reads both header blocks.  0 also when they are bad (headers_rc), an error
 * only when they could not be read. */
int log_look_headers(int fd, uint64_t index, struct log_look *look);

/* Reads all slots after log_look_headers() said headers_rc 0.  EMPTY beside an
 * invalid block with valid slots of a later epoch becomes OPEN of that. */
int log_look_slots(int fd, struct log_look *look);

/* Reads exactly `size` bytes: -EBADMSG when the file ends before. */
int log_pread(int fd, void *bytes, size_t size, uint64_t at);

/* A buffer of LOG_CHUNK_SIZE zeros, or NULL; log_chunk_unmap() after. */
uint8_t *log_chunk_map(void);
void log_chunk_unmap(uint8_t *chunk);

#endif
