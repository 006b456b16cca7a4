/* reader/answer.h - one request in, the bytes of its answer out.
 *
 * Answers come from one snapshot each.  Within a turn of the loop the
 * snapshot of a keyspace is kept for the next request that asks for the same
 * one; answer_end_turn() gives it back, so that nobody's slowness pins pages.
 *
 * Listing the keyspaces looks at every one of them, which can take long: it is
 * made in steps, one listing at a time.  Only who asks for what comes after the
 * last name of all, for the sake of as_of_ms, is answered at once.
 *
 * Ownership: the caller's between answer_init() and answer_fini(); store and
 * fresh are borrowed.
 */
#ifndef COUNTD_READER_ANSWER_H
#define COUNTD_READER_ANSWER_H

#include <stdbool.h>

#include "common/store/lmdb/lmdb.h"
#include "common/wire/query.h"
#include "reader/fresh.h"

#define ANSWER_ROW_MAX  ((size_t)(QUERY_ROW_SIZE + QUERY_NAME_SIZE))
#define ANSWER_SIZE_MAX (QUERY_REPLY_SIZE + QUERY_ROWS_MAX * ANSWER_ROW_MAX)

#define ANSWER_STEP_MS 1 /* a step of a listing takes little more */

struct answer_rows {
    uint8_t *at;
    size_t size; /* bytes written */
    size_t room;
    int64_t count;
};

struct answer_list {
    uint64_t step_ms; /* ANSWER_STEP_MS */
    int64_t as_of_ms;
    int error;
    struct answer_rows rows;
    struct lmdb_listing *from;
};

struct answer {
    struct lmdb *store;
    struct fresh *fresh;
    struct lmdb_view *view; /* NULL: none open */
    unsigned uses;          /* of this view */
    size_t name_size;       /* whose view it is */
    uint8_t name[QUERY_NAME_SIZE];
    struct answer_list list;
};

/*   -ENOMEM */
int answer_init(struct answer *a, struct lmdb *store, struct fresh *fresh);
void answer_fini(struct answer *a);

/* Before the first request of a turn; now_ms is monotonic. */
void answer_start_turn(struct answer *a, uint64_t now_ms);
void answer_end_turn(struct answer *a);

/* The most bytes that the answer to `q` can take. */
size_t answer_bound(const struct query *q);

/* True for what is answered in steps: not by answer_put(). */
bool answer_is_list(const struct query *q);

/* Writes the answer, at most answer_bound(q) bytes, and returns its size.
 * *failed: it says that the keyspace cannot be read, and is the last. */
size_t answer_put(struct answer *a, const struct query *q, uint8_t *out,
                  bool *failed);

/* Begins the answer to a listing; what was begun before is forgotten. */
void answer_list_start(struct answer *a, const struct query *q,
                       uint64_t now_ms);

/* Goes on for about ANSWER_STEP_MS, between turns; true when it is done. */
bool answer_list_step(struct answer *a);

/* Nobody waits for what was begun any more. */
void answer_list_stop(struct answer *a);

/* The size of the whole answer, then its bytes. */
size_t answer_list_size(const struct answer *a);
size_t answer_list_put(const struct answer *a, uint8_t *out, bool *failed);

/* Writes an answer that is an error and returns its size. */
size_t answer_error(int error, uint8_t *out);

#endif
