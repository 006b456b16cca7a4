/* writer/count_body.h - the body of POST /v1/count, increment by increment.
 *
 *   text/tab-separated-values              increment_line.h: LF or CR LF, empty
 *                                          lines are passed over
 *   application/json                       an object, or an array of them
 *   application/x-ndjson, .../jsonl        an object a line
 *
 * An object has keyspace, key and, optional, n: an integer, or a string of one,
 * 1 without it; and at: a time (event_time.h), as a number or a string, that of
 * the form without it.  Nothing else, and nothing twice: `count` for `n` would count 1
 * in silence.  keyspace_hex and key_hex have a name's bytes in hexadecimal
 * digits, and keyspace or key is null or missing then.
 *
 * A name is the text of its field or of its JSON string; without form.raw that
 * is in text form.
 *
 * Pure; allocates nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_COUNT_BODY_H
#define COUNTD_WRITER_COUNT_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/increment_line.h"
#include "common/wire/json_read.h"

#define COUNT_DETAIL_SIZE 256

enum count_format { COUNT_TSV, COUNT_JSON, COUNT_NDJSON };

/* The fault of the first bad increment. */
struct count_fault {
    const char *code;
    uint32_t line; /* of the body, or element of its array, from 1 */
    char detail[COUNT_DETAIL_SIZE];
};

struct count_body {
    enum count_format format;
    struct increment_form form; /* of names */
    const uint8_t *at, *end;    /* by lines */
    struct json_reader json;    /* of the body, or of the line */
    enum json_token token;      /* the last of json */
    bool has_begun, is_array;
    unsigned members, names; /* of an object: there, and not null */
    uint32_t line;
    struct count_fault fault; /* once count_body_next() was -1 */
};

/* `bytes` stay the caller's.  `form` says how names are, and how many bytes
 * they may have; whether control characters may be in them is known here. */
void count_body_init(struct count_body *b, enum count_format format,
                     const uint8_t *bytes, size_t size,
                     const struct increment_form *form);

/* The next increment: 1; 0 at the end; -1: b->fault says what is wrong, and *out
 * is undefined. */
int count_body_next(struct count_body *b, struct increment *out);

#endif
