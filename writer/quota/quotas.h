/* writer/quota/quotas.h - quotas: what remains of each, and what became of each
 * journal number.
 *
 * A request is decided, which changes nothing, and then made:
 *
 *     if (quotas_decide(q, &request, &record, &answer)) {
 *         rc = quotas_make(q, &request, &record, &answer);
 *         ... the record goes into the journal ...
 *     }
 *
 * A replay does the same with what the journal has (quotas_take), and compares.
 *
 *   APPLY      amount <= remaining, and something remains; takes a number
 *   CANCEL     of an application that was not cancelled; takes a number
 *   INCREASE   what remains fits 63 bits
 *   DECREASE   to 0 at least
 *   EMPTY      to 0
 *   CREATE     a name that is free; REMOVE: with all its numbers
 *
 * Quota 0 has no name and is always there.  A name is 1 to QUOTA_NAME_MAX of
 * A-Z a-z 0-9 . _ -, the first of which is a letter or a digit.
 *
 * Ownership: the caller's, between init and fini, and not moved.  One thread at
 * a time.
 * Memory: 16 bytes a journal number, or twice that, and that of idempotency.h.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_QUOTAS_H
#define COUNTD_WRITER_QUOTA_QUOTAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/idempotency.h"
#include "writer/quota/journal_record.h"

/* What a request was answered, as key_answer.form. */
enum answer_form {
    ANSWER_PAIR = 1,    /* "NUMBER REMAINING" */
    ANSWER_REMAINING,   /* "REMAINING" */
    ANSWER_REFUSED,     /* "0" */
    ANSWER_IMPOSSIBLE,  /* "-1" */
    ANSWER_CREATED,     /* 201, "REMAINING" */
    ANSWER_UNKNOWN,     /* 404 */
    ANSWER_EXISTS,      /* 409 */
    ANSWER_NO_MORE,     /* 507 */
    ANSWER_UNAVAILABLE, /* 503 */
    ANSWER_OTHER        /* 422 */
};

#define QUOTA_NAME_MAX 64u
#define QUOTA_MAX      8192u /* with a name */

#define NUMBER_IS_CANCEL (-1) /* for amount */

/* What a journal number is. */
struct quota_number {
    int64_t amount; /* of an application, or NUMBER_IS_CANCEL */
    uint64_t other; /* the number that cancelled it, 0: none has; or the number
                       that this one cancelled */
};

struct quota {
    uint16_t id;
    uint8_t name_size; /* 0: that of id 0 */
    char name[QUOTA_NAME_MAX];
    int64_t limit; /* it was made with */
    int64_t remaining;
    struct quota_number *numbers; /* the first is number 1 */
    size_t count, capacity;       /* of them */
};

struct quota_request {
    enum journal_record_type type;
    struct quota *quota; /* NULL: there is none of that name */
    const char *name;    /* as it was asked; quotas need that of CREATE */
    size_t name_size;
    int64_t value; /* amount, number or limit */
};

struct quotas {
    size_t max; /* with a name; those of a journal are all taken */
    size_t count;
    struct quota unnamed;
    struct quota *names[QUOTA_MAX]; /* in order */
    /* By id; one more stays free: what free_id() ends at. */
    struct quota *ids[QUOTA_MAX + 2];
    struct idempotency keys;
    bool has_key; /* replay: parts of the change that goes on */
    bool has_request;
    uint8_t key[IDEMPOTENCY_HASH];
    uint64_t request;
    size_t part_size;
    char part[QUOTA_NAME_MAX];
};

/* -ENOMEM.  quotas_fini() in any case. */
int quotas_init(struct quotas *q, int64_t limit);
void quotas_fini(struct quotas *q);

static inline struct quota *
quotas_unnamed(const struct quotas *q)
{
    return q->ids[0];
}

bool quota_name_is_good(const char *name, size_t size);

/* Adds a quota with a name. -EBADMSG: the name or the id cannot be, -ENOMEM */
int quotas_add(struct quotas *q, uint16_t id, const char *name, size_t size,
               int64_t limit);

/* NULL: there is none. */
struct quota *quotas_find(const struct quotas *q, const char *name,
                          size_t size);

/* Takes the next journal number.  -ENOMEM: nothing has changed. */
int quota_add_number(struct quota *quota, struct quota_number what);

/* Whether there is a change to make, which *record is the last record of; if
 * not, *a is the answer. */
bool quotas_decide(const struct quotas *q, const struct quota_request *r,
                   struct journal_record *record, struct key_answer *a);

/* Makes it; *a is the answer when it is durable.  -ENOMEM: nothing has changed.
 */
int quotas_make(struct quotas *q, const struct quota_request *r,
                const struct journal_record *record, struct key_answer *a);

/* As take of struct journal_reader: ctx is a struct quotas. */
int quotas_take(void *ctx, const struct journal_record *r, uint64_t ms);

/* The replay is over: parts of a change that was cut are forgotten, and there
 * are at most `max` quotas from now on, or those that there are. */
void quotas_taken(struct quotas *q, size_t max);

#endif
