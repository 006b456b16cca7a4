/* common/store/history/change.c - what a transaction that changes counts does with
 * history, whatever the engine: history_enter(), history_add(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/compact.h"

#include <errno.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/wire/name.h"

uint32_t
history_minute(uint64_t (*now_ms)(void))
{
    const uint64_t minute = (now_ms ? now_ms() : clock_unix_ms()) / 60000;

    return minute < HISTORY_NEVER ? (uint32_t)minute : HISTORY_NEVER;
}

const char *
compact_name(const struct history_of *of)
{
    static _Thread_local char text[NAME_TEXT_SIZE];

    (void)name_escape(of->name, of->name_size, text);
    return text;
}

int
history_enter(struct history *h, const struct history_of *of, int rc)
{
    static struct diag_repeat repeat;
    const struct tiers *tiers = NULL; /* NULL: keep the stored ones */

    if (of->rules && !(of->only_new && (of->has_history || of->keys > 0)))
        tiers = tiers_of(of->rules, of->name, of->name_size);
    if (tiers ? tiers->count == 0 : !of->has_history)
        return 0;
    if (!of->has_history) {
        history_begin(h, tiers, of->limits.now, of->keys == 0, of->sum);
        return 1;
    }
    if (rc < 0)
        return rc;
    if (!history_explains(h, of->sum))
        return -EBADMSG;
    if (tiers && !history_set(h, tiers))
        diag_repeating(&repeat, DIAG_WARNING,
                       "keyspace=%s: history keeps the steps that it began "
                       "with; set history.%s = off for a while to begin anew",
                       compact_name(of), compact_name(of));
    return 1;
}

static uint64_t
count_blocks(const struct history *h)
{
    uint64_t blocks = 0;

    for (unsigned i = 0; i < h->count; i++)
        blocks += h->tier[i].blocks;
    return blocks;
}

int
history_add(struct history *h, const struct kv *kv, const struct history_of *of,
            uint64_t *blocks)
{
    static struct diag_repeat repeat;
    struct history_compacted done = {.blocks = 0};
    uint64_t ahead = 0, before = count_blocks(h);
    int rc;

    rc = history_append(h, kv, of, &ahead);
    if (rc == -EAGAIN) {
        rc = history_compact(h, kv, of, SIZE_MAX, &done);
        before = count_blocks(h);
        if (rc == 0)
            rc = history_append(h, kv, of, &ahead);
        if (rc == -EAGAIN)
            rc = -EBUSY;
    }
    if (rc == 0 && ahead > 0)
        diag_repeating(&repeat, DIAG_WARNING,
                       "keyspace=%s: sums=%llu are stamped more than a day "
                       "ahead of the clock; history counts them as of now",
                       compact_name(of), (unsigned long long)ahead);
    *blocks = done.blocks + count_blocks(h) - before;
    return rc;
}
