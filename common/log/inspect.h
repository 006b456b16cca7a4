/* common/log/inspect.h - reading a commit log without owning it: its headers,
 * then its slots.
 *
 * Recovery, `countd log`, `countd check` and tests share this judgement.  The
 * log may change owner meanwhile.
 *
 * Nothing is written; inspect_slots() has a buffer while it runs.
 * Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_INSPECT_H
#define COUNTD_COMMON_LOG_INSPECT_H

#include <stddef.h>

#include "common/log/log_header.h"

/* What a log's headers and slots show. */
struct inspect {
    int headers_rc; /* 0; -EBADMSG: both are bad; -EPROTONOSUPPORT: written by a
                       newer version */
    bool header_ok[2];
    int next_block; /* the header block that does not rule: the next header goes
                       there */
    struct log_header header; /* valid if headers_rc is 0 */
    uint32_t missing;         /* slots the file is too short for */

    /* Set by inspect_slots(). */
    uint32_t prefix;   /* valid slots before the first that is not */
    uint32_t valid;    /* valid slots of the header's epoch */
    uint32_t damaged;  /* invalid slots that a later one says were durable, or
                          that are below `count` of a SEALED log (in an EMPTY log
                          none); and all slots that a truncated file lacks */
    uint32_t end;      /* one past the last valid slot */
    uint32_t marks;    /* marks among the slots before `prefix` */
    bool has_times;    /* a slot before `prefix` has a minute */
    uint32_t whole;    /* slots before `prefix` that are not of a request whose
                          end is missing (mark.h): `prefix`, or that of its mark */
    uint64_t whole_ms; /* received_ms of slot whole - 1, if whole > 0 */
    uint64_t first_ms; /* received_ms of the first valid slot */
    uint64_t last_ms;  /* received_ms of slot prefix - 1 */
};

/* Reads headers and all slots of an open file.  `index` is that of the file
 * name, or UINT64_MAX for quarantined files (not compared).  The header is as
 * recovery would judge it: EMPTY beside an invalid block, with valid slots of a
 * later epoch, is reported OPEN.  A log that is filled anew meanwhile is read
 * again, and not called damaged.  An error only if reading failed. */
int log_inspect(int fd, uint64_t index, struct inspect *look);

/* Reads both header blocks.  0 also if they are bad (headers_rc); an error only
 * if reading failed. */
int inspect_headers(int fd, uint64_t index, struct inspect *look);

/* As inspect_headers(), of the log `index` in the folder `dirfd`. */
int inspect_log(int dirfd, uint64_t index, struct inspect *look);

/* ---- for common/log ------------------------------------------------------ */

/* Reads all slots after inspect_headers() has set headers_rc to 0.  A header
 * EMPTY beside an invalid block, with valid slots of a later epoch, becomes
 * OPEN of that epoch. */
int inspect_slots(int fd, struct inspect *look);

/* Reads exactly `size` bytes, or one slot: -EBADMSG if the file is shorter. */
int inspect_read(int fd, void *bytes, size_t size, uint64_t at);
int inspect_slot(int fd, const struct layout *l, uint32_t number,
                 uint8_t *slot);

#endif
