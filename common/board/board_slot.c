/* common/board/board_slot.c - reading and changing what is in slots; see
 * board_internal.h.
 *
 * Entry points: countd_board_read(), countd_board_read_cell(),
 * countd_board_update(), countd_board_add(), countd_board_claim(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/board/board_internal.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#define READ_TRIES   1000000u
#define YIELD_AFTER  64u  /* tries of a busy word */
#define SLEEP_AFTER  256u /* then its writer is looked at, too */
#define RECOVER_EACH 1024u
#define LOST_PAUSES  64u /* a quarter of a microsecond to three */

static inline void
relax_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* ---- blocks ------------------------------------------------------------ */

/* A consistent copy, and its generation.  -EBUSY. */
static inline int
block_read(struct board_block k, int64_t *values, uint64_t *generation)
{
    uint64_t word = atomic_load_explicit(k.word, memory_order_acquire);

    for (unsigned i = 0; i < READ_TRIES; i++) {
        const uint64_t g = board_generation(word);
        const _Atomic int64_t *from = board_copy(k, g);

        for (size_t j = 0; j < k.count; j++)
            values[j] = board_load(from + j);
        BOARD_LOOK();
        word = atomic_load_explicit(k.word, memory_order_acquire);
        if (board_generation(word) == g) {
            *generation = g;
            return 0;
        }
    }
    return -EBUSY;
}

/* Waits a little for a busy word. */
static int
wait_for(struct countd_board *b, _Atomic uint64_t *word, unsigned tries)
{
    const struct timespec pause = {.tv_nsec = 100000};
    int rc;

    /* If few are allowed, the writer is looked at nowhere else. */
    if (tries == b->tries)
        return board_recover(b, word);
    if (tries > b->tries)
        return -EBUSY;
    if (tries < YIELD_AFTER) {
        relax_cpu();
    } else if (tries < SLEEP_AFTER) {
        (void)sched_yield();
    } else {
        rc = tries % RECOVER_EACH == SLEEP_AFTER ? board_recover(b, word) : 0;
        if (rc < 0 && rc != -EBUSY)
            return rc;
        if (rc == -EBUSY || tries % RECOVER_EACH != SLEEP_AFTER)
            (void)nanosleep(&pause, NULL); /* cut short: the next try */
    }
    return 0;
}

/* Takes the word, of any generation (BOARD_ANY) or a certain one, which is
 * first tried unseen, since it is nearly always there.  *generation is the
 * present one then.  -ESTALE, -EBUSY. */
static inline int
block_take(struct countd_board *b, _Atomic uint64_t *at, uint32_t me,
           uint64_t *generation)
{
    const uint64_t expected = *generation;
    unsigned tries = 0;
    uint64_t word = expected != BOARD_ANY
                        ? board_word(expected, 0)
                        : atomic_load_explicit(at, memory_order_acquire);
    int rc;

    for (;;) {
        if (expected != BOARD_ANY && board_generation(word) != expected)
            return -ESTALE;
        if (board_is_busy(word)) {
            rc = wait_for(b, at, tries++);
            if (rc < 0)
                return rc;
            word = atomic_load_explicit(at, memory_order_acquire);
            continue;
        }
        BOARD_STEP();
        if (atomic_compare_exchange_strong_explicit(
                at, &word, board_word(board_generation(word), me),
                memory_order_acq_rel, memory_order_acquire))
            break;
    }
    *generation = board_generation(word);
    return 0;
}

/* ---- reading ----------------------------------------------------------- */

int
countd_board_read(struct countd_board *b, uint32_t slot, int64_t *shared,
                  uint64_t *generation)
{
    if (slot >= b->slot_count)
        return -EINVAL;
    if (board_is_retired(b))
        return -ENOTCONN;
    return block_read(board_shared(b, slot), shared, generation);
}

int
countd_board_read_owned(struct countd_board *b, uint32_t slot, uint32_t cell,
                        int64_t *values, struct countd_board_owner *owner)
{
    int64_t all[COUNTD_BOARD_VALUES_MAX + 1];
    uint64_t generation;
    uint32_t process;
    int rc;

    if (slot >= b->slot_count || cell >= b->cells)
        return -EINVAL;
    if (board_is_retired(b))
        return -ENOTCONN;
    rc = block_read(board_cell(b, slot, cell), all, &generation);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < b->private_count; i++)
        values[i] = all[i + 1];
    if (!owner)
        return 0;
    process = all[0] > 0 && all[0] <= BOARD_PROCESSES ? (uint32_t)all[0] : 0;
    owner->pid = board_process_pid(b, process);
    owner->life = board_process_life(b, process);
    return 0;
}

int
countd_board_read_cell(struct countd_board *b, uint32_t slot, uint32_t cell,
                       int64_t *values, pid_t *owner)
{
    struct countd_board_owner who;
    int rc;

    rc = countd_board_read_owned(b, slot, cell, values, owner ? &who : NULL);
    if (rc == 0 && owner)
        *owner = who.life == COUNTD_BOARD_DEAD ? -who.pid : who.pid;
    return rc;
}

/* ---- writing ----------------------------------------------------------- */

static int
may_write(struct countd_board *b, uint32_t *me)
{
    if (b->read_only)
        return -EROFS;
    if (board_is_retired(b))
        return -ENOTCONN;
    return board_me(b, me);
}

/* A process that lost the race reads again at once, which takes the cache line
 * from the winner: it pauses first, and the winner completes many updates. */
static int
pause_after_loss(void)
{
    for (unsigned i = 0; i < LOST_PAUSES; i++)
        relax_cpu();
    return -ESTALE;
}

