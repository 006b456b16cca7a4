/* common/store/postgresql/pg_history.c - history: common/store/history over
 * the rows of `block`; what a transaction adds, compaction, queries:
 * pg_history(), pg_maintain(), pg_history_check(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/clock.h"

#define AHEAD_FIRST   2
#define AHEAD_MOST    64
#define PUTS_MOST     256
#define WINDOWS       64   /* that are looked at */
#define CHECK_WINDOWS 2    /* that a check keeps */
#define BLOCK_SIZE    3900 /* two of them are in a page */
#define KEY_BLOCK     10   /* only the keys of records are shorter */

/* ---- the kv ------------------------------------------------------------ */

/* Entries in order from `from` on, read together.  Items point into them, so
 * they stay until a put or del. */
struct window {
    PGresult *rows;
    uint8_t from[KV_KEY_MAX];
    size_t from_size;
};

struct block_kv {
    struct kv kv;
    struct pg *s;
    int32_t id;
    struct window *windows;
    size_t count, capacity;
    size_t most;          /* of them; 0: all that come */
    int64_t ahead;        /* entries that the next window has */
    struct pg_array *put; /* keys and values that are not sent yet */
};

static int
send_puts(struct block_kv *k)
{
    int rc;

    if (k->put[0].count == 0 && !k->put[0].failed)
        return 0;
    rc = pg_ask(k->s, NULL, PG_BLOCK_PUT, "iaa", k->id, &k->put[0], &k->put[1]);
    pg_array_begin(&k->put[0], 'b');
    pg_array_begin(&k->put[1], 'b');
    return rc;
}

static void
forget_windows(struct block_kv *k)
{
    while (k->count > 0)
        PQclear(k->windows[--k->count].rows);
    k->ahead = AHEAD_FIRST;
}

static void
forget_first(struct block_kv *k)
{
    PQclear(k->windows[0].rows);
    k->count--;
    memmove(k->windows, k->windows + 1, k->count * sizeof *k->windows);
}

/* Keeps the rows that were asked for. */
static int
keep_window(struct block_kv *k, const uint8_t *from, size_t size)
{
    if (size > KV_KEY_MAX)
        return -EBADMSG;
    if (k->most > 0 && k->count == k->most)
        forget_first(k);
    if (array_grow(&k->windows, &k->capacity, k->count + 1,
                   sizeof *k->windows) < 0)
        return -ENOMEM;
    k->windows[k->count].rows = pg_keep(k->s);
    k->windows[k->count].from_size = size;
    memcpy(k->windows[k->count++].from, from, size);
    return 0;
}

static void
fill_item(const PGresult *rows, int row, struct kv_item *out)
{
    out->key = pg_bytes(rows, row, 0, &out->key_size);
    out->value = pg_bytes(rows, row, 1, &out->size);
}

/* The first entry from a key on, if a window has it. */
static bool
find_in_window(const struct window *w, const uint8_t *key, size_t size,
               struct kv_item *out)
{
    const int count = PQntuples(w->rows);

    if (count == 0 || bytes_compare(key, size, w->from, w->from_size) < 0)
        return false;
    fill_item(w->rows, count - 1, out);
    if (bytes_compare(out->key, out->key_size, key, size) < 0)
        return false;
    for (int row = 0; row < count; row++) {
        fill_item(w->rows, row, out);
        if (bytes_compare(out->key, out->key_size, key, size) >= 0)
            break;
    }
    return true;
}

static int
find_after(void *ctx, const uint8_t *key, size_t size, struct kv_item *out)
{
    struct block_kv *k = ctx;
    const PGresult *r;
    int rc;

    for (size_t i = k->count; i-- > 0 && i + WINDOWS > k->count;)
        if (find_in_window(&k->windows[i], key, size, out))
            return 1;
    rc = send_puts(k);
    if (rc == 0)
        rc =
            pg_ask(k->s, &r, PG_BLOCK_AFTER, "ibq", k->id, key, size, k->ahead);
    if (rc == 0)
        rc = keep_window(k, key, size);
    if (rc < 0)
        return rc;
    if (k->ahead < AHEAD_MOST)
        k->ahead *= 2;
    if (PQntuples(r) > 0)
        fill_item(r, 0, out);
    return PQntuples(r) > 0;
}

static int
find_before(void *ctx, const uint8_t *key, size_t size, struct kv_item *out)
{
    struct block_kv *k = ctx;
    const PGresult *r;
    int rc = send_puts(k);

    if (rc == 0)
        rc = pg_ask(k->s, &r, PG_BLOCK_BEFORE, "ib", k->id, key, size);
    if (rc < 0 || PQntuples(r) == 0)
        return rc;
    fill_item(r, 0, out);
    rc = keep_window(k, out->key, out->key_size);
    return rc < 0 ? rc : 1;
}

