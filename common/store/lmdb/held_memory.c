/* common/store/lmdb/held_memory.c - a record in memory. */
#include "common/store/lmdb/held_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Has room for `count` things in place of those that were there. */
static int
reserve(void **at, size_t *room, uint64_t count, size_t size)
{
    void *more;

    if (count <= *room && *at != NULL)
        return 0;
    if (count > SIZE_MAX / size - 1)
        return -ENOMEM;
    more = malloc((size_t)(count + 1) * size);
    if (more == NULL)
        return -ENOMEM;
    free(*at);
    *at = more;
    *room = (size_t)count;
    return 0;
}

int
held_memory_body(struct held_memory *m, uint64_t size)
{
    void *at = m->body;
    const int rc = reserve(&at, &m->body_room, size, 1);

    m->body = at;
    return rc;
}

int
held_memory_marks(struct held_memory *m, const struct held_head *head)
{
    void *at = m->marks;
    const int rc = reserve(&at, &m->marks_room, head->marks, sizeof *m->marks);

    m->marks = at;
    if (rc == 0)
        held_marks_parse(m->body, head->marks, m->marks);
    return rc;
}

int
held_memory_record(struct held_memory *m, const struct held_head *head,
                   struct held_record *out)
{
    void *at = m->deltas;
    int rc;

    rc = reserve(&at, &m->deltas_room, head->deltas, sizeof *m->deltas);
    m->deltas = at;
    if (rc == 0)
        rc = held_memory_marks(m, head);
    if (rc == 0 && !held_deltas_parse(head, m->body, m->deltas))
        rc = -EBADMSG;
    if (rc < 0)
        return rc;
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
    free(m->body);
    free(m->marks);
    free(m->deltas);
    *m = (struct held_memory){.body = NULL};
}
