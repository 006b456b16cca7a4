/* reader/range.c - see range.h. */
#include "reader/range.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define IN_SIZE    POOL_CHUNK_SIZE /* requests of one turn; fits one chunk */
#define OUT_BUDGET ((size_t)256 * 1024) /* answers of one turn, roughly */
#define OUT_SIZE   (OUT_BUDGET + ANSWER_SIZE_MAX)

#define QUEUE_BATCH 256 /* queued connections served in one turn */
#define TICK_MS     250
#define PIECES_MAX  64
#define LINGER_READ ((size_t)1 << 20)

/* Needs above SMALL chunks must leave RESERVE free.  Below FRUGAL a turn
 * takes one request only, which fits the connection itself, so that requests
 * that wait for memory cannot fill it. */
#define SMALL   16
#define RESERVE 256
#define FRUGAL  512

static_assert(FRUGAL > RESERVE + ANSWER_SIZE_MAX / POOL_CHUNK_SIZE + 2,
              "the largest answer fits when none but requests are held");
static_assert(RANGE_POOL_CHUNKS > 2 * FRUGAL, "else every turn is frugal");

static const uint32_t state_events[RANGE_STATES] = {
    [RANGE_SERVING] = EPOLLIN,
    [RANGE_QUEUED] = EPOLLIN, /* as before: saves two system calls */
    [RANGE_DRAINING] = EPOLLOUT,
    [RANGE_LINGERING] = EPOLLIN,
};

/* ---- states ------------------------------------------------------------ */

static void
arm_tick(struct range *r)
{
    if (r->tick.deadline_ms == 0)
        /* There is room: this loop has few timers. */
        (void)loop_arm(r->loop, &r->tick, loop_now_ms(r->loop) + TICK_MS);
}

/* Moves a connection to the end of a state's list. */
static void
enter(struct range_conn *c, enum range_state state)
{
    struct range *r = c->range;

    if (c->state == RANGE_WAITING || state == RANGE_WAITING)
        r->waiters_changed = true;
    TAILQ_REMOVE(&r->lists[c->state], c, entry);
    r->counts[c->state]--;
    c->state = state;
    c->changed_ms = loop_now_ms(r->loop);
    TAILQ_INSERT_TAIL(&r->lists[state], c, entry);
    r->counts[state]++;
    if (state == RANGE_WAITING || state == RANGE_LINGERING)
        arm_tick(r);
    if (state != RANGE_FREE)
        /* Fails for no registered descriptor. */
        (void)loop_change(r->loop, &c->source, state_events[state]);
}

static void
close_conn(struct range_conn *c)
{
    struct range *r = c->range;
    const int fd = c->source.fd;

    rchain_drop(&r->pool, &c->unsent, c->unsent.size);
    rchain_drop(&r->pool, &c->stash, c->stash.size);
    loop_remove(r->loop, &c->source);
    if (r->listed == c) {
        answer_list_stop(r->answer);
        r->listed = NULL;
    }
    (void)close(fd); /* what it sent is with the kernel */
    enter(c, RANGE_FREE);
    listener_closed(&r->listener);
}

/* Ends a connection whose last answer is with the kernel. */
static void
linger(struct range_conn *c)
{
    if (shutdown(c->source.fd, SHUT_WR) < 0)
        close_conn(c); /* the peer has gone */
    else
        enter(c, RANGE_LINGERING);
}

/* ---- requests ---------------------------------------------------------- */

static bool
has_request(const uint8_t *bytes, size_t size)
{
    const size_t want = query_size(bytes, size);

    return want > 0 && size >= want;
}

/* Puts what is left of the requests of this connection into r->in. */
static size_t
load(struct range_conn *c)
{
    struct range *r = c->range;
    struct iovec piece;
    size_t size = c->in_size;

    if (c->stash.size == 0) {
        memcpy(r->in, c->in, size);
        c->in_size = 0;
        return size;
    }
    assert(size == 0 && c->stash.size <= IN_SIZE);
    size = c->stash.size;
    if (rchain_pieces(&r->pool, &c->stash, &piece, 1) == 1)
        memcpy(r->in, piece.iov_base, size);
    rchain_drop(&r->pool, &c->stash, size);
    return size;
}

/* Keeps requests for a later turn. */
static void
keep(struct range_conn *c, const uint8_t *bytes, size_t size)
{
    assert(c->in_size == 0 && c->stash.size == 0);
    if (size <= sizeof c->in) {
        memcpy(c->in, bytes, size);
        c->in_size = size;
    } else {
        rchain_push(&c->range->pool, &c->stash, bytes, size);
    }
}

/* Takes requests from the socket behind the `size` bytes in r->in: the new
 * size; -EAGAIN, -EPIPE at the end, or what recv said. */
