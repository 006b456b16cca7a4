/* writer/commit.c - see commit.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/commit.h"

#include "common/base/clock.h"

#define BRIEF_NS UINT64_C(1000000)

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
end_sync(struct commit *m)
{
    m->in_flight = false;
    m->sync_ns += m->took_ns;
    if (m->took_ns > m->brief_ns)
        m->quick_runs = 0;
    else if (m->quick_runs < COMMIT_QUICK_RUNS)
        m->quick_runs++;
    if (!m->file->end(m->ctx, m->rc)) {
        m->failed = true;
        return;
    }
    m->released = true;
    gate_release(&m->gate);
}

/* Whether the next sync is one for the loop, if an answer waits for it. */
static bool
suits_loop(const struct commit *m)
{
    return m->alone && m->quick_runs >= COMMIT_QUICK_RUNS &&
           m->file->is_small(m->ctx);
}

static void
sync_done(struct io_job *job)
{
    struct commit *m = LOOP_OWNER(job, struct commit, job);

    end_sync(m);
    /* Before the answers are sent: the disk need not wait for them.  A sync for
     * the loop is left to commit_turn(). */
    if (!m->failed && !suits_loop(m) &&
        (gate_has_waiters(&m->gate) || m->file->is_due(m->ctx)))
        commit_go(m);
}

/* The collecting group is now in flight.  False: there is nothing to sync. */
static bool
begin_sync(struct commit *m)
{
    if (m->failed || m->in_flight || !m->file->begin(m->ctx))
        return false;
    m->in_flight = true;
    m->syncs++;
    gate_close_group(&m->gate);
    return true;
}

void
commit_go(struct commit *m)
{
    if (begin_sync(m))
        io_push(m->io, &m->job);
}

bool
commit_turn(struct commit *m, bool alone)
{
    const bool waits = gate_has_waiters(&m->gate), released = m->released;

    m->alone = alone;
    m->released = false;
    m->file->flush(m->ctx);
    if (m->in_flight || m->failed || (!waits && !m->file->is_due(m->ctx)))
        return false;
    if (!waits || !suits_loop(m)) {
        commit_go(m);
        return false;
    }
    if (released)
        return true;
    if (!begin_sync(m))
        return false;
    m->syncs_here++;
    sync_run(&m->job);
    end_sync(m);
    return false;
}

int
commit_init(struct commit *m, const struct commit_file *file, void *ctx,
            struct io *io, size_t max, uint8_t id)
{
    *m = (struct commit){.file = file,
                         .ctx = ctx,
                         .io = io,
                         .brief_ns = BRIEF_NS,
                         .job = {.run = sync_run, .done = sync_done}};
    return gate_init(&m->gate, max, id);
}

void
commit_fini(struct commit *m)
{
    gate_fini(&m->gate);
}
