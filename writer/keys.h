/* writer/keys.h - counting requests with an Idempotency-Key: which of them
 * count, and the marks of logs that are not sealed yet.
 *
 * The states of a request with a key, and where the next one with the same key
 * is answered from:
 *
 *     appended   a mark and its increments are in the current log, an entry in
 *                the table: the second waits for the sync of the first
 *     durable    answered; the second at once
 *     stored     its log is about to be sealed: the marks of the log, which
 *                were collected in a list, are in live/requests (requests.h)
 *     restart    the table is read from live/requests, when no log is left that
 *                may be OPEN: a worker may be recovering one just then
 *
 * Who owns what: the loop has the table and the list of the current log; a list
 * goes to the file thread with its log; `journal` and `unsealed` are the file
 * thread's once it runs, and the table too while the state is KEYS_LOADING.
 *
 * Memory: 56 bytes a key (idempotency.h), 40 a mark of a log that is not
 * sealed; a list is used again, so it grows with the first logs only.
 * Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_KEYS_H
#define COUNTD_WRITER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "common/log/logdir.h"
#include "common/log/requests.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "writer/idempotency.h"

#define KEYS_KEY_MAX 255 /* bytes of an Idempotency-Key */

enum keys_state { KEYS_OFF, KEYS_LOADING, KEYS_READY };

/* The marks of one log. */
struct mark_list {
    struct marked *at;
    uint32_t count;
    size_t capacity;
};

/* A log that may be OPEN, of a writer before this one. */
struct unsealed_log {
    uint64_t index, epoch;
};

struct keys {
    enum keys_state state;
    bool loaded;    /* the file thread has read the table */
    bool has_marks; /* logs had some at the start */
    bool is_lost;   /* the secret is: only an operator goes on from there */
    struct requests journal;
    struct idempotency table;
    struct hash_key secret;
    struct unsealed_log *unsealed;
    size_t unsealed_count;
};

void keys_open(struct keys *k, const struct datadir *d);
void keys_close(struct keys *k);

/* After the logs were recovered, with the journal as `dir->marks`, and before
 * one is begun: turns keys on as the settings say, and loads the table unless a
 * log may be OPEN.
 *   -EPROTONOSUPPORT  live/requests is of an earlier version: reported */
int keys_begin(struct keys *k, struct logdir *dir, const struct config *c);

/* In the file thread while the state is KEYS_LOADING: sets `loaded` once no log
 * is left that may be OPEN, and there is a secret.  Makes that where none is
 * lost. */
void keys_load(struct keys *k, struct logdir *dir);

/* The mark of a request; `count` is not known yet. */
struct request_mark keys_mark(const struct keys *k, const uint8_t *key,
                              size_t key_size, const uint8_t *body,
                              size_t body_size);

/* Adds a request that was appended; `position` says when it is durable.  In the
 * table key_entry.request is the hash of its body, number its increments, and
 * remaining `position`. */
void keys_add(struct keys *k, const struct request_mark *m, uint64_t position,
              uint64_t now_ms);

#endif
