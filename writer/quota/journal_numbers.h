/* writer/quota/journal_numbers.h - the journal numbers of one quota: what each
 * is.
 *
 * Memory is the same whatever their number: the newest are here, the others in
 * a file that has no name, is made anew from the journal at each start, and is
 * never synced: it is memory that may be paged out.
 *
 * Ownership: the caller's, between init and fini.  Any thread, one at a time;
 * journal_numbers_read() may run beside the others.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_JOURNAL_NUMBERS_H
#define COUNTD_WRITER_QUOTA_JOURNAL_NUMBERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define JOURNAL_NUMBERS_TAIL 256 /* the newest: 4 KiB */

#define NUMBER_IS_CANCEL (-1) /* for amount */

struct number {
    int64_t amount; /* of an application, or NUMBER_IS_CANCEL */
    uint64_t other; /* the number that cancelled it, 0: none has; or the number
                       that this one cancelled */
};

/* The mutex is for what journal_numbers_read() must not meet half done: a tail
 * that goes to the file, and a cancellation.  A number that is added takes no
 * mutex, because a reader looks at none above `count`. */
struct journal_numbers {
    int dirfd; /* borrowed */
    int fd;    /* -1: all are in `tail` */
    pthread_mutex_t mutex;
    _Atomic uint64_t count;
    uint64_t in_file; /* the first of them; the others are in `tail` */
    struct number tail[JOURNAL_NUMBERS_TAIL];
};

void journal_numbers_init(struct journal_numbers *n, int dirfd);
void journal_numbers_fini(struct journal_numbers *n);

/* Makes room for one more number.  -ENOSPC ...: nothing has changed. */
int journal_numbers_reserve(struct journal_numbers *n);

/* Takes the next number, which is `count` afterwards.  Room was made. */
void journal_numbers_add(struct journal_numbers *n, struct number what);

/* -ENOENT: there is no such number. */
int journal_numbers_get(struct journal_numbers *n, uint64_t number,
                        struct number *what);

/* The application `number` is cancelled by `by`. */
int journal_numbers_cancel(struct journal_numbers *n, uint64_t number,
                           uint64_t by);

/* Reads numbers from `first` on (1 or more), up to `max`: how many, or an
 * error. 0: there are no more. */
int journal_numbers_read(struct journal_numbers *n, uint64_t first,
                         struct number *out, size_t max);

#endif
