/* common/store/cluster/cluster_move.c - cluster_move(): the steps of a mover;
 * see cluster_move.h.  Read from the end. */
#include "common/store/cluster/cluster_move_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/store/cluster/outbox_record.h"

#define HOLD_TRIES 600 /* of 50 ms: a backup may be at the part */

/* Replies of countd1_hold. */
enum hold_reply { HOLD_DONE, HOLD_BUSY, HOLD_GONE = 3 };

bool
move_report(const struct move *m, enum cluster_move_step step)
{
    /* A slice may give a row twice. */
    const uint64_t rows = m->rows < m->of_rows ? m->rows : m->of_rows;

    return m->options->progress == NULL ||
           m->options->progress(m->options->ctx, step, rows, m->of_rows);
}

/* ---- the lease ---------------------------------------------------------- */

/* Keeps the parts closed that are. */
static int
renew_parts(struct move *m)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < m->place.parts; i++) {
        struct cluster_command close;

        move_begin(&close, m->k, m->place.generation, i,
                   "FCALL countd1_close 2", m->place.token);
        cluster_add_text(&close, "1");
        rc = move_do(m->c, &close);
    }
    return rc;
}

static int
renew_place(struct move *m)
{
    struct cluster_place next = m->place;
    const uint64_t now_ms = clock_ms();
    int rc;

    next.until_ms += now_ms - m->renewed_ms;
    rc = move_set_place(m->c, m->k, &m->place, &next);
    if (rc == 0)
        m->renewed_ms = now_ms;
    return rc;
}

int
move_renew(struct move *m)
{
    int rc;

    if (clock_ms() - m->renewed_ms < m->options->lease_ms / 4)
        return 0;
    rc = renew_place(m);
    return rc == 0 ? renew_parts(m) : rc;
}

/* ---- the old parts ------------------------------------------------------ */

/* Reads rows, sum and flagged rows from element `first` of a reply on. */
static int
take_totals(const redisReply *reply, size_t first, struct move_totals *out)
{
    const redisReply *sum = reply->element[first + 1];

    if (sum->type != REDIS_REPLY_STRING || sum->len != CLUSTER_SUM_SIZE)
        return -EBADMSG;
    out->rows = cluster_reply_number(reply->element[first]);
    out->sum = cluster_get_sum(sum->str);
    out->flagged = cluster_reply_number(reply->element[first + 2]);
    return 0;
}

static int
hold_part(struct move *m, uint32_t part)
{
    const struct timespec pace = {.tv_nsec = 50000000};
    struct move_totals *t = &m->old[part];
    struct cluster_command hold;
    uint64_t code = HOLD_BUSY;
    int rc = 0;

    for (int i = 0; rc == 0 && code == HOLD_BUSY && i < HOLD_TRIES; i++) {
        if (i > 0)
            (void)nanosleep(&pace, NULL);
        rc = i > 0 ? renew_place(m) : 0;
        if (rc < 0)
            return rc;
        move_begin(&hold, m->k, m->place.generation, part,
                   "FCALL countd1_hold 2", m->place.token);
        rc = move_run(m->c, &hold, 6, &code);
        if (rc == 0 && code == HOLD_DONE) {
            t->version = cluster_reply_number(hold.reply->element[1]);
            t->has_keys = cluster_reply_number(hold.reply->element[5]) == 1;
            rc = take_totals(hold.reply, 2, t);
            m->of_rows += t->rows;
        }
        cluster_end(&hold, 1);
    }
    return rc == 0 && code != HOLD_DONE ? -ESTALE : rc;
}

/* Closes all parts, and makes those that nothing was ever counted into. */
static int
hold_parts(struct move *m)
{
    int rc = 0;

    m->old = calloc(m->place.parts, sizeof *m->old);
    if (m->old == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < m->place.parts; i++)
        rc = hold_part(m, i);
    return rc;
}

static int
seal_parts(struct move *m)
{
    struct cluster_command seal;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < m->place.parts; i++) {
        move_begin(&seal, m->k, m->place.generation, i, "FCALL countd1_seal 2",
                   m->place.token);
        cluster_add_number(&seal, (int64_t)m->old[i].version);
        rc = move_do(m->c, &seal);
    }
    return rc;
}

/* ---- the new parts ------------------------------------------------------ */

/* A new part's version follows that of the part that it comes from, so that
 * their sum does not go back. */
static int
make_parts(struct move *m)
{
    const uint32_t fan = m->place.other_parts / m->place.parts;
    struct cluster_command make;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < m->place.other_parts; i++) {
        const struct move_totals *old = &m->old[i / fan];

        move_begin(&make, m->k, m->place.other, i, "FCALL countd1_make 2",
                   m->place.token);
        cluster_add_number(&make, (int64_t)old->version);
        cluster_add_number(&make, old->has_keys);
        rc = move_do(m->c, &make);
        if (rc == 0)
            rc = move_renew(m);
    }
    return rc;
}

static int
copy_parts(struct move *m)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < m->place.parts; i++)
        rc = move_copy_part(m, i);
    return rc;
}

