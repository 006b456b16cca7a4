/* writer/live/live_tally.c - see live_tally.h: live_tally_key(),
 * live_tally_hurry(), live_tally_ready(), live_tally_stop().
 *
 * The list of objects with activity is first in, first out, and an object is in
 * it once.  So a round that takes as many as there are objects takes all that
 * waited when it began, though new ones join behind them.
 *
 * An object is cleared when it is taken, and its activity is owed until the
 * logs have taken it: there is at most one such at a time. */
#include "writer/live/live_tally.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/setup/config.h"
#include "common/wire/name.h"

/* Fixed for ever: keys must be the same after a restart. */
static const uint8_t hash_key[17] = "countd live.name";

static const char *const keyspaces[LIVE_TALLY_KINDS][LIVE_TALLY_PARTS] = {
    [LIVE_COUNTER] = {"live.acquired", "live.released", "live.refused"},
    [LIVE_SEMAPHORE] = {"live.semaphore.acquired", "live.semaphore.released",
                        "live.semaphore.refused"},
};

static_assert(LIVE_TALLY_HASH_SIZE < CONFIG_HISTORY_KEY_MIN,
              "config_check() leaves room for the hash");

/* ---- names --------------------------------------------------------------- */

static bool
looks_hashed(const uint8_t *name, size_t size)
{
    const uint8_t *hash = name + size - LIVE_TALLY_HASH_SIZE;

    if (size < LIVE_TALLY_HASH_SIZE || hash[0] != '#')
        return false;
    for (size_t i = 1; i < LIVE_TALLY_HASH_SIZE; i++)
        if ((hash[i] < '0' || hash[i] > '9') &&
            (hash[i] < 'a' || hash[i] > 'f'))
            return false;
    return true;
}

size_t
live_tally_key(const uint8_t *name, size_t size, size_t room, uint8_t *key)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t hash[16];
    size_t kept;

    assert(size > 0);
    assert(room > LIVE_TALLY_HASH_SIZE && room <= MESSAGE_NAME_MAX);
    if (size <= room && memchr(name, '\0', size) == NULL &&
        !looks_hashed(name, size)) {
        memcpy(key, name, size);
        return size;
    }
    kept = room - LIVE_TALLY_HASH_SIZE;
    if (kept > size)
        kept = size;
    for (size_t i = 0; i < kept; i++)
        key[i] = name[i] == '\0' ? '_' : name[i];
    name_siphash128(hash_key, name, size, hash);
    key[kept++] = '#';
    for (size_t i = 0; i < sizeof hash; i++) {
        key[kept++] = (uint8_t)digits[hash[i] >> 4];
        key[kept++] = (uint8_t)digits[hash[i] & 15];
    }
    return kept;
}

/* ---- a round ------------------------------------------------------------- */

/* There is room for the timer: it was armed before. */
static void
arm_timer(struct live_tally *h, uint64_t deadline_ms)
{
    const int rc = loop_arm(h->loop, &h->timer, deadline_ms);

    assert(rc == 0);
}

static void
begin_round(struct live_tally *h)
{
    assert(!h->in_round);
    h->in_round = true;
    h->round_ms = loop_now_ms(h->loop);
    h->kind = 0;
    for (size_t i = 0; i < LIVE_TALLY_KINDS; i++) {
        if (!h->lives[i])
            continue;
        h->left[i] = h->lives[i]->count;
        h->lives[i]->untold = false; /* those are taken now */
    }
}

static void
end_round(struct live_tally *h)
{
    const uint64_t now_ms = loop_now_ms(h->loop);
    uint64_t next_ms = h->round_ms + h->interval_ms;

    h->in_round = false;
    h->hurrying = false;
    h->figures.rounds++;
    if (h->stopping) {
        h->stopped(h->ctx);
        return;
    }
    if (next_ms < now_ms + LIVE_TALLY_PAUSE_MS)
        next_ms = now_ms + LIVE_TALLY_PAUSE_MS;
    arm_timer(h, next_ms);
}

/* Takes the next object of this round.  False: there is none. */
static bool
take_object(struct live_tally *h)
{
    struct live_activity tally;

    for (; h->kind < LIVE_TALLY_KINDS; h->kind++) {
        struct live *live = h->lives[h->kind];

        if (h->left[h->kind] == 0 || !live_activity_next(live, &tally))
            continue;
        h->left[h->kind]--;
        h->owed_kind = h->kind;
        h->owed[0] = tally.acquired;
        h->owed[1] = tally.released;
        h->owed[2] = tally.refused;
        h->message.key_size = (uint16_t)live_tally_key(
            tally.name, tally.name_size, h->layout.key_size, h->key);
        live_activity_done(live);
        return true;
    }
    return false;
}

