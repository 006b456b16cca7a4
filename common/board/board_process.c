/* common/board/board_process.c - the processes that write to a board, and
 * taking over from dead ones; see board_internal.h.
 *
 * A word that is busy names an entry of the table, and the process of an entry
 * holds the lock of its number until it ends.  Entries change hands, and words
 * are taken back, only under the table's lock: so a number cannot become
 * another process between a check of it and the step that relies on the check.
 *
 * Entry points: board_register(), board_unregister(), board_process_life(),
 * board_process_pid(), board_recover(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/board/board_internal.h"

#include <errno.h>
#include <unistd.h>

#define RELEASE_TRIES 100000 /* of a cell that another process is claiming */

enum { ENTRY_FREE, ENTRY_USED };

static struct board_process *
entry_of(const struct countd_board *b, uint32_t process)
{
    return &b->header->table[process - 1];
}

/* This process's number, or 0: on its own open file it does not see its lock.
 */
static uint32_t
own_number(const struct countd_board *b)
{
    const uint64_t known = atomic_load_explicit(&b->me, memory_order_relaxed);

    return known >> 32 == board_forks() ? (uint32_t)known : 0;
}

enum countd_board_life
board_process_life(struct countd_board *b, uint32_t process)
{
    const struct board_process *e;

    if (process == 0 || process > BOARD_PROCESSES)
        return COUNTD_BOARD_DEAD;
    e = entry_of(b, process);
    if (atomic_load_explicit(&e->state, memory_order_acquire) != ENTRY_USED)
        return COUNTD_BOARD_DEAD;
    if (process == own_number(b))
        return COUNTD_BOARD_ALIVE;
    if (atomic_load_explicit(&e->locked, memory_order_relaxed) == 0)
        return COUNTD_BOARD_UNKNOWN;
    return board_lock_life(b->fd, BOARD_LOCK_PROCESSES + process);
}

pid_t
board_process_pid(const struct countd_board *b, uint32_t process)
{
    if (process == 0 || process > BOARD_PROCESSES)
        return 0;
    return (pid_t)atomic_load_explicit(&entry_of(b, process)->pid,
                                       memory_order_relaxed);
}

/* ---- taking back ------------------------------------------------------- */

/* Under the table's lock; the writer is dead.  True: it did it. */
static bool
take_back(struct countd_board *b, _Atomic uint64_t *word, uint64_t seen)
{
    const uint64_t idle = board_word(board_generation(seen), 0);

    BOARD_STEP();
    if (!atomic_compare_exchange_strong(word, &seen, idle))
        return false;
    BOARD_STEP();
    atomic_fetch_add_explicit(&b->header->recovered, 1, memory_order_relaxed);
    return true;
}

int
board_recover(struct countd_board *b, _Atomic uint64_t *word)
{
    const uint64_t seen = atomic_load(word);
    int rc;

    if (!board_is_busy(seen))
        return 0;
    if (board_process_life(b, board_writer(seen)) != COUNTD_BOARD_DEAD)
        return -EBUSY;
    rc = board_lock_table(b);
    if (rc < 0)
        return rc;
    /* Its number may be another's by now. */
    if (board_process_life(b, board_writer(seen)) != COUNTD_BOARD_DEAD)
        rc = atomic_load(word) == seen ? -EBUSY : 0;
    else
        (void)take_back(b, word, seen); /* else it changed: as good */
    board_unlock_table(b);
    return rc;
}

/* Releases the cell if `process` owns it.  False: it stays busy. */
static bool
release_cell(struct board_block k, uint32_t process)
{
    uint64_t word, g;

    for (unsigned i = 0; i < RELEASE_TRIES; i++) {
        word = atomic_load_explicit(k.word, memory_order_acquire);
        g = board_generation(word);
        if (board_is_busy(word))
            continue;
        if (board_load(board_copy(k, g)) != (int64_t)process)
            return true;
        BOARD_STEP();
        if (!atomic_compare_exchange_strong(k.word, &word,
                                            board_word(g, process)))
            continue;
        board_store(board_copy(k, g + 1), 0);
        for (size_t j = 1; j < k.count; j++)
            board_store(board_copy(k, g + 1) + j,
                        board_load(board_copy(k, g) + j));
        board_block_publish(k, g);
        return true;
    }
    return false;
}

