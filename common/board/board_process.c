/* common/board/board_process.c - the processes that write to a board, and
 * taking over from dead ones; see board_internal.h.
 *
 * A word that is busy names an entry of the table, and the entry names a
 * process.  Entries change hands, and words are taken back, only under the
 * table's lock: so a number cannot become another process between a check of it
 * and the step that relies on the check.
 *
 * Entry points: board_forks_watch(), board_id_own(), board_id_alive(),
 * board_process_alive(), board_process_pid(). */
#include "common/board/board_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RELEASE_TRIES 100000 /* of a cell that another process is claiming */

enum { ENTRY_FREE, ENTRY_USED };

atomic_uint board_forks_count;

/* Runs in a child that has but this thread: no locks here. */
static void
count_fork(void)
{
    atomic_fetch_add_explicit(&board_forks_count, 1, memory_order_relaxed);
}

int
board_forks_watch(void)
{
    static atomic_bool watched;

    /* Without a lock, which a fork could copy while it is held.  Two threads
     * at once may make each fork count twice: that does no harm. */
    if (atomic_load(&watched))
        return 0;
    if (pthread_atfork(NULL, NULL, count_fork) != 0)
        return -ENOMEM;
    atomic_store(&watched, true);
    return 0;
}

/* ---- identity ---------------------------------------------------------- */

struct found {
    char state;
    long threads;
    uint64_t start;
};

/* Field `n` of /proc/PID/stat, from its third on, which is at `at`. */
static const char *
find_field(const char *at, unsigned n)
{
    for (; n > 3 && *at != '\0'; at++)
        n -= *at == ' ';
    return at;
}

/* -ENOENT, -ESRCH: no such process. */
static int
read_stat(uint32_t pid, struct found *out)
{
    char path[64], text[1024];
    const char *rest;
    ssize_t n;
    int fd, rc;

    (void)snprintf(path, sizeof path, "/proc/%u/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    n = read(fd, text, sizeof text - 1);
    rc = n < 0 ? -errno : 0;
    (void)close(fd);
    if (rc < 0)
        return rc;
    text[n] = '\0';
    rest = strrchr(text, ')'); /* the name before it may hold anything */
    if (!rest || rest[1] != ' ')
        return -EIO;
    rest += 2;
    out->state = *rest;
    out->threads = strtol(find_field(rest, 20), NULL, 10);
    out->start = strtoull(find_field(rest, 22), NULL, 10);
    return 0;
}

void
board_id_own(struct board_id *out)
{
    struct found f;
    struct stat st;

    *out = (struct board_id){.pid = (uint32_t)getpid()};
    if (read_stat(out->pid, &f) == 0)
        out->start = f.start;
    if (stat("/proc/self/ns/pid", &st) == 0)
        out->space = st.st_ino;
}

bool
board_id_alive(const struct board_id *id)
{
    struct board_id own;
    struct found f;
    int rc;

    board_id_own(&own);
    if (id->space != own.space)
        return true; /* for all that can be seen from here */
    if (id->start == 0 || own.start == 0)
        return kill((pid_t)id->pid, 0) == 0 || errno != ESRCH;
    rc = read_stat(id->pid, &f);
    if (rc < 0)
        return rc != -ENOENT && rc != -ESRCH;
    if (f.start != id->start)
        return false;
    /* Not waited for yet; or only its first thread has ended. */
    return (f.state != 'Z' && f.state != 'X') || f.threads > 1;
}

static struct board_process *
entry_of(const struct countd_board *b, uint32_t process)
{
    return &b->header->table[process - 1];
}

bool
board_process_alive(struct countd_board *b, uint32_t process)
{
    struct board_process *e;
    struct board_id id;

    if (process == 0 || process > BOARD_PROCESSES)
        return false;
    e = entry_of(b, process);
    if (atomic_load_explicit(&e->state, memory_order_acquire) != ENTRY_USED)
        return false;
    id.pid = atomic_load_explicit(&e->pid, memory_order_relaxed);
    id.start = atomic_load_explicit(&e->start, memory_order_relaxed);
    id.space = atomic_load_explicit(&e->space, memory_order_relaxed);
    return board_id_alive(&id);
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
    int fd, rc = 0;

    if (!board_is_busy(seen))
        return 0;
    if (board_process_alive(b, board_writer(seen)))
        return -EBUSY;
    fd = board_lock_table(b);
    if (fd < 0)
        return fd;
    /* Its number may be another's by now. */
    if (board_process_alive(b, board_writer(seen)))
        rc = atomic_load(word) == seen ? -EBUSY : 0;
    else
        (void)take_back(b, word, seen); /* else it changed: as good */
    (void)close(fd);                    /* ends the lock */
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

/* Under the lock: the number of a free entry, or 0. */
static uint32_t
find_free(const struct countd_board *b)
{
    for (uint32_t i = 1; i <= BOARD_PROCESSES; i++)
        if (atomic_load(&entry_of(b, i)->state) != ENTRY_USED)
            return i;
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
        dead[i] = !board_process_alive(b, i);
    release_all(b, dead);
    for (uint32_t i = 1; i <= BOARD_PROCESSES; i++)
        if (dead[i])
            set_free(b, i);
}

static void
fill_entry(struct board_process *e)
{
    struct board_id own;

    board_id_own(&own);
    BOARD_STEP();
    atomic_store(&e->pid, own.pid);
    BOARD_STEP();
    atomic_store(&e->start, own.start);
    BOARD_STEP();
    atomic_store(&e->space, own.space);
    BOARD_STEP();
    atomic_store(&e->state, ENTRY_USED); /* the last */
}

int
board_register(struct countd_board *b, uint32_t *me)
{
    const uint64_t forks = board_forks();
    const int fd = board_lock_table(b);
    uint64_t known;
    int rc = 0;

    if (fd < 0)
        return fd;
    known = atomic_load(&b->me); /* another thread may have been here */
    *me = (uint32_t)known;
    if (*me == 0 || known >> 32 != forks) {
        *me = find_free(b);
        if (*me == 0) {
            free_dead(b);
            *me = find_free(b);
        }
        if (*me == 0) {
            rc = -ENOSPC;
        } else {
            fill_entry(entry_of(b, *me));
            atomic_store(&b->me, forks << 32 | *me);
        }
    }
    (void)close(fd); /* ends the lock */
    return rc;
}

void
board_unregister(struct countd_board *b)
{
    const uint64_t known = atomic_load(&b->me);
    const uint32_t me = (uint32_t)known;
    bool set[BOARD_PROCESSES + 1] = {false};

    if (me == 0 || known >> 32 != board_forks())
        return;
    set[me] = true;
    if (atomic_load(&b->claimed))
        release_all(b, set);
    /* A cell that stays ours is freed when the entry is wanted and we have
     * ended. */
    if (set[me])
        set_free(b, me);
}