static inline int
put_shared(struct countd_board *b, uint32_t slot, uint32_t me,
           uint64_t generation, const int64_t *shared)
{
    const struct board_block k = board_shared(b, slot);
    uint64_t g = generation;
    _Atomic int64_t *to;
    int rc;

    if (generation > BOARD_GENERATION_MAX)
        return -ESTALE; /* one that cannot be is one that has passed */
    rc = block_take(b, k.word, me, &g);
    if (rc < 0)
        return rc == -ESTALE ? pause_after_loss() : rc;
    to = board_copy(k, g + 1);
    for (size_t i = 0; i < k.count; i++)
        board_store(to + i, shared[i]);
    board_block_publish(k, g);
    return 0;
}

/* A cell that is being changed. */
struct open_cell {
    struct board_block k;
    uint64_t generation;
    _Atomic int64_t *to; /* where the changes go: its owner, then its values */
};

/* Takes a cell that is this process's to write, and copies it to where the
 * changes go. */
static int
open_cell(struct countd_board *b, uint32_t slot, uint32_t cell,
          struct open_cell *out)
{
    const _Atomic int64_t *from;
    uint64_t g = BOARD_ANY;
    struct board_block k;
    int64_t owner;
    uint32_t me;
    int rc;

    if (slot >= b->slot_count || cell >= b->cells)
        return -EINVAL;
    rc = may_write(b, &me);
    if (rc < 0)
        return rc;
    k = board_cell(b, slot, cell);
    rc = block_take(b, k.word, me, &g);
    if (rc < 0)
        return rc;
    *out = (struct open_cell){k, g, board_copy(k, g + 1)};
    from = board_copy(k, g);
    owner = board_load(from);
    if (owner != 0 && owner != (int64_t)me) {
        board_store_word(k.word, board_word(g, 0));
        return -EPERM;
    }
    for (size_t i = 0; i < k.count; i++)
        board_store(out->to + i, board_load(from + i));
    return 0;
}

static int
put_cell(struct countd_board *b, uint32_t slot,
         const struct countd_board_change *c)
{
    struct open_cell o;
    const int rc = open_cell(b, slot, c->cell, &o);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < c->count; i++)
        board_store(o.to + 1 + c->values[i].index, c->values[i].value);
    board_block_publish(o.k, o.generation);
    return 0;
}

int
countd_board_update(struct countd_board *b, uint32_t slot, uint64_t generation,
                    const int64_t *shared, struct countd_board_change *change)
{
    struct countd_board_change none = {.count = 0};
    struct countd_board_change *c = change ? change : &none;
    int rc = 0;
    uint32_t me;

    if (slot >= b->slot_count || (c->count > 0 && c->cell >= b->cells))
        rc = -EINVAL;
    for (size_t i = 0; i < c->count && rc == 0; i++)
        if (c->values[i].index >= b->private_count)
            rc = -EINVAL;
    if (rc == 0)
        rc = may_write(b, &me);
    c->result = rc;
    if (rc < 0)
        return rc;
    if (shared)
        rc = put_shared(b, slot, me, generation, shared);
    if (c->count > 0)
        c->result = put_cell(b, slot, c);
    return shared ? rc : c->result;
}

int
countd_board_add(struct countd_board *b, uint32_t slot, uint32_t cell,
                 struct countd_board_value added, int64_t *sum)
{
    struct open_cell o;
    int64_t n;
    int rc;

    if (added.index >= b->private_count)
        return -EINVAL;
    rc = open_cell(b, slot, cell, &o);
    if (rc < 0)
        return rc;
    if (__builtin_add_overflow(board_load(o.to + 1 + added.index), added.value,
                               &n)) {
        board_store_word(o.k.word, board_word(o.generation, 0));
        return -ERANGE;
    }
    board_store(o.to + 1 + added.index, n);
    board_block_publish(o.k, o.generation);
    if (sum)
        *sum = n;
    return 0;
}

/* ---- claims ------------------------------------------------------------ */

/* Claims the cell and sets it to zero.  -EPERM: another process owns it. */
static int
claim_cell(struct countd_board *b, struct board_block k, uint32_t me)
{
    uint64_t g = BOARD_ANY;
    int64_t owner;
    int rc;

    rc = block_take(b, k.word, me, &g);
    if (rc < 0)
        return rc;
    owner = board_load(board_copy(k, g));
    if (owner > 0 && owner <= BOARD_PROCESSES &&
        board_process_life(b, (uint32_t)owner) != COUNTD_BOARD_DEAD) {
        board_store_word(k.word, board_word(g, 0));
        return -EPERM;
    }
    board_store(board_copy(k, g + 1), me);
    for (size_t i = 1; i < k.count; i++)
        board_store(board_copy(k, g + 1) + i, 0);
    board_block_publish(k, g);
    return 0;
}

int
countd_board_claim(struct countd_board *b, uint32_t slot, uint32_t *cell)
{
    uint32_t me;
    int rc;

    if (slot >= b->slot_count)
        return -EINVAL;
    rc = may_write(b, &me);
    if (rc < 0)
        return rc;
    atomic_store(&b->claimed, true);
    for (uint32_t i = 0; i < b->cells; i++) {
        rc = claim_cell(b, board_cell(b, slot, i), me);
        if (rc == 0)
            *cell = i;
        if (rc == 0 || (rc != -EPERM && rc != -EBUSY))
            return rc;
    }
    return -ENOSPC;
}

int
countd_board_release(struct countd_board *b, uint32_t slot, uint32_t cell)
{
    struct open_cell o;
    const int rc = open_cell(b, slot, cell, &o);

    if (rc < 0)
        return rc;
    board_store(o.to, 0);
    board_block_publish(o.k, o.generation);
    return 0;
}
