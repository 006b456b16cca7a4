/* common/store/cluster/sender.c - the thread of sender.h: sender_start(),
 * run_thread(), sender_stop(). */
#include "common/store/cluster/sender_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"

#define IDLE_MS   50   /* the outbox is looked at this often */
#define LOCK_MS   1000 /* another sender is at work: try again */
#define SETTLE_MS 250

/* ---- parts -------------------------------------------------------------- */

static struct sender_keyspace *
new_keyspace(struct outbox_keyspace *k, const struct cluster_place *place)
{
    struct sender_keyspace *sk =
        calloc(1, sizeof *sk + place->parts * sizeof sk->parts[0]);

    if (sk == NULL)
        return NULL;
    sk->place = *place;
    sk->fan = place->parts / k->part_count;
    for (uint32_t i = 0; i < place->parts; i++) {
        struct sender_part *p = &sk->parts[i];

        p->chain = &k->parts[i / sk->fan];
        p->number = i;
        p->node = CLUSTER_NO_NODE;
        p->keys =
            cluster_part_keys(k->name, k->name_size, place->generation, i);
    }
    return sk;
}

struct sender_keyspace *
sender_keyspace_of(struct outbox_keyspace *k)
{
    const struct cluster_place place = {.generation = k->generation,
                                        .parts = k->part_count};

    if (k->sender == NULL)
        k->sender = new_keyspace(k, &place);
    return k->sender;
}

/* Entries that were acknowledged stay so: the masters of the new parts and
 * their replicas had them before the change.  The audit asks them. */
int
sender_replace_keyspace(struct cluster_sender *s, struct outbox_keyspace *k,
                        const struct cluster_place *place)
{
    struct sender_keyspace *sk = new_keyspace(k, place);

    if (sk == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < place->parts; i++) {
        struct sender_part *p = &sk->parts[i];

        p->acked = p->chain->acked;
        p->node = cluster_node_of(s->cluster, p->keys.slot);
    }
    free(k->sender);
    k->sender = sk;
    return 0;
}

struct sender_part *
sender_parts_of(const struct outbox_part *chain, uint32_t *count)
{
    struct sender_keyspace *sk = chain->keyspace->sender;

    *count = sk ? sk->fan : 0;
    return sk ? &sk->parts[(size_t)chain->number * sk->fan] : NULL;
}

void
sender_update_chain(struct outbox_part *chain)
{
    const uint64_t now_ms = clock_ms();
    uint32_t count;
    const struct sender_part *p = sender_parts_of(chain, &count);
    uint64_t acked = count > 0 ? UINT64_MAX : 0;

    /* A part whose next entry failed is audited, and has meanwhile what it
     * acknowledged before. */
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t has = p[i].state < SENDER_LOST ? p[i].acked : 0;

        acked = has < acked ? has : acked;
    }
    for (size_t i = 0; i < chain->count; i++) {
        struct outbox_entry *e = &chain->entries[chain->first + i];

        if (e->number > acked)
            e->acked_ms = 0;
        else if (e->number > chain->acked)
            e->acked_ms = now_ms;
    }
    chain->acked = acked;
}

bool
sender_is_acked(const struct outbox_part *p, const struct outbox_entry *e)
{
    return e->number <= p->acked && e->acked_ms != 0;
}

bool
sender_is_replicated(const struct cluster_sender *s,
                     const struct outbox_part *chain,
                     const struct outbox_entry *e)
{
    uint32_t count;
    const struct sender_part *p = sender_parts_of(chain, &count);

    if (!sender_is_acked(chain, e))
        return false;
#ifdef COUNTD_MUTANT_SETTLE_WITHOUT_REPLICAS
    return true;
#endif
    /* An acknowledgement of the same millisecond may have come after the offset
     * that the replicas have reached. */
    for (uint32_t i = 0; s->options.replicas > 0 && i < count; i++)
        if (p[i].node == CLUSTER_NO_NODE ||
            e->acked_ms >= s->nodes[p[i].node].replicated_ms)
            return false;
    return true;
}

/* ---- the thread --------------------------------------------------------- */

static bool
must_stop(struct cluster_sender *s)
{
    bool stops;

    (void)pthread_mutex_lock(&s->mutex);
    stops = s->stops;
    (void)pthread_mutex_unlock(&s->mutex);
    return stops;
}

