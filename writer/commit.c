/* writer/commit.c - see commit.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/commit.h"

#include "common/base/clock.h"

static void
sync_run(struct io_job *job)
{
    struct commit *m = LOOP_OWNER(job, struct commit, job);
    const uint64_t begin_ns = clock_ns();

    m->rc = m->file->sync(m->ctx);
    m->took_ns = clock_ns() - begin_ns;
}

/* The group in flight is durable, or the file has failed. */
static void
sync_done(struct io_job *job)
{
    struct commit *m = LOOP_OWNER(job, struct commit, job);

    m->in_flight = false;
    m->sync_ns += m->took_ns;
    if (!m->file->end(m->ctx, m->rc)) {
        m->failed = true;
        return;
    }
    gate_release(&m->gate);
    /* Before the answers are sent: the disk need not wait for them. */
    if (gate_has_waiters(&m->gate) || m->file->is_due(m->ctx))
        commit_go(m);
}

void
commit_go(struct commit *m)
{
    if (m->failed || m->in_flight || !m->file->begin(m->ctx))
        return;
    m->in_flight = true;
    m->syncs++;
    gate_close_group(&m->gate);
    io_push(m->io, &m->job);
}

void
commit_turn(struct commit *m)
{
    /* What is_due() looks at is the thread's while a group is in flight. */
    if (!m->in_flight &&
        (gate_has_waiters(&m->gate) || m->file->is_due(m->ctx)))
        commit_go(m);
}

int
commit_init(struct commit *m, const struct commit_file *file, void *ctx,
            struct io *io, size_t max)
{
    *m = (struct commit){.file = file,
                         .ctx = ctx,
                         .io = io,
                         .job = {.run = sync_run, .done = sync_done}};
    return gate_init(&m->gate, max, file->gate_id);
}

void
commit_fini(struct commit *m)
{
    gate_fini(&m->gate);
}
