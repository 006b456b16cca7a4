/* common/log/inspect.h - looking at a commit log: its headers, then its slots.
 *
 * The judgement that recovery, `countd log`, `countd check` and tests share.
 * Whoever looks need not own the log, which may change hands meanwhile.
 *
 * Pure but for pread; a look at the slots maps a buffer of INSPECT_CHUNK while
 * it runs.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_LOG_INSPECT_H
#define COUNTD_COMMON_LOG_INSPECT_H

#include <stddef.h>

#include "common/log/log_header.h"

/* What a look at a log's two headers and slots says. */
struct inspect {
    int headers_rc; /* 0, -EBADMSG both bad, -EPROTONOSUPPORT newer */
    bool header_ok[2];
    int next_block; /* header block that does not rule: the next goes there */
    struct log_header header; /* valid when headers_rc is 0 */
    struct layout layout;
    uint32_t missing; /* slots the file is too short for */

    /* Set by inspect_slots(). */
    uint32_t prefix;   /* valid slots before the first that is not */
    uint32_t valid;    /* slots of the header's epoch that check */
    uint32_t damaged;  /* slots that a later one says were durable, or below
                          `count` when SEALED, and do not check (in an EMPTY log
                          none); and all that a file cut short has no room for */
    uint32_t end;      /* one past the last valid slot */
    uint64_t first_ms; /* of slot 0, when prefix > 0 */
    uint64_t last_ms;  /* of slot prefix - 1 */
};

/* Reads headers and all slots of an open file.  `index` is what the file name
 * says, or UINT64_MAX for quarantined files (not compared).  The header is
 * as recovery would take it: EMPTY beside an invalid block, with valid slots
 * of a later epoch, is reported OPEN.  An error only when reading failed. */
int log_inspect(int fd, uint64_t index, struct inspect *look);

/* Reads both header blocks.  0 also when they are bad (headers_rc), an error
 * only when they could not be read. */
int inspect_headers(int fd, uint64_t index, struct inspect *look);

/* ---- for this room ------------------------------------------------------ */

#define INSPECT_CHUNK (1u << 20) /* of large reads and of zeros */

/* Reads all slots after inspect_headers() said headers_rc 0.  EMPTY beside an
 * invalid block with valid slots of a later epoch becomes OPEN of that. */
int inspect_slots(int fd, struct inspect *look);

/* Reads exactly `size` bytes: -EBADMSG when the file ends before. */
int inspect_read(int fd, void *bytes, size_t size, uint64_t at);

/* A buffer of INSPECT_CHUNK zeros, or NULL; inspect_chunk_unmap() after. */
uint8_t *inspect_chunk_map(void);
void inspect_chunk_unmap(uint8_t *chunk);

#endif
