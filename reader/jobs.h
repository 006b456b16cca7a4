/* reader/jobs.h - long work of all protocols: whatever takes more than one
 * lookup.
 *
 * A request that cannot be answered at once has a job.  JOBS_MAX jobs have a
 * place, and at most half of these are one client's; others wait in line, where
 * the client with the fewest places comes first.  A job with a place is done in
 * steps between turns of the loop, JOBS_STEP_NS in each turn: clients take
 * turns, and within a client its jobs, of which a new one is the next.  A step
 * reads a snapshot of its own, so that no job pins one, and as_of was refreshed
 * before it.
 *
 *     if (!job_enter(job))        // again when its connection is woken
 *         return CONN_PAUSE;
 *     ... store the request, take memory ...
 *     job_run(job);               // step() until that returns that it is done
 *     return CONN_PAUSE;
 *
 * and when the connection is served again, and the job is done, its answer is
 * sent, and job_leave() ends it; so does the end of the connection.
 *
 * A request that waits for time to pass, mostly for as_of, is a job, too:
 * job_wait() has step() called every JOBS_LOOK_MS, without a place, and when
 * step() returns true the connection is served again.
 *
 * A step does not wait for a store that is not local (remote.h): the job is
 * stepped again when its query is answered.  A request that needs no step
 * (job_ask()) does not wait either: its connection is served again, and makes
 * the answer again.
 *
 * A job that is not done after read.max_time is stopped, and is LATE.  A job
 * loses its place if it does not use it for JOBS_KEPT_MS, and its answer if
 * that is not taken, because the client does not read or there is no memory to
 * send it; it must then enter again, because others wait for its place.
 *
 * Ownership: the caller's; loop, store and as_of are borrowed.  A job is the
 * first member of memory that its connection's state has, or that a request
 * over HTTP keeps (job_hold()).  The loop's thread. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_JOBS_H
#define COUNTD_READER_JOBS_H

#include "common/net/http.h"
#include "common/store/as_of.h"
#include "reader/remote.h"

#define JOBS_MAX     64 /* that have a place, and with it memory */
#define JOBS_STEP_NS UINT64_C(1000000)
#define JOBS_KEPT_MS 1000
#define JOBS_LOOK_MS 5

/* The last three have a place. */
enum job_state {
    JOB_NONE,
    JOB_WAITS,
    JOB_LATE,
    JOB_IN_LINE,
    JOB_HAS_PLACE,
    JOB_RUNS,
    JOB_DONE
};

/* The first members are its owner's; the others are 0 at first. */
struct job {
    struct http_held held; /* of a request over HTTP */
    struct jobs *jobs;
    struct conn *conn;
    /* Goes on until about until_ns, and looks at the clock in each round of a
     * loop; true when it is done. */
    bool (*step)(struct job *job, uint64_t until_ns);
    /* Gives back what the job has since job_run().  NULL: it is never run. */
    void (*stop)(struct job *job);

    struct remote_asker asker;
    struct list_link link;
    uint64_t since_ms; /* monotonic: of its state */
    uint64_t waits_ms; /* monotonic: when it first waited; 0: it has not */
    uint64_t turn;     /* number of its last step; 0: it had none */
    enum job_state state;
};

struct jobs {
    struct loop *loop;
    struct store *store;
    struct remote *remote; /* its threads; NULL: it is local; the caller's */
    struct as_of *as_of;
    uint64_t max_time_ms;    /* read.max_time */
    uint64_t step_ns;        /* JOBS_STEP_NS; a test has less */
    struct loop_timer timer; /* while any wait */
    struct list_link line, running, untaken, waiting;
    unsigned placed, waits;
    uint64_t turn; /* number of the last step */
    uint64_t client_turns[NETWORKS_CLIENTS];
    uint8_t client_places[NETWORKS_CLIENTS];
    uint32_t client_waits[NETWORKS_CLIENTS];
};

void jobs_init(struct jobs *j, struct loop *loop, struct store *store,
               struct as_of *as_of, uint64_t max_time_ms);

/* Disarms the timer. */
void jobs_fini(struct jobs *j);

/* At the end of each turn of the loop: ends the turn's snapshots, and works.
 * True: do not wait before the next. */
bool jobs_end_turn(struct jobs *j);

/* A job of a connection, in no state. */
void job_init(struct job *job, struct jobs *j, struct conn *c,
              void (*stop)(struct job *job));

/* What the connection asks of the store from now on, up to job_asked(), is of
 * this job, where the store is not local: it may have -EAGAIN for an answer. */
void job_ask(struct job *job);

/* Whether something is not answered yet: CONN_PAUSE, and the same is asked
 * again when the connection is served. */
bool job_asked(struct job *job);

/* Whether the job has a place; if not it stands in line for one. */
bool job_enter(struct job *job);

/* It has a place, and what it needs. */
void job_run(struct job *job);

/* Without a place it waits until step(), with 0 as until_ns, is true. */
void job_wait(struct job *job, bool (*step)(struct job *job, uint64_t));

/* Whether one more job of the connection's client may wait, of `max` in all and
 * half as many of a client. */
bool jobs_may_wait(const struct jobs *j, const struct conn *c, unsigned max);

/* Milliseconds since it first did; 0: it has not; UINT64_MAX: its client has
 * closed, or half-closed, and is answered what is due now. */
uint64_t job_waited_ms(const struct job *job);

/* Ends the job in any state. */
void job_leave(struct job *job);

/* The job of a request over HTTP; if it has none one that is the first member
 * of `size` bytes, the others of which are not set.  It ends with its request,
 * and its memory is freed.  NULL: there is no memory. */
struct job *job_hold(struct http_call *x, struct jobs *j, size_t size,
                     void (*stop)(struct job *job));

#endif