/* Under the table's lock: frees all words and cells of these processes.  Those
 * of which some could not be freed are taken out of the set. */
static void
release_all(struct countd_board *b, bool set[BOARD_PROCESSES + 1])
{
    for (uint32_t s = 0; s < b->slot_count; s++)
        for (uint32_t i = 0; i <= b->cells; i++) {
            const struct board_block k =
                i == 0 ? board_shared(b, s) : board_cell(b, s, i - 1);
            const uint64_t word = atomic_load(k.word);
            const uint32_t writer = board_writer(word);
            int64_t owner;

            if (board_is_busy(word) && writer <= BOARD_PROCESSES && set[writer])
                (void)take_back(b, k.word,
                                word); /* the lock excludes other processes */
            if (i == 0)
                continue;
            owner = board_load(board_copy(k, board_generation(word)));
            if (owner > 0 && owner <= BOARD_PROCESSES && set[owner] &&
                !release_cell(k, (uint32_t)owner))
                set[owner] = false;
        }
}

/* ---- the table --------------------------------------------------------- */

/* Under the table's lock: the number of an entry that is free and whose lock
 * this process has now, or 0.  *locked is false where a file has no locks.  A
 * lock that is held without its entry is of a process that gives it up just
 * now. */
static uint32_t
take_number(struct countd_board *b, bool *locked)
{
    for (uint32_t i = 1; i <= BOARD_PROCESSES; i++) {
        int rc;

        if (atomic_load(&entry_of(b, i)->state) == ENTRY_USED)
            continue;
        rc = board_lock_try(b->fd, BOARD_LOCK_PROCESSES + i);
        if (rc == -EBUSY)
            continue;
        *locked = rc == 0;
        return i;
    }
    return 0;
}

static void
set_free(struct countd_board *b, uint32_t process)
{
    BOARD_STEP();
    atomic_store(&entry_of(b, process)->state, ENTRY_FREE);
}

/* Frees the entries of dead processes; the caller holds the lock. */
static void
free_dead(struct countd_board *b)
{
    bool dead[BOARD_PROCESSES + 1] = {false};

    for (uint32_t i = 1; i <= BOARD_PROCESSES; i++)
        dead[i] = board_process_life(b, i) == COUNTD_BOARD_DEAD;
    release_all(b, dead);
    for (uint32_t i = 1; i <= BOARD_PROCESSES; i++)
        if (dead[i])
            set_free(b, i);
}

static void
fill_entry(struct board_process *e, bool locked)
{
    BOARD_STEP();
    atomic_store(&e->pid, (uint32_t)getpid());
    BOARD_STEP();
    atomic_store(&e->locked, locked);
    BOARD_STEP();
    atomic_store(&e->state, ENTRY_USED); /* the last */
}

int
board_register(struct countd_board *b, uint32_t *me)
{
    bool locked = false;
    int rc;

    rc = board_lock_table(b);
    if (rc < 0)
        return rc;
    *me = own_number(b); /* another thread may have been here */
    if (*me == 0) {
        *me = take_number(b, &locked);
        if (*me == 0) {
            free_dead(b);
            *me = take_number(b, &locked);
        }
        if (*me == 0) {
            rc = -ENOSPC;
        } else {
            fill_entry(entry_of(b, *me), locked);
            atomic_store(&b->me, (uint64_t)board_forks() << 32 | *me);
        }
    }
    board_unlock_table(b);
    return rc;
}

void
board_unregister(struct countd_board *b)
{
    const uint32_t me = own_number(b);
    bool set[BOARD_PROCESSES + 1] = {false};

    if (me == 0)
        return;
    set[me] = true;
    if (atomic_load(&b->claimed))
        release_all(b, set);
    /* A cell that stays ours is freed when the entry is wanted and we have
     * ended. */
    if (set[me])
        set_free(b, me);
    board_lock_drop(b->fd, BOARD_LOCK_PROCESSES + me);
}