static ssize_t
receive(struct range_conn *c, size_t size)
{
    struct range *r = c->range;
    size_t room = IN_SIZE - size;
    ssize_t n;

    if (r->pool.free_count < FRUGAL) {
        room = query_size(r->in, size);
        room = (room > 0 ? room : QUERY_SIZE) - size;
    }
    n = recv(c->source.fd, r->in + size, room, MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    return n == 0 ? -EPIPE : (ssize_t)size + n;
}

static bool
fits(const struct range *r, size_t need)
{
    return need + (need > SMALL ? RESERVE : 0) <= r->pool.free_count;
}

/* May an answer of up to `bound` bytes be made behind `out_size` bytes?  If
 * it is the first, and may not, c->need says for what to wait. */
static bool
may_answer(struct range_conn *c, size_t bound, size_t out_size)
{
    struct range *r = c->range;
    /* One chunk more, for the requests behind it. */
    const size_t need = rpool_chunks(out_size + bound) + 1;

    if (out_size >= OUT_BUDGET)
        return false;
    if (fits(r, need) &&
        (need <= SMALL || c->granted || r->counts[RANGE_WAITING] == 0))
        return true;
    if (out_size == 0)
        c->need = need;
    return false;
}

/* Adds requests that are answered together behind `out_size` bytes of answers;
 * returns the bytes of them. */
static size_t
add_requests(struct range_conn *c, const uint8_t *bytes, size_t size,
             size_t out_size)
{
    struct answer *a = c->range->answer;
    struct query q;
    size_t at = 0;

    while (has_request(bytes + at, size - at)) {
        if (query_parse(bytes + at, &q) < 0 || answer_is_list(&q) ||
            !may_answer(c, answer_bound(&q), out_size + a->bound) ||
            !answer_add(a, &q))
            break;
        at += query_size(bytes + at, size - at);
    }
    return at;
}

/* Answers requests into r->out until they, or what one turn allows, end.
 * Returns the bytes of answers; *taken those of requests. */
static size_t
answer_all(struct range_conn *c, size_t size, size_t *taken)
{
    struct range *r = c->range;
    struct query q;
    size_t at = 0, out_size = 0, added;

    while ((added = add_requests(c, r->in + at, size - at, out_size)) > 0) {
        out_size += answer_put(r->answer, r->out + out_size, &c->closing);
        at += added;
        if (c->closing)
            break;
    }
    if (!c->closing && has_request(r->in + at, size - at)) {
        if (query_parse(r->in + at, &q) == 0) {
            /* A listing: what is before it goes out first. */
            c->listing = answer_is_list(&q) && out_size == 0;
        } else if (may_answer(c, QUERY_REPLY_SIZE, out_size)) {
            out_size += answer_error(-EINVAL, r->out + out_size);
            c->closing = true;
        }
    }
    *taken = c->closing ? size : at;
    return out_size;
}

/* Sends answers; what the peer does not take waits in the pool. */
static int
send_answers(struct range_conn *c, size_t size)
{
    struct range *r = c->range;
    ssize_t n = 0;
    int rc;

    if (size > 0)
        n = send(c->source.fd, r->out, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
        rc = -errno;
        if (rc != -EAGAIN && rc != -EINTR)
            return rc;
        n = 0;
    }
    rchain_push(&r->pool, &c->unsent, r->out + n, size - (size_t)n);
    return 0;
}

/* Where a connection goes when its turn is over. */
static void
settle(struct range_conn *c)
{
    const bool more = c->stash.size > 0 || has_request(c->in, c->in_size);

    if (c->unsent.size > 0)
        enter(c, RANGE_DRAINING);
    else if (c->closing)
        linger(c);
    else if (c->need > 0)
        enter(c, RANGE_WAITING);
    else if (c->listing)
        enter(c, RANGE_LISTING);
    else if (more || c->range->stopping)
        enter(c, RANGE_QUEUED);
    else if (c->state != RANGE_SERVING)
        enter(c, RANGE_SERVING);
}

/* One turn of a connection that owes nothing. */
static void
serve(struct range_conn *c)
{
    struct range *r = c->range;
    size_t size, taken, out_size;
    ssize_t n;

    assert(c->unsent.size == 0 && !c->closing);
    size = load(c);
    if (!has_request(r->in, size)) {
        n = receive(c, size);
        if (n == -EAGAIN && !r->stopping) {
            keep(c, r->in, size);
            settle(c);
            return;
        }
        if (n < 0) {
            /* The end, a reset, or a clean stop and nothing has arrived.  A
             * fragment of a request leaves no trace. */
            close_conn(c);
            return;
        }
        size = (size_t)n;
    }
    if (!r->in_turn)
        answer_start_turn(r->answer, loop_now_ms(r->loop));
    r->in_turn = true;
    c->need = 0;
    out_size = answer_all(c, size, &taken);
    c->granted &= c->listing;
    keep(c, r->in + taken, size - taken);
    if (send_answers(c, out_size) < 0)
        close_conn(c);
    else
        settle(c);
}

/* A step of the listing that is first in line. */
static void
serve_listing(struct range *r)
{
    struct range_conn *c = TAILQ_FIRST(&r->lists[RANGE_LISTING]);
    struct query q;
    size_t size, out_size;

    if (r->listed != c) {
        size = load(c);
        if (query_parse(r->in, &q) == 0) /* it was before */
            answer_list_start(r->answer, &q, loop_now_ms(r->loop));
        keep(c, r->in, size);
        r->listed = c;
    }
    if (!answer_list_step(r->answer))
        return;
    r->listed = NULL;
    c->listing = false;
    if (!may_answer(c, answer_list_size(r->answer), 0)) {
        enter(c, RANGE_WAITING); /* to be listed again */
        return;
    }
    c->granted = false;
    size = load(c);
    out_size = answer_list_put(r->answer, r->out, &c->closing);
    if (!c->closing)
        keep(c, r->in + QUERY_EXTENDED_SIZE, size - QUERY_EXTENDED_SIZE);
    if (send_answers(c, out_size) < 0)
        close_conn(c);
    else
        settle(c);
}

/* ---- events ------------------------------------------------------------ */

/* The peer takes bytes again. */
static void
drain(struct range_conn *c)
{
    struct range *r = c->range;
    struct iovec pieces[PIECES_MAX];
    struct msghdr m = {.msg_iov = pieces};
    ssize_t n;
    int rc;

    m.msg_iovlen = rchain_pieces(&r->pool, &c->unsent, pieces, PIECES_MAX);
    n = sendmsg(c->source.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
        rc = -errno;
        if (rc != -EAGAIN && rc != -EINTR)
            close_conn(c);
        return;
    }
    rchain_drop(&r->pool, &c->unsent, (size_t)n);
    settle(c); /* to the end of its list: it is not the most stalled */
}

/* Throws away what the peer sends after its error. */
static void
discard(struct range_conn *c)
{
    ssize_t n;

    n = recv(c->source.fd, NULL, LINGER_READ, MSG_DONTWAIT | MSG_TRUNC);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_conn(c);
}

static void
conn_ready(struct loop_source *source, uint32_t events)
{
    struct range_conn *c = LOOP_OWNER(source, struct range_conn, source);

    /* Reset, or closed both ways: nobody is there to take an answer. */
    if (events & (EPOLLERR | EPOLLHUP))
        close_conn(c);
    else if (c->state == RANGE_SERVING)
        serve(c);
    else if (c->state == RANGE_DRAINING)
        drain(c);
    else if (c->state == RANGE_LINGERING)
        discard(c);
}

static void
conn_accepted(struct listener *l, int fd)
{
    struct range *r = LOOP_OWNER(l, struct range, listener);
    struct range_conn *c = TAILQ_FIRST(&r->lists[RANGE_FREE]);

    if (!c) {
        assert(r->conn_used < r->conn_max);
        c = &r->conns[r->conn_used++];
        TAILQ_INSERT_TAIL(&r->lists[RANGE_FREE], c, entry);
        r->counts[RANGE_FREE]++;
    }
    c->range = r;
    c->source = (struct loop_source){.fd = -1, .ready = conn_ready};
    c->closing = false;
    c->granted = false;
    c->listing = false;
    c->need = 0;
    c->unsent = (struct rchain){0};
    c->stash = (struct rchain){0};
    c->in_size = 0;
    if (loop_add(r->loop, &c->source, fd, EPOLLIN) < 0) {
        (void)close(fd); /* no memory in the kernel; nothing was promised */
        listener_closed(l);
        return;
    }
    enter(c, RANGE_SERVING);
}

/* Closes peers that took nothing for long, the longest first, while somebody
 * waits for their memory. */
static void
close_stalled(struct range *r)
{
    const uint64_t now = loop_now_ms(r->loop);
    struct range_conn *c, *waiter;

    for (;;) {
        c = TAILQ_FIRST(&r->lists[RANGE_DRAINING]);
        waiter = TAILQ_FIRST(&r->lists[RANGE_WAITING]);
        if (!c || !waiter || fits(r, waiter->need) ||
            now - c->changed_ms < r->stall_ms)
            return;
        close_conn(c);
    }
}

static void
close_lingering(struct range *r)
{
    const uint64_t now = loop_now_ms(r->loop);
    struct range_conn *c;

    for (;;) {
        c = TAILQ_FIRST(&r->lists[RANGE_LINGERING]);
        if (!c || now - c->changed_ms < RANGE_LINGER_MS)
            return;
        close_conn(c);
    }
}

static void
tick_due(struct loop_timer *timer)
{
    struct range *r = LOOP_OWNER(timer, struct range, tick);

    close_stalled(r);
    close_lingering(r);
    if (r->stopping && loop_now_ms(r->loop) >= r->stop_ms)
        loop_stop(r->loop);
    if (r->stopping || r->counts[RANGE_WAITING] || r->counts[RANGE_LINGERING])
        arm_tick(r);
}

/* Lets those go on whose answers have memory now, first come first served;
 * small needs pass a large one that has to wait. */
static void
grant(struct range *r)
{
    struct range_conn *c, *next;
    size_t free = r->pool.free_count, least;
    bool blocked = false, granted = false;

    if (free == r->granted_free && !r->waiters_changed)
        return;
    for (c = TAILQ_FIRST(&r->lists[RANGE_WAITING]); c; c = next) {
        next = TAILQ_NEXT(c, entry);
        least = c->need + (c->need > SMALL ? RESERVE : 0);
        if (c->need > SMALL && blocked)
            continue;
        if (least > free) {
            blocked = true;
            continue;
        }
        free -= c->need;
        granted = true;
        c->granted = true;
        c->need = 0;
        enter(c, RANGE_QUEUED);
    }
    r->granted_free = r->pool.free_count;
    /* Most answers leave at once, and what was set apart for them is free
     * again without a change that shows. */
    r->waiters_changed = granted;
}

static bool
after_turn(void *ctx)
{
    struct range *r = ctx;
    size_t n;

    if (r->counts[RANGE_WAITING] > 0)
        grant(r);
    n = r->counts[RANGE_QUEUED];
    if (n > QUEUE_BATCH)
        n = QUEUE_BATCH;
    while (n-- > 0)
        serve(TAILQ_FIRST(&r->lists[RANGE_QUEUED]));
    if (r->in_turn)
        answer_end_turn(r->answer);
    r->in_turn = false;
    if (r->counts[RANGE_LISTING] > 0)
        serve_listing(r);
    if (r->stopping && r->listener.open == 0)
        loop_stop(r->loop);
    return r->counts[RANGE_QUEUED] > 0 || r->counts[RANGE_LISTING] > 0 ||
           (r->counts[RANGE_WAITING] > 0 && r->waiters_changed);
}

/* ---- start and stop ---------------------------------------------------- */

int
range_init(struct range *r, struct loop *loop, struct answer *answer,
           size_t conn_max)
{
    int rc;

    assert(conn_max > 0);
    *r = (struct range){.loop = loop,
                        .answer = answer,
                        .conn_max = conn_max,
                        .stall_ms = RANGE_STALL_MS};
    r->listener.source.fd = -1;
    r->listener.accepted = conn_accepted;
    r->tick = (struct loop_timer){.slot = -1, .due = tick_due};
    for (int i = 0; i < RANGE_STATES; i++)
        TAILQ_INIT(&r->lists[i]);
    rc = rpool_init(&r->pool, RANGE_POOL_CHUNKS);
    if (rc < 0)
        return rc;
    /* Large enough to be maps of their own: untouched pages cost nothing. */
    r->conns = calloc(conn_max, sizeof *r->conns);
    r->in = malloc(IN_SIZE);
    r->out = malloc(OUT_SIZE);
    if (!r->conns || !r->in || !r->out) {
        range_fini(r);
        return -ENOMEM;
    }
    loop_after_turn(loop, after_turn, r);
    return 0;
}

int
range_listen(struct range *r, int fd)
{
    return listener_start(&r->listener, r->loop, fd, r->conn_max);
}

void
range_stop(struct range *r)
{
    struct range_conn *c;

    if (r->stopping)
        return;
    r->stopping = true;
    r->stop_ms = loop_now_ms(r->loop) + RANGE_STOP_MS;
    listener_stop(&r->listener);
    while ((c = TAILQ_FIRST(&r->lists[RANGE_SERVING])) != NULL)
        enter(c, RANGE_QUEUED);
    arm_tick(r);
}

void
range_fini(struct range *r)
{
    listener_stop(&r->listener);
    for (size_t i = 0; i < r->conn_used; i++)
        if (r->conns[i].state != RANGE_FREE)
            close_conn(&r->conns[i]);
    loop_disarm(r->loop, &r->tick);
    free(r->conns);
    free(r->in);
    free(r->out);
    rpool_fini(&r->pool);
    *r = (struct range){0};
}
