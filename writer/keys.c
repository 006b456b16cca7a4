/* writer/keys.c - see keys.h: keys_begin() and keys_load() at a start,
 * keys_mark() and keys_add() for a request. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/keys.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/log/log_recover.h"

void
keys_open(struct keys *k, const struct datadir *d)
{
    *k = (struct keys){.state = KEYS_OFF};
    requests_init(&k->journal, d->fd);
}

void
keys_close(struct keys *k)
{
    if (k->state != KEYS_OFF)
        idempotency_fini(&k->table);
    free(k->unsealed);
    *k = (struct keys){.state = KEYS_OFF};
}

/* ---- logs that may be OPEN ----------------------------------------------- */

/* Lists the logs that may be OPEN, and sees whether some have marks, or may. */
static int
find_unsealed(struct keys *k, struct logdir *dir)
{
    struct log_unsealed u;
    int rc = logdir_scan(dir);

    k->unsealed_count = 0;
    if (rc < 0)
        return rc;
    k->unsealed = calloc(dir->count + 1, sizeof *k->unsealed);
    if (!k->unsealed)
        return -ENOMEM;
    for (size_t i = 0; i < dir->count; i++) {
        const uint64_t index = dir->entries[i].index;

        if (!dir->entries[i].ours)
            continue;
        if (log_unsealed(dir->fd, index, dir->requests, &u) > 0)
            k->unsealed[k->unsealed_count++] =
                (struct unsealed_log){.index = index, .epoch = u.epoch};
        k->has_marks = k->has_marks || u.has_marks;
    }
    return 0;
}

/* Drops from the list what is sealed by now, or is another fill. */
static void
check_unsealed(struct keys *k, const struct logdir *dir)
{
    struct log_unsealed u;
    size_t left = 0;

    for (size_t i = 0; i < k->unsealed_count; i++) {
        const struct unsealed_log *log = &k->unsealed[i];

        if (log_unsealed(dir->fd, log->index, dir->requests, &u) > 0 &&
            u.epoch == log->epoch)
            k->unsealed[left++] = *log;
    }
    k->unsealed_count = left;
}

/* ---- loading ------------------------------------------------------------- */

static void
take_request(void *ctx, const struct counted_request *q)
{
    struct keys *k = ctx;
    const uint64_t at_ms = (uint64_t)q->at_s * 1000;

    if (!idempotency_find(&k->table, q->mark.hash, at_ms))
        keys_add(k, &q->mark, 0, at_ms);
}

/* Reads the secret, and makes one if there is none.  Marks under a secret that
 * is lost mean nothing, and under a new one the same requests count again: that
 * is an operator's to accept (-ENOKEY). */
static int
read_secret(struct keys *k)
{
    uint8_t secret[REQUESTS_KEY_SIZE];
    int rc = requests_secret(&k->journal, secret);

    if (rc == -ENOKEY && !k->has_marks && requests_exist(&k->journal) == 0) {
        rc = requests_make(&k->journal);
        if (rc == 0)
            rc = requests_secret(&k->journal, secret);
    }
    k->is_lost = rc == -ENOKEY;
    if (rc == 0)
        k->secret = (struct hash_key){get_le64(secret), get_le64(secret + 8)};
    return rc;
}

static void
report_load(const struct keys *k, int rc)
{
    static struct diag_repeat lost, fails;

    if (k->is_lost)
        diag_repeating(&lost, DIAG_ERROR,
                       REQUESTS_FOLDER
                       "/" REQUESTS_SECRET
                       " is lost, and logs or " REQUESTS_FOLDER
                       " have requests with an Idempotency-Key: restore it, "
                       "or have their keys forgotten by countd log accept; "
                       "requests with a key wait");
    else
        diag_repeating(&fails, DIAG_ERROR,
                       "open " REQUESTS_FOLDER ": %s; requests with an "
                       "Idempotency-Key wait",
                       diag_text(rc));
}

void
keys_load(struct keys *k, struct logdir *dir)
{
    static struct diag_repeat waits;
    int rc;

    assert(k->state == KEYS_LOADING);
    if (k->loaded)
        return;
    rc = read_secret(k); /* also before the first log is begun */
    if (rc < 0) {
        report_load(k, rc);
        return;
    }
    check_unsealed(k, dir);
    if (k->unsealed_count > 0) {
        diag_repeating(&waits, DIAG_WARNING,
                       "log=%" PRIu64 " is not recovered yet: requests with "
                       "an Idempotency-Key wait",
                       k->unsealed[0].index);
        return;
    }
    rc = requests_each(&k->journal, take_request, k);
    if (rc < 0)
        report_load(k, rc);
    k->loaded = rc == 0;
}

int
keys_begin(struct keys *k, struct logdir *dir, const struct config *c)
{
    uint8_t secret[REQUESTS_KEY_SIZE];
    int rc;

    if (!c->count_http || c->count_keys == 0 || !mark_fits(&dir->layout))
        return 0;
    if (requests_secret(&k->journal, secret) == -EPROTONOSUPPORT)
        return -EPROTONOSUPPORT;
    rc = find_unsealed(k, dir);
    if (rc == 0)
        rc = idempotency_init(&k->table, (uint32_t)c->count_keys);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "begin to keep Idempotency-Keys");
        return rc;
    }
    k->journal.max = c->count_keys;
    k->state = KEYS_LOADING;
    keys_load(k, dir);
    if (k->loaded)
        k->state = KEYS_READY;
    return 0;
}

/* ---- requests ------------------------------------------------------------ */

struct request_mark
keys_mark(const struct keys *k, const uint8_t *key, size_t key_size,
          const uint8_t *body, size_t body_size)
{
    const struct hash_wide wide = hash_bytes_wide(&k->secret, key, key_size);
    struct request_mark m = {.body = hash_name(&k->secret, 0, body, body_size)};

    put_le64(m.hash, wide.low);
    put_le64(m.hash + 8, wide.high);
    return m;
}

void
keys_add(struct keys *k, const struct request_mark *m, uint64_t position,
         uint64_t now_ms)
{
    const struct key_answer a = {.number = m->count,
                                 .remaining = (int64_t)position};

    idempotency_add(&k->table, m->hash, m->body, &a, now_ms);
}