static void
put_part(struct live_tally *h, unsigned part)
{
    const uint64_t owed = h->owed[part];
    const char *keyspace = keyspaces[h->owed_kind][part];
    struct message m;
    int rc;

    h->message.increment = owed < INT64_MAX ? (int64_t)owed : INT64_MAX;
    h->message.keyspace = (const uint8_t *)keyspace;
    h->message.keyspace_size = (uint16_t)strlen(keyspace);
    rc = message_put(&h->layout, &h->message, h->bytes);
    assert(rc == 0);
    rc = message_parse(&h->layout, h->bytes, &m);
    assert(rc == 0);
    logs_put(h->logs, h->bytes, &m);
    h->owed[part] -= (uint64_t)h->message.increment;
    h->figures.increments++;
}

/* Puts what is owed.  False: the logs have no room for all of it. */
static bool
put_owed(struct live_tally *h)
{
    for (unsigned part = 0; part < LIVE_TALLY_PARTS; part++)
        while (h->owed[part] > 0) {
            if (logs_free_slots(h->logs) == 0)
                return false;
            put_part(h, part);
        }
    return true;
}

/* At the stop, and the logs have had no room for too long. */
static void
give_up(struct live_tally *h)
{
    diag(DIAG_WARNING,
         "live.history: there is no log to write to: what happened since the "
         "last round is not counted");
    h->waiting = false;
    h->in_round = false;
    memset(h->owed, 0, sizeof h->owed);
    h->stopped(h->ctx);
}

static void
take_piece(struct live_tally *h)
{
    const unsigned piece =
        h->hurrying ? LIVE_TALLY_HURRY_PIECE : LIVE_TALLY_PIECE;
    const uint64_t now_ms = loop_now_ms(h->loop);

    for (unsigned i = 0; i < piece; i++) {
        if (!put_owed(h)) {
            h->waiting = true;
            h->figures.waits++;
            if (h->stopping)
                arm_timer(h, now_ms + h->patience_ms);
            return;
        }
        if (!take_object(h)) {
            end_round(h);
            return;
        }
    }
    arm_timer(h, h->stopping ? now_ms : now_ms + LIVE_TALLY_PAUSE_MS);
}

static void
due(struct loop_timer *timer)
{
    struct live_tally *h = LOOP_OWNER(timer, struct live_tally, timer);

    if (h->waiting) {
        give_up(h);
        return;
    }
    if (!h->in_round)
        begin_round(h);
    take_piece(h);
}

void
live_tally_hurry(struct live_tally *h)
{
    const uint64_t now_ms = loop_now_ms(h->loop);

    if (h->stopping || h->hurrying)
        return;
    if (!h->in_round && now_ms < h->round_ms + LIVE_TALLY_HURRY_MS)
        return;
    h->hurrying = true;
    if (!h->waiting)
        arm_timer(h, now_ms);
}

void
live_tally_ready(struct live_tally *h)
{
    if (!h->waiting)
        return;
    h->waiting = false;
    arm_timer(h, loop_now_ms(h->loop));
}

/* ---- open and close ------------------------------------------------------ */

void
live_tally_stop(struct live_tally *h, uint64_t patience_ms,
                void (*stopped)(void *ctx), void *ctx)
{
    assert(!h->stopping);
    h->stopping = true;
    h->patience_ms = patience_ms;
    h->stopped = stopped;
    h->ctx = ctx;
    /* A round that is on would not take what joined behind it. */
    h->in_round = false;
    h->waiting = false;
    arm_timer(h, loop_now_ms(h->loop));
}

int
live_tally_init(struct live_tally *h, struct loop *loop, struct logs *logs,
                struct live *const lives[LIVE_TALLY_KINDS],
                uint64_t interval_ms)
{
    assert(logs->layout.key_size >= CONFIG_HISTORY_KEY_MIN);
    assert(logs->layout.keyspace_size >= CONFIG_HISTORY_KEYSPACE_MIN);
    *h = (struct live_tally){.loop = loop,
                             .logs = logs,
                             .layout = logs->layout,
                             .interval_ms = interval_ms,
                             .timer = {.slot = -1, .due = due}};
    h->message.key = h->key;
    for (size_t i = 0; i < LIVE_TALLY_KINDS; i++) {
        assert(!lives[i] || lives[i]->options.history);
        h->lives[i] = lives[i];
    }
    return loop_arm(loop, &h->timer, loop_now_ms(loop) + interval_ms);
}

void
live_tally_fini(struct live_tally *h)
{
    loop_disarm(h->loop, &h->timer);
}
