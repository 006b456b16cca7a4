/* common/store/lmdb/held_memory.c - a record in memory. */
#include "common/store/lmdb/held_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
held_memory_reserve(struct held_memory *m, const struct held_head *head,
                    uint64_t body_size)
{
    const uint64_t deltas = body_size == head->body_size ? head->deltas : 0;
    const uint64_t size = head->marks * (uint64_t)sizeof *m->marks +
                          deltas * sizeof *m->deltas + body_size;

    if (size > m->room) {
        free(m->marks);
        m->room = 0;
        m->marks = malloc(size);
        if (m->marks == NULL)
            return -ENOMEM;
        m->room = size;
    }
    m->deltas = (struct store_delta *)(void *)(m->marks + head->marks);
    m->body = (uint8_t *)(void *)(m->deltas + deltas);
    return 0;
}

int
held_memory_record(struct held_memory *m, const struct held_head *head,
                   struct held_record *out)
{
    held_marks_parse(m->body, head->marks, m->marks);
    if (!held_deltas_parse(head, m->body, m->deltas))
        return -EBADMSG;
    memcpy(m->name, head->name, head->name_size);
    out->id = head->id;
    out->batch = (struct store_batch){.name = m->name,
                                      .name_size = head->name_size,
                                      .marks = m->marks,
                                      .mark_count = head->marks,
                                      .deltas = m->deltas,
                                      .delta_count = head->deltas};
    return 0;
}

void
held_memory_free(struct held_memory *m)
{
    free(m->marks);
    *m = (struct held_memory){.room = 0};
}