/* A key is at most once in an INSERT: records, which are replaced, are sent at
 * once, and a block is put once. */
static int
put_value(void *ctx, const uint8_t *key, size_t size, const uint8_t *value,
          size_t value_size)
{
    struct block_kv *k = ctx;

    pg_array_add(&k->put[0], key, size);
    pg_array_add(&k->put[1], value, value_size);
    forget_windows(k);
    return size < KEY_BLOCK || k->put[0].count >= PUTS_MOST ? send_puts(k) : 0;
}

static int
del_value(void *ctx, const uint8_t *key, size_t size)
{
    struct block_kv *k = ctx;
    const int rc = send_puts(k);

    forget_windows(k);
    return rc < 0 ? rc
                  : pg_ask(k->s, NULL, PG_BLOCK_DEL, "ib", k->id, key, size);
}

static void
open_kv(struct block_kv *k, struct pg *s, int32_t id)
{
    *k = (struct block_kv){
        .kv = {find_after, find_before, put_value, del_value, k, BLOCK_SIZE},
        .s = s,
        .id = id,
        .ahead = AHEAD_FIRST,
        .put = s->blocks};
    pg_array_begin(&k->put[0], 'b');
    pg_array_begin(&k->put[1], 'b');
}

/* Sends what is left, unless there was an error; returns the first one. */
static int
close_kv(struct block_kv *k, int rc)
{
    if (rc >= 0) {
        const int sent = send_puts(k);

        rc = sent < 0 ? sent : rc;
    }
    forget_windows(k);
    free(k->windows);
    return rc;
}

/* ---- what a transaction adds ------------------------------------------- */

struct history_of
pg_history_of(const struct pg *s, const uint8_t *name, size_t size,
              const struct pg_keyspace *k)
{
    const struct config *c = s->options.config;

    return (struct history_of){.name = name,
                               .name_size = size,
                               .rules = &c->history,
                               .only_new = s->options.history_of_new,
                               .has_history = k->history_size > 0,
                               .keys = (uint64_t)k->keys,
                               .sum = k->sum,
                               .limits = {history_minute(NULL), c->history_max},
                               .compact = s->compact};
}

/* Reads the record, or begins history.  1: there is one; 0: history is off. */
static int
open_history(struct pg *s, struct pg_keyspace *k, const struct history_of *of,
             struct history *h)
{
    int rc = of->has_history ? history_get(h, k->history, k->history_size) : 0;

    rc = history_enter(h, of, rc);
    if (rc != 0 || !of->has_history)
        return rc;
    k->history_size = 0;
    return pg_clear(s, PG_BLOCK_CLEAR, k->id);
}

int
pg_history_change(struct pg *s, struct pg_keyspace *k,
                  const struct pg_history_change *c)
{
    const struct history_of *of = &c->of;
    struct history_compacted done;
    size_t blocks = SIZE_MAX;
    struct block_kv kv;
    struct history h;
    uint64_t added;
    int rc;

    rc = open_history(s, k, of, &h);
    if (rc <= 0)
        return rc;
    open_kv(&kv, s, k->id);
    rc = history_add(&h, &kv.kv, of, &added);
    h.clipped += c->clipped;
    if (rc == 0 && c->erased_count > 0)
        rc = history_erase(&h, &kv.kv, c->erased, c->erased_count, &blocks);
    if (rc == 0)
        rc = history_compact(&h, &kv.kv, of, HISTORY_SLICE, &done);
    rc = close_kv(&kv, rc);
    if (rc == 0 && !history_explains(&h, k->sum))
        rc = -EBADMSG;
    if (rc == 0)
        k->history_size = history_put(&h, k->history);
    return rc;
}

/* ---- compaction alone -------------------------------------------------- */

#define ROUND_MS 60000
#define LOOK_MS  5000
#define TICK_MS  500 /* a worker comes each second, and between its merges */

/* Within the transaction.  1: there is something to commit.  How much is kept is
 * settled where increments for a keyspace are merged, unless no other directory
 * counts: settings of one that never counts into it take nothing away. */
static int
compact_locked(struct pg *s, struct pg_keyspace *k, struct history_of *of,
               struct history_compacted *done)
{
    const int alone = pg_sender_is_alone(s);
    struct block_kv kv;
    struct history h;
    int rc = alone;

