/* writer/quota/numbers.h - the journal numbers of one quota: what each is.
 *
 * Memory is the same whatever their number: the newest are here, the others in
 * a file that has no name, is made anew from the journal at each start, and is
 * never synced.  Its chunks carry a checksum all the same.
 *
 * Ownership: the caller's, between init and fini.  Any thread, one at a time,
 * but for numbers_read(), which may run beside the others.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_QUOTA_NUMBERS_H
#define COUNTD_QUOTA_NUMBERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define NUMBERS_CHUNK 255 /* in a chunk of 4 KiB, behind its checksum */

#define NUMBER_IS_CANCEL (-1) /* for amount */

struct number {
    int64_t amount; /* of an application, or NUMBER_IS_CANCEL */
    uint64_t other; /* the number that cancelled it, 0: none has; or the number
                       that this one cancelled */
};

struct numbers {
    int dirfd; /* borrowed */
    int fd;    /* -1: all are in `tail` */
    pthread_mutex_t mutex;
    uint64_t count;
    bool spilled;                      /* the whole tail is in the file, too */
    struct number tail[NUMBERS_CHUNK]; /* those behind the last whole chunk */
};

void numbers_init(struct numbers *n, int dirfd);
void numbers_fini(struct numbers *n);

/* Makes room for one more number.  -ENOSPC ...: nothing has changed. */
int numbers_reserve(struct numbers *n);

/* Takes the next number, which is `count` afterwards.  Room was made. */
void numbers_add(struct numbers *n, struct number what);

/* -ENOENT: there is no such number.  -EBADMSG: the file is damaged. */
int numbers_get(struct numbers *n, uint64_t number, struct number *what);

/* The application `number` is cancelled by `by`. */
int numbers_cancel(struct numbers *n, uint64_t number, uint64_t by);

/* Those of one chunk (chunk 0 begins with number 1): how many, or an error. */
int numbers_read(struct numbers *n, uint64_t chunk,
                 struct number out[NUMBERS_CHUNK]);

#endif
