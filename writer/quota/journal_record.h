/* writer/quota/journal_record.h - what a journal of quotas is made of.
 *
 * A header, then records of one size, numbered from `first`; behind the last
 * one the file is zero, as far as it was made ahead:
 *
 *   at    size  field of the header, which is there twice, at 0 and at 512
 *      0     8  magic    "COUNTDQ2"
 *      8    16  uuid     random, of this journal
 *     24     8  limit    int64: of the quota without a name, when it was made
 *     32     8  made_ms  Unix time
 *     40     4  features an unknown bit: refuse
 *     44     4  generation: checkpoints made so far
 *     48     8  first    number of the first record
 *     56     8  checkpoint_size
 *     64     4  checkpoint_crc
 *     68     4  crc32 of bytes 0 to 67
 *   4096        the checkpoint, then the records
 *
 *   at    size  field of a record
 *      0     4  crc32 of uuid, the record's number (8) and bytes 4 to 23
 *      4     1  type     enum journal_record_type
 *      5     1  flags    1: a part; the change ends with a record without it
 *      6     2  quota    its id; 0: the one without a name
 *      8     8  value, xor a5a5a5a5a5a5a5a5
 *     16     8  after, xor the same
 *     24        end
 *
 * None of the three words of a record is zero, so a piece that a loss of power
 * left unwritten is distinguished from a bit that flipped.
 *
 *   type      value               after
 *   GROUP     Unix time in ms     records of the group behind this one
 *   APPLY     amount              what remains
 *   CANCEL    number cancelled    what remains
 *   INCREASE  amount              what remains
 *   DECREASE  amount taken        what remains
 *   EMPTY     amount taken        0
 *   CREATE    limit               bytes of the name, in NAME parts before
 *   REMOVE    what remained       0
 *   REFUSED   0                   0, or -1: the answer; only with a key
 *   NAME      16 bytes of a name, zero behind its end              (a part)
 *   KEY       16 bytes: SipHash-2-4-128 of the key under uuid      (a part)
 *   REQUEST   SipHash-1-3 of what was asked under uuid, 0          (a part)
 *
 * APPLY and CANCEL take the next journal number of their quota.  A GROUP begins
 * what was written and synced at once, and is written when all before it is
 * durable.
 *
 * Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_JOURNAL_RECORD_H
#define COUNTD_WRITER_QUOTA_JOURNAL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_RECORD_SIZE 24u
#define RECORDS_AT          4096u /* byte of the first record */
#define HEADER_COPIES       2
#define HEADER_AT(i)        ((i)*512u)
#define HEADER_SIZE         72u

enum journal_record_type {
    JOURNAL_RECORD_GROUP = 1,
    JOURNAL_RECORD_APPLY,
    JOURNAL_RECORD_CANCEL,
    JOURNAL_RECORD_INCREASE,
    JOURNAL_RECORD_DECREASE,
    JOURNAL_RECORD_EMPTY,
    JOURNAL_RECORD_CREATE,
    JOURNAL_RECORD_REMOVE,
    JOURNAL_RECORD_REFUSED,
    JOURNAL_RECORD_NAME,
    JOURNAL_RECORD_KEY,
    JOURNAL_RECORD_REQUEST,
    JOURNAL_RECORD_TYPES
};

struct journal_record {
    uint8_t type;
    bool part;
    uint16_t quota;
    int64_t value;
    int64_t after;
};

struct journal_header {
    uint8_t uuid[16];
    int64_t limit;
    uint64_t made_ms;
    uint32_t generation;
    uint64_t first;
    uint64_t checkpoint_size;
    uint32_t checkpoint_crc;
};

void journal_record_put(const struct journal_record *r, const uint8_t uuid[16],
                        uint64_t number, uint8_t out[JOURNAL_RECORD_SIZE]);

/* -EBADMSG: it is none, or not the one with this number. */
int journal_record_get(const uint8_t bytes[JOURNAL_RECORD_SIZE],
                       const uint8_t uuid[16], uint64_t number,
                       struct journal_record *r);

/* All zero: nothing was written here yet. */
bool journal_record_is_blank(const uint8_t bytes[JOURNAL_RECORD_SIZE]);

void journal_header_put(const struct journal_header *h,
                        uint8_t out[RECORDS_AT]);

/* -EBADMSG no copy is good, -EPROTO made by a later version. *damaged: one copy
 * is. */
int journal_header_get(const uint8_t bytes[RECORDS_AT],
                       struct journal_header *h, bool *damaged);

#endif