    if (alone > 0)
        rc = open_history(s, k, of, &h);
    else if (alone == 0)
        rc = history_get(&h, k->history, k->history_size);
    if (rc < 0 || k->history_size == 0)
        return rc < 0 ? rc : 1; /* it is off */
    if (alone == 0)
        of->limits.max = 0;
    open_kv(&kv, s, k->id);
    rc = history_compact(&h, &kv.kv, of, HISTORY_SLICE, done);
    rc = close_kv(&kv, rc);
    k->history_size = history_put(&h, k->history);
    return rc < 0 ? rc : done->blocks > 0;
}

/* Compacts a slice of one keyspace, unless another process changes it now. */
static int
compact_keyspace(struct pg *s, const uint8_t *name, size_t size, bool *more)
{
    struct history_compacted done = {.more = false};
    struct history_of of;
    struct pg_keyspace k;
    int rc = pg_begin(s, PG_LOCK_FREE, name, size, &k);

    if (rc < 0 && rc != -ENOENT)
        return rc;
    if (rc < 0 || k.history_size == 0)
        return pg_end(s, -ENOENT);
    of = pg_history_of(s, name, size, &k);
    rc = compact_locked(s, &k, &of, &done);
    if (rc == 0)
        rc = -ENOENT; /* nothing to commit */
    if (rc > 0)
        rc = pg_keyspace_put(s, &k, k.history_size == 0);
    *more = *more || (rc == 0 && done.more);
    return pg_end(s, rc);
}

/* A slice for each of the next keyspaces with history, until the time is over.
 * 0: there is none behind the last one. */
static int
go_on_round(struct pg *s, uint64_t until_ns)
{
    int rc = pg_ask(s, NULL, PG_DUE, "b", s->round_at, s->round_at_size);
    PGresult *names = rc == 0 ? pg_keep(s) : NULL;
    const int count = PQntuples(names);

    for (int i = 0; rc == 0 && i < count; i++) {
        if (i > 0 && clock_ns() >= until_ns)
            break;
        rc = pg_key(names, i, 0, s->round_at, &s->round_at_size);
        if (rc == 0)
            rc = compact_keyspace(s, s->round_at, s->round_at_size,
                                  &s->round_again);
        if (rc != -EHOSTDOWN && rc != -EPERM && rc != -EIO)
            rc = 0; /* one keyspace does not stop the others */
    }
    PQclear(names);
    return rc < 0 ? rc : count;
}

/* A round once a minute, and at once while there is more to do. */
bool
pg_maintain(struct store *store, const struct store_maintenance *t)
{
    struct pg *s = pg_of(store);
    bool again;
    int rc;

    pg_read_end(store);
    if (!s->options.writable)
        return false;
    rc = pg_connect(s);
    if (rc == 0 && clock_ms() >= s->look_at_ms) {
        s->look_at_ms = clock_ms() + LOOK_MS;
        rc = pg_server_check(s);
    }
    if (rc == 0 && s->sender && t->applied_ms && clock_ms() >= s->tick_at_ms) {
        s->tick_at_ms = clock_ms() + TICK_MS;
        rc = pg_sender_tick(s, t->applied_ms(t->ctx));
    }
    if (clock_ms() < s->round_ms)
        return false;
    if (rc == 0)
        rc = go_on_round(s, t->until_ns);
    if (rc > 0)
        return true;
    again = rc == 0 && s->round_again;
    s->round_again = false;
    if (rc == 0) /* else the next one goes on behind what failed */
        s->round_at_size = 0;
    if (!again)
        s->round_ms = clock_ms() + ROUND_MS;
    return again;
}

/* ---- queries ----------------------------------------------------------- */

int
pg_history(struct store *store, struct store_history_query *q,
           uint64_t until_ns)
{
    struct pg *s = pg_of(store);
    struct pg_keyspace k;
    struct block_kv kv;
    struct history h;
    int rc;

    rc = pg_begin_turn(s);
    if (rc == 0)
        rc = pg_keyspace_find(s, q->name, q->name_size, &k);
    if (rc < 0)
        return rc;
    if (k.history_size == 0)
        return -ENODATA;
    rc = history_get(&h, k.history, k.history_size);
    if (rc < 0)
        return rc;
    open_kv(&kv, s, k.id);
    rc = history_answer(&h, &kv.kv, q, until_ns);
    return close_kv(&kv, rc);
}

int
pg_history_check(struct pg *s, const struct pg_keyspace *k,
                 const struct history_whole *whole, struct history_check *check)
{
    struct block_kv kv;
    struct history h;
    int rc;

    rc = history_get(&h, k->history, k->history_size);
    if (rc < 0)
        return rc;
    open_kv(&kv, s, k->id);
    kv.most = CHECK_WINDOWS; /* or memory would have all of it */
    return close_kv(&kv, history_check(&h, &kv.kv, whole, check));
}
