/* common/net/io.c - see io.h: io_start(), io_push(), io_stop(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/io.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/diag.h"

static struct io_job *
pop_job(struct list_link *list)
{
    return LOOP_OWNER(list_pop(list), struct io_job, link);
}

static void
wake_loop(struct io *io)
{
    const uint64_t one = 1;
    ssize_t n;

    /* The counter cannot overflow: the loop takes it whole each turn. */
    do
        n = write(io->source.fd, &one, sizeof one);
    while (n < 0 && errno == EINTR);
    assert(n == (ssize_t)sizeof one);
}

static void *
run_jobs(void *arg)
{
    struct io *io = arg;
    struct io_job *job;
    bool first;

    (void)pthread_mutex_lock(&io->mutex);
    for (;;) {
        if (list_alone(&io->todo)) {
            if (io->stopping)
                break;
            pthread_cond_wait(&io->wake, &io->mutex);
            continue;
        }
        job = pop_job(&io->todo);
        (void)pthread_mutex_unlock(&io->mutex);
        job->run(job);
        (void)pthread_mutex_lock(&io->mutex);
        first = list_alone(&io->finished);
        list_add(&io->finished, &job->link);
        if (first) {
            (void)pthread_mutex_unlock(&io->mutex);
            wake_loop(io);
            (void)pthread_mutex_lock(&io->mutex);
        }
    }
    (void)pthread_mutex_unlock(&io->mutex);
    return NULL;
}

static void
take_finished(struct loop_source *source, uint32_t events)
{
    struct io *io = LOOP_OWNER(source, struct io, source);
    struct list_link finished;
    struct io_job *job;
    uint64_t count;

    (void)events; /* readable is all it can be */
    /* Only resets the counter; the queue says what is finished. */
    if (read(source->fd, &count, sizeof count) < 0)
        return;
    list_init(&finished);
    (void)pthread_mutex_lock(&io->mutex);
    while (!list_alone(&io->finished))
        list_add(&finished, list_pop(&io->finished));
    (void)pthread_mutex_unlock(&io->mutex);
    while (!list_alone(&finished)) {
        job = pop_job(&finished);
        job->done(job);
    }
}

static int
report_error(int rc, const char *what)
{
    diag_errno(DIAG_ERROR, rc, "%s for a thread that waits", what);
    return rc;
}

/* The thread takes no signals: they are the loop's. */
static int
start_thread(struct io *io)
{
    sigset_t all, before;
    int rc;

    (void)sigfillset(&all); /* cannot fail: the address is ours */
    rc = -pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc < 0)
        return report_error(rc, "block signals");
    rc = -pthread_create(&io->thread, NULL, run_jobs, io);
    /* Cannot fail: the mask is one that stood before. */
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc < 0 ? report_error(rc, "create a thread") : 0;
}

int
io_start(struct io *io, struct loop *loop)
{
    int fd, rc;

    *io = (struct io){.loop = loop, .source = {.fd = -1}};
    io->source.ready = take_finished;
    list_init(&io->todo);
    list_init(&io->finished);
    fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return report_error(-errno, "make an eventfd");
    rc = loop_add(loop, &io->source, fd, EPOLLIN);
    if (rc < 0) {
        (void)report_error(rc, "watch an eventfd");
        goto close_fd;
    }
    rc = -pthread_mutex_init(&io->mutex, NULL);
    if (rc < 0)
        goto remove_source;
    rc = -pthread_cond_init(&io->wake, NULL);
    if (rc < 0)
        goto destroy_mutex;
    rc = start_thread(io);
    if (rc < 0)
        goto destroy_cond;
    return 0;

destroy_cond:
    (void)pthread_cond_destroy(&io->wake); /* no thread waits on it */
destroy_mutex:
    (void)pthread_mutex_destroy(&io->mutex); /* nobody holds it */
remove_source:
    loop_remove(loop, &io->source);
close_fd:
    (void)close(fd); /* an eventfd has nothing to lose */
    return rc;
}

void
io_push(struct io *io, struct io_job *job)
{
    bool idle;

    assert(job->run);
    assert(job->done);
    (void)pthread_mutex_lock(&io->mutex);
    idle = list_alone(&io->todo);
    list_add(&io->todo, &job->link);
    (void)pthread_mutex_unlock(&io->mutex);
    if (idle)
        pthread_cond_signal(&io->wake);
}

void
io_stop(struct io *io)
{
    const int fd = io->source.fd;
    int rc;

    (void)pthread_mutex_lock(&io->mutex);
    io->stopping = true;
    (void)pthread_mutex_unlock(&io->mutex);
    pthread_cond_signal(&io->wake);
    rc = pthread_join(io->thread, NULL);
    assert(rc == 0);
    loop_remove(io->loop, &io->source);
    (void)close(fd);                       /* nothing to lose */
    (void)pthread_cond_destroy(&io->wake); /* the thread is gone */
    (void)pthread_mutex_destroy(&io->mutex);
}