static void
wait_for_work(struct cluster_sender *s, int ms)
{
    struct pollfd at = {.fd = s->wake_fd, .events = POLLIN};
    uint64_t count;

    if (poll(&at, 1, ms) == 1)
        (void)read(s->wake_fd, &count, sizeof count);
}

/* Opens the outbox and becomes its sender.  False: not yet. */
static bool
take_office(struct cluster_sender *s)
{
    static struct diag_repeat repeat;
    int rc = 0;

    if (s->outbox == NULL)
        rc = outbox_open(&s->outbox, &s->options.outbox);
    if (rc == 0)
        rc = outbox_lock_sender(s->outbox);
    if (rc < 0 && rc != -EAGAIN)
        diag_repeating(&repeat, DIAG_ERROR, "open data/" OUTBOX_FOLDER ": %s",
                       diag_text(rc));
    return rc == 0;
}

/* One turn.  True: there may be more to do at once. */
static bool
do_turn(struct cluster_sender *s)
{
    static struct diag_repeat repeat;
    bool is_busy;
    int rc;

    s->turn_ms = clock_ms();
    sender_read_logs(s);
    rc = outbox_refresh(s->outbox);
    if (rc < 0) {
        diag_repeating(&repeat, DIAG_ERROR, "read data/" OUTBOX_FOLDER ": %s",
                       diag_text(rc));
        return false;
    }
    is_busy = sender_name_keyspaces(s);
    is_busy = sender_audit(s) || is_busy;
    is_busy = sender_send(s) || is_busy;
    is_busy = sender_rebuild(s) || is_busy;
    if (s->turn_ms >= s->poll_ms) {
        s->poll_ms = s->turn_ms + SETTLE_MS;
        sender_settle(s, s->turn_ms);
    }
    sender_publish(s, s->turn_ms);
    return is_busy;
}

static void *
run_thread(void *ctx)
{
    struct cluster_sender *s = ctx;
    bool is_sender = false;

    while (!must_stop(s)) {
        if (!is_sender)
            is_sender = take_office(s);
        if (!is_sender)
            wait_for_work(s, LOCK_MS);
        else if (!do_turn(s))
            wait_for_work(s, IDLE_MS);
    }
    return NULL;
}

/* ---- from outside ------------------------------------------------------- */

static void
free_sender(struct cluster_sender *s)
{
    for (size_t i = 0; i < SENDER_COMMANDS; i++)
        sender_batch_fini(&s->slots[i].batch);
    outbox_close(s->outbox);
    cluster_close(s->cluster);
    if (s->held != NULL)
        held_close(s->held);
    if (s->logs_are_open)
        logdir_close(&s->logs);
    if (s->wake_fd >= 0)
        (void)close(s->wake_fd);
    (void)pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* Starts the thread with all signals blocked: they are for its starter. */
static int
start_thread(struct cluster_sender *s)
{
    sigset_t all, before;
    int rc;

    (void)sigfillset(&all);
    rc = -pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc < 0)
        return rc;
    rc = -pthread_create(&s->thread, NULL, run_thread, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int
sender_start(struct cluster_sender **out, const struct sender_options *options)
{
    struct cluster_sender *s = calloc(1, sizeof *s);
    int rc;

    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    (void)pthread_mutex_init(&s->mutex, NULL);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = s->wake_fd < 0 ? -errno : cluster_open(&s->cluster, &options->cluster);
    if (rc == 0 && options->log_fd >= 0) {
        rc = logdir_open(&s->logs, options->log_fd, options->layout,
                         options->log_size);
        s->logs_are_open = rc == 0;
    }
    if (rc == 0)
        rc = start_thread(s);
    if (rc < 0)
        free_sender(s);
    else
        *out = s;
    return rc;
}

void
sender_wake(struct cluster_sender *s)
{
    const uint64_t one = 1;

    /* A full count wakes as well. */
    if (s != NULL)
        (void)write(s->wake_fd, &one, sizeof one);
}

void
sender_stop(struct cluster_sender *s)
{
    if (s == NULL)
        return;
    (void)pthread_mutex_lock(&s->mutex);
    s->stops = true;
    (void)pthread_mutex_unlock(&s->mutex);
    sender_wake(s);
    (void)pthread_join(s->thread, NULL);
    free_sender(s);
}

void
sender_stats(struct cluster_sender *s, struct sender_stats *out)
{
    (void)pthread_mutex_lock(&s->mutex);
    *out = s->stats;
    (void)pthread_mutex_unlock(&s->mutex);
}
