/* worker/later.c - see later.h. */
#include "worker/later.h"

#include <stddef.h>

static struct later_log *
find(struct later *l, uint64_t index, uint64_t inode)
{
    unsigned i;

    for (i = 0; i < LATER_MAX; i++)
        if (l->logs[i].wait_ms != 0 && l->logs[i].index == index &&
            l->logs[i].inode == inode)
            return &l->logs[i];
    return NULL;
}

static struct later_log *
take(struct later *l)
{
    unsigned i;

    for (i = 0; i < LATER_MAX; i++)
        if (l->logs[i].wait_ms == 0)
            return &l->logs[i];
    return &l->logs[l->next++ % LATER_MAX];
}

void
later_note(struct later *l, uint64_t index, uint64_t inode, uint64_t now_ms)
{
    struct later_log *log = find(l, index, inode);
    uint64_t wait = l->first_ms;

    if (wait == 0)
        return;
    if (log)
        wait = 2 * log->wait_ms;
    else
        log = take(l);
    if (wait > LATER_MOST_MS)
        wait = LATER_MOST_MS;
    *log = (struct later_log){.index = index,
                              .inode = inode,
                              .until_ms = now_ms + wait,
                              .wait_ms = wait};
}

void
later_forget(struct later *l, uint64_t index, uint64_t inode)
{
    struct later_log *log = find(l, index, inode);

    if (log)
        log->wait_ms = 0;
}

bool
later_waits(const struct later *l, uint64_t index, uint64_t inode,
            uint64_t now_ms, uint64_t *until_ms)
{
    unsigned i;

    for (i = 0; i < LATER_MAX; i++) {
        const struct later_log *log = &l->logs[i];

        if (log->wait_ms == 0 || log->index != index || log->inode != inode)
            continue;
        if (log->until_ms <= now_ms)
            return false;
        if (log->until_ms < *until_ms)
            *until_ms = log->until_ms;
        return true;
    }
    return false;
}