/* Ends a new part and adds what it has. */
static int
finish_part(struct move *m, uint32_t part, struct move_totals *sum)
{
    struct cluster_command finish;
    struct move_totals t;
    uint64_t code = 0;
    int rc;

    move_begin(&finish, m->k, m->place.other, part, "FCALL countd1_finish 2",
               m->place.token);
    rc = move_run(m->c, &finish, 5, &code);
    if (rc == 0 && code != 0)
        rc = -ESTALE;
    if (rc == 0)
        rc = take_totals(finish.reply, 1, &t);
    if (rc == 0 && cluster_reply_number(finish.reply->element[4]) != t.rows)
        rc = -ESTALE;
    cluster_end(&finish, 1);
    if (rc < 0)
        return rc;
    sum->rows += t.rows;
    sum->flagged += t.flagged;
    sum->sum += t.sum;
    return 0;
}

/* Each old part has as much as the new ones that it became. */
static int
finish_parts(struct move *m)
{
    const uint32_t fan = m->place.other_parts / m->place.parts;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < m->place.parts; i++) {
        const struct move_totals *old = &m->old[i];
        struct move_totals sum = {.rows = 0};

        for (uint32_t j = 0; rc == 0 && j < fan; j++)
            rc = finish_part(m, i * fan + j, &sum);
        if (rc == 0 && (sum.rows != old->rows || sum.sum != old->sum ||
                        sum.flagged != old->flagged))
            rc = -ESTALE;
    }
    return rc;
}

/* Replicas have all that was written, and the masters still had it then. */
static int
make_durable(struct move *m)
{
    int rc;

    rc = move_await_replicas(m->c, m->k->replicas);
    if (rc == 0)
        rc = seal_parts(m);
    return rc == 0 ? finish_parts(m) : rc;
}

/* ---- the place ---------------------------------------------------------- */

/* Numbers that were given to a generation before are not used again. */
static int
begin_move(struct move *m, const struct cluster_place *from)
{
    const uint32_t used =
        from->other > from->generation ? from->other : from->generation;
    uint32_t number = used + 1;
    struct cluster_place is;
    uint32_t random;
    uint64_t now_ms;
    int rc;

    rc = m->options->to ? move_choose(m, from, used, &number) : 0;
    if (rc == 0)
        rc =
            cluster_place_read(m->c, m->k->name, m->k->name_size, &is, &now_ms);
    if (rc < 0)
        return rc;
    m->place =
        (struct cluster_place){.generation = from->generation,
                               .parts = from->parts,
                               .state = CLUSTER_PLACE_MOVING,
                               .other = number,
                               .other_parts = m->parts,
                               .until_ms = now_ms + m->options->lease_ms};
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -EIO;
    m->place.token = (uint64_t)random << 32 | number;
    m->renewed_ms = clock_ms();
    rc = cluster_place_replace(m->c, m->k->name, m->k->name_size, from,
                               &m->place);
    return rc == -ESTALE ? -EBUSY : rc;
}

static int
switch_place(struct move *m)
{
    return move_switch(m->c, m->k, &m->place);
}

/* Ends the lease at once where a step failed: all is as before then.  Where
 * that fails, too, it is done when the lease has ended. */
static void
give_up(struct move *m)
{
    struct cluster_place next = m->place;

    next.until_ms = 0;
    if (move_set_place(m->c, m->k, &m->place, &next) == 0)
        (void)cluster_move_settle(m->c, m->k, &next);
}

static int
run_steps(struct move *m)
{
    static const struct {
        int (*run)(struct move *m);
        enum cluster_move_step step;
    } steps[] = {{hold_parts, CLUSTER_MOVE_CLOSED},
                 {make_parts, CLUSTER_MOVE_MADE},
                 {copy_parts, CLUSTER_MOVE_COPIED},
                 {seal_parts, CLUSTER_MOVE_SEALED},
                 {finish_parts, CLUSTER_MOVE_WHOLE},
                 {make_durable, CLUSTER_MOVE_REPLICATED},
                 {switch_place, CLUSTER_MOVE_SWITCHED}};
    int rc = 0;

    if (!move_report(m, CLUSTER_MOVE_BEGUN))
        return -ECANCELED;
    for (size_t i = 0; rc == 0 && i < sizeof steps / sizeof *steps; i++) {
        rc = steps[i].run(m);
        if (rc == 0 && !move_report(m, steps[i].step))
            rc = -ECANCELED;
    }
    if (rc < 0 && rc != -ECANCELED)
        give_up(m);
    return rc;
}

static int
judge_parts(const struct cluster_place *place, uint32_t parts, bool is_to)
{
    if (parts == place->parts)
        return is_to ? 0 : -EALREADY;
    return parts < place->parts || parts > OUTBOX_PARTS_MAX ||
                   parts % place->parts != 0
               ? -EINVAL
               : 0;
}

int
cluster_move(struct cluster *c, const struct cluster_move_keyspace *k,
             const struct cluster_move_options *options,
             struct cluster_move_result *out)
{
    uint32_t parts = options->parts;
    struct move *m;
    int rc;

    *out = (struct cluster_move_result){.rows = 0};
    rc = cluster_need_map(c);
    if (rc == 0)
        rc = cluster_move_settle(c, k, &out->from);
    if (parts == 0)
        parts = out->from.parts;
    if (rc == 0)
        rc = judge_parts(&out->from, parts, options->to != NULL);
    if (rc < 0)
        return rc;
    m = calloc(1, sizeof *m);
    if (m == NULL)
        return -ENOMEM;
    *m = (struct move){.c = c, .k = k, .options = options, .parts = parts};
    rc = begin_move(m, &out->from);
    if (rc == 0)
        rc = run_steps(m);
    out->rows = m->of_rows;
    free(m->old);
    free(m);
    return rc == 0 ? cluster_move_settle(c, k, &out->to) : rc;
}
