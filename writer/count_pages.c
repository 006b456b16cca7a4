/* writer/count_pages.c - see count_pages.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/count_pages.h"

#include <assert.h>

#define SECOND_NS UINT64_C(1000000000)

static_assert(COUNT_ORIGINS_MAX >= CONFIG_HOSTS_SIZE / sizeof "a://b",
              "all that fit into the setting");

void
count_pages_init(struct count_pages *p, const struct config *config)
{
    const char *why;

    *p = (struct count_pages){.step_ns = SECOND_NS / config->count_cors_rate};
    /* It was checked when the settings were read. */
    (void)name_patterns_add_all(&p->keyspaces, config->count_cors_keyspaces,
                                &why);
}

const char *
count_pages_refuse(const struct count_pages *p, const struct increment *i)
{
    if (name_patterns_find(&p->keyspaces, i->keyspace.bytes, i->keyspace.size) <
        0)
        return "a page of another site may not count into this keyspace; "
               "count.cors_keyspaces has those into which it may";
    return i->count >= 1 && i->count <= COUNT_PAGE_MOST
               ? NULL
               : "a page of another site counts from 1 to 1000 at a time";
}

bool
count_pages_have(const struct count_pages *p, int origin, uint64_t now_ns)
{
    assert(origin >= 0 && origin < COUNT_ORIGINS_MAX);
    return p->due_ns[origin] < now_ns + SECOND_NS;
}

void
count_pages_take(struct count_pages *p, int origin, uint32_t count,
                 uint64_t now_ns)
{
    uint64_t *due;

    assert(origin >= 0 && origin < COUNT_ORIGINS_MAX);
    due = &p->due_ns[origin];
    *due = (*due > now_ns ? *due : now_ns) + count * p->step_ns;
}
