/* writer/tally.c - see tally.h: tally_key(), tally_soon(), tally_ready(),
 * tally_stop(), tally_add(). */
#include "writer/tally.h"

#include <assert.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/setup/config.h"
#include "common/wire/message.h"
#include "common/wire/name.h"

/* Fixed for ever: keys must be the same after a restart. */
static const uint8_t hash_key[17] = "countd live.name";

static_assert(TALLY_HASH_SIZE < CONFIG_HISTORY_KEY_MIN,
              "config_check() leaves room for the hash");

/* ---- names --------------------------------------------------------------- */

static bool
looks_hashed(const uint8_t *name, size_t size)
{
    const uint8_t *hash = name + size - TALLY_HASH_SIZE;

    if (size < TALLY_HASH_SIZE || hash[0] != '#')
        return false;
    for (size_t i = 1; i < TALLY_HASH_SIZE; i++)
        if ((hash[i] < '0' || hash[i] > '9') &&
            (hash[i] < 'a' || hash[i] > 'f'))
            return false;
    return true;
}

size_t
tally_key(const uint8_t *name, size_t size, size_t size_max, uint8_t *key)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t hash[16];
    size_t kept;

    assert(size > 0);
    assert(size_max > TALLY_HASH_SIZE && size_max <= MESSAGE_NAME_MAX);
    if (size <= size_max && memchr(name, '\0', size) == NULL &&
        !looks_hashed(name, size)) {
        memcpy(key, name, size);
        return size;
    }
    kept = size_max - TALLY_HASH_SIZE;
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

/* Cannot fail: tally_add() armed the timer, so it has a place. */
static void
arm_timer(struct tally *t, uint64_t deadline_ms)
{
    const int rc = loop_arm(t->loop, &t->timer, deadline_ms);

    assert(rc == 0);
}

/* Puts the amounts of one thing.  False: no slot is free for all of it. */
static bool
put_item(struct tally *t, const struct tally_item *item)
{
    const char *const *keyspaces = t->sources[t->source].keyspaces;
    uint8_t key[MESSAGE_NAME_MAX];
    struct message m = {.key = key};

    m.key_size = (uint16_t)tally_key(item->name, item->name_size,
                                     t->logs->layout.key_size, key);
    for (unsigned i = 0; i < TALLY_PARTS; i++)
        while (item->amounts[i] > 0) {
            if (logs_free_slots(t->logs) == 0)
                return false;
            m.increment = item->amounts[i] < INT64_MAX
                              ? (int64_t)item->amounts[i]
                              : INT64_MAX;
            m.keyspace = (const uint8_t *)keyspaces[i];
            m.keyspace_size = (uint16_t)strlen(keyspaces[i]);
            logs_put_message(t->logs, &m);
            item->amounts[i] -= (uint64_t)m.increment;
            t->stats.increments++;
        }
    return true;
}

static void
end_round(struct tally *t)
{
    const uint64_t soonest_ms = loop_now_ms(t->loop) + TALLY_PAUSE_MS;
    const uint64_t next_ms = t->round_ms + t->interval_ms;

    t->in_round = false;
    t->stats.rounds++;
    if (t->stopping)
        t->stopped(t->ctx);
    else
        arm_timer(t, next_ms < soonest_ms ? soonest_ms : next_ms);
}

static void
wait_for_slots(struct tally *t)
{
    t->waiting = true;
    t->stats.waits++;
    if (t->stopping)
        arm_timer(t, loop_now_ms(t->loop) + t->stop_timeout_ms);
}

static void
visit_piece(struct tally *t)
{
    uint32_t steps = TALLY_STEPS;
    struct tally_item item;
    int rc = 1;

    for (unsigned i = 0; rc == 1 && i < TALLY_PIECE; i++) {
        const struct tally_source *s = &t->sources[t->source];

        rc = s->next(s->ctx, &t->from, &steps, &item);
        if (rc == 1 && !put_item(t, &item)) {
            wait_for_slots(t);
            return;
        }
    }
    if (rc == 0) {
        t->source++;
        t->from = 0;
    }
    if (t->source == t->source_count)
        end_round(t);
    else
        arm_timer(t, loop_now_ms(t->loop) + (t->stopping ? 0 : TALLY_PAUSE_MS));
}

static void
report_loss(struct tally *t)
{
    diag(DIAG_WARNING, "live.history: there is no log to write to: what "
                       "happened since the last round is not counted");
    t->waiting = t->in_round = false;
    t->stopped(t->ctx);
}

static void
due(struct loop_timer *timer)
{
    struct tally *t = LOOP_OWNER(timer, struct tally, timer);

    if (t->waiting) {
        report_loss(t);
        return;
    }
    if (!t->in_round) {
        t->in_round = true;
        t->round_ms = loop_now_ms(t->loop);
        t->source = t->from = 0;
    }
    visit_piece(t);
}

void
tally_soon(struct tally *t)
{
    const uint64_t due_ms = t->round_ms + TALLY_SOON_MS;

    if (t->source_count > 0 && !t->in_round && !t->stopping &&
        due_ms < t->timer.deadline_ms)
        arm_timer(t, due_ms);
}

void
tally_ready(struct tally *t)
{
    if (!t->waiting)
        return;
    t->waiting = false;
    arm_timer(t, loop_now_ms(t->loop));
}

/* ---- open and close ------------------------------------------------------ */

void
tally_stop(struct tally *t, uint64_t timeout_ms, void (*stopped)(void *ctx),
           void *ctx)
{
    assert(!t->stopping);
    t->stopping = true;
    t->stop_timeout_ms = timeout_ms;
    t->stopped = stopped;
    t->ctx = ctx;
    if (t->source_count == 0) {
        stopped(ctx);
        return;
    }
    /* A round in progress has passed things that were active since. */
    t->in_round = t->waiting = false;
    arm_timer(t, loop_now_ms(t->loop));
}

int
tally_add(struct tally *t, const struct tally_source *source)
{
    int rc = 0;

    assert(t->source_count < TALLY_SOURCES);
    assert(t->logs->layout.key_size >= CONFIG_HISTORY_KEY_MIN);
    assert(t->logs->layout.keyspace_size >= CONFIG_HISTORY_KEYSPACE_MIN);
    if (t->source_count == 0)
        rc =
            loop_arm(t->loop, &t->timer, loop_now_ms(t->loop) + t->interval_ms);
    if (rc == 0)
        t->sources[t->source_count++] = *source;
    return rc;
}

void
tally_init(struct tally *t, struct loop *loop, struct logs *logs,
           uint64_t interval_ms)
{
    *t = (struct tally){.loop = loop,
                        .logs = logs,
                        .interval_ms = interval_ms,
                        .timer = {.slot = -1, .due = due}};
}

void
tally_fini(struct tally *t)
{
    if (t->source_count > 0)
        loop_disarm(t->loop, &t->timer);
    t->source_count = 0;
}

void
tally_print(const struct tally *t)
{
    if (t->source_count > 0)
        diag(DIAG_INFO, "history: rounds=%llu increments=%llu waits=%llu",
             (unsigned long long)t->stats.rounds,
             (unsigned long long)t->stats.increments,
             (unsigned long long)t->stats.waits);
}
