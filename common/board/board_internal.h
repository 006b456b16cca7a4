/* common/board/board_internal.h - the bytes of a board, and what board_*.c
 * share.
 *
 * A file: header, then the slots.  Integers are native; the header's byte
 * order mark refuses the other kind of machine.
 *
 *   at    size  field
 *      0     8  magic         "COUNTDB1"
 *      8     4  byte order    0x01020304
 *     12     4  version       1
 *     16     4  header size   bytes, a multiple of 4096: slots begin there
 *     20     4  slots
 *     24     4  shared        integers of a shared part
 *     28     4  private       integers of a cell
 *     32     4  cells         of a slot
 *     36     4  stride        bytes of a slot, a multiple of 64
 *     40     8  file size     bytes
 *     48     8  epoch         random
 *     56     8  created_ms    Unix time
 *     64    16  zero
 *     80     4  pid           of the master, in its own namespace
 *     84     4  processes     entries of the table of processes: 256
 *     88    28  zero
 *    116     4  crc32 of the names
 *    120     4  zero
 *    124     4  crc32 of bytes 0 to 123
 *    128     8  retired       1: there is a newer board
 *    136     8  recovered     updates of the dead that were undone
 *    144    48  zero
 *    192  8192  processes that write, 32 bytes each:
 *                  0  4  state       1: in use
 *                  4  4  pid         in its own namespace
 *                  8 16  zero
 *                 24  8  locked      1: it holds the lock of its number
 *   8384        names of the columns, 32 bytes each, NUL-padded
 *
 * A slot is a block of the shared integers, then one for each cell of its owner
 * (0: free; else the number of its process, from 1) and the private integers.
 * Each begins at a multiple of 64:
 *
 *      0        8  word: bit 0 busy, bits 1 to 47 generation, from 48 on the
 *                 writer (the number of its process, from 1), if busy
 *      8      8*n  the integers of even generations
 *      8+8*n  8*n  the integers of odd generations
 *
 * One step decides: who writes takes the word of generation g from idle to
 * busy, which only one can; fills the copy that g does not use; and stores the
 * word of g + 1, idle.  Until then nothing that a reader looks at has changed:
 * a writer that dies leaves a busy word to take back, and no value to repair.
 *
 * Orders: values are stored with release and loaded with acquire.  Who sees a
 * value of generation g + 2 in the copy of g has seen the word pass g.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BOARD_BOARD_INTERNAL_H
#define COUNTD_COMMON_BOARD_BOARD_INTERNAL_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/board/countd_board.h"

/* Tests that stop a process at every store define these before they include
 * the sources. */
#ifndef BOARD_STEP
#define BOARD_STEP() ((void)0)
#endif
#ifndef BOARD_LOOK /* in the middle of a read */
#define BOARD_LOOK() ((void)0)
#endif

#define BOARD_MAGIC     "COUNTDB1"
#define BOARD_ORDER     0x01020304u
#define BOARD_VERSION   1u
#define BOARD_PROCESSES 256u
#define BOARD_NAMES_AT  8384u
#define BOARD_PAGE      4096u
#define BOARD_LINE      64u

#define BOARD_TRIES 10000u /* to take a busy word, about a second */

struct board_process {
    _Atomic uint32_t state;
    _Atomic uint32_t pid;
    uint64_t zero[2];
    _Atomic uint64_t locked;
};

struct board_header {
    uint8_t magic[8];
    uint32_t order, version, header_size;
    uint32_t slots, shared_count, private_count, cells, stride;
    uint64_t file_size, epoch, created_ms;
    uint64_t zero[2];
    uint32_t pid, processes;
    uint8_t zero1[28];
    uint32_t names_crc;
    uint32_t zero2;
    uint32_t crc;
    _Atomic uint64_t retired;
    _Atomic uint64_t recovered;
    uint64_t zero3[6];
    struct board_process table[BOARD_PROCESSES];
};

static_assert(sizeof(struct board_header) == BOARD_NAMES_AT, "file format");
static_assert(offsetof(struct board_header, crc) == 124, "file format");
static_assert(offsetof(struct board_header, retired) == 128, "file format");
static_assert(offsetof(struct board_header, table) == 192, "file format");
static_assert(sizeof(_Atomic uint64_t) == 8, "file format");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics of processes");

struct countd_board {
    struct countd_board *next;   /* next handle of this process */
    struct board_header *header; /* the whole file */
    uint8_t *slots;              /* in it */
    uint32_t slot_count, shared_count, private_count, cells, stride;
    uint32_t cell_stride; /* between the blocks of a slot's cells */
    uint32_t cells_at;    /* in a slot */
    uint64_t file_size;
    int fd;
    bool read_only;
    bool master;
    uint32_t forks;      /* board_forks_count when it was opened */
    atomic_bool claimed; /* something, perhaps: close looks for it */
    _Atomic uint64_t me; /* low half: number in the table of processes, 0: none
               yet; high half: forks of the process of that number */
    unsigned tries;
};

/* A block of a slot. */
struct board_block {
    _Atomic uint64_t *word;
    _Atomic int64_t *values; /* values of both copies */
    size_t count;
};

#define BOARD_GENERATION_MAX (((uint64_t)1 << 47) - 1)

static inline uint64_t
board_generation(uint64_t word)
{
    return word >> 1 & BOARD_GENERATION_MAX;
}

static inline uint64_t
board_word(uint64_t generation, uint32_t process)
{
    return (uint64_t)process << 48 | (generation & BOARD_GENERATION_MAX) << 1 |
           (process != 0);
}

static inline uint32_t
board_writer(uint64_t word)
{
    return (uint32_t)(word >> 48);
}

static inline bool
board_is_busy(uint64_t word)
{
    return (word & 1) != 0;
}

static inline uint32_t
board_round_up(uint32_t size, uint32_t to)
{
    return (size + to - 1) / to * to;
}

/* Bytes of a block of `count` integers. */
static inline uint32_t
board_block_size(uint32_t count)
{
    return board_round_up(8 + 16 * count, BOARD_LINE);
}

static inline struct board_block
board_block_at(uint8_t *at, size_t count)
{
    void *word = at, *values = at + 8;

    return (struct board_block){word, values, count};
}

static inline struct board_block
board_shared(const struct countd_board *b, uint32_t slot)
{
    return board_block_at(b->slots + (size_t)slot * b->stride, b->shared_count);
}

static inline struct board_block
board_cell(const struct countd_board *b, uint32_t slot, uint32_t cell)
{
    return board_block_at(b->slots + (size_t)slot * b->stride + b->cells_at +
                              (size_t)cell * b->cell_stride,
                          (size_t)b->private_count + 1);
}

/* The copy that a generation uses. */
static inline _Atomic int64_t *
board_copy(struct board_block k, uint64_t generation)
{
    return k.values + (-(generation & 1) & k.count);
}

/* All stores to the file of a board that is in use go through these two. */
static inline void
board_store(_Atomic int64_t *at, int64_t value)
{
    BOARD_STEP();
    atomic_store_explicit(at, value, memory_order_release);
}

static inline void
board_store_word(_Atomic uint64_t *at, uint64_t value)
{
    BOARD_STEP();
    atomic_store_explicit(at, value, memory_order_release);
}

static inline int64_t
board_load(const _Atomic int64_t *at)
{
    return atomic_load_explicit(at, memory_order_acquire);
}

static inline bool
board_is_retired(const struct countd_board *b)
{
    return atomic_load_explicit(&b->header->retired, memory_order_relaxed) != 0;
}

#define BOARD_ANY UINT64_MAX /* a generation: whichever it is */

/* ---- board_format.c ----------------------------------------------------- */

/* Who called wants a text of at most COUNTD_BOARD_ERROR_SIZE bytes, unless that
 * is NULL: "board (PATH) ...". */
struct board_error {
    const char *path;
    char *text;
};

/* Returns rc. */
int board_fail(const struct board_error *e, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a shape makes of a file.  -EINVAL. */
int board_format(const struct board_error *e,
                 const struct countd_board_shape *shape,
                 struct board_header *out);

uint32_t board_crc(const void *bytes, size_t size);

/* Writes the checksums. */
void board_format_seal(struct board_header *h, const uint8_t *names);

/* Whether the first bytes of a file are a header, and its names names:
 * -EBADMSG. */
int board_format_check(const struct board_error *e,
                       const struct board_header *h, uint64_t file_size);
int board_format_check_names(const struct board_error *e,
                             const struct board_header *h,
                             const uint8_t *names);

/* -EPROTO with a text that names the difference. */
int board_format_compare(const struct board_error *e,
                         const struct board_header *h,
                         const struct countd_board_shape *shape);

/* ---- board_locks.c: what the kernel gives back when a process dies ------ */

/* Bytes of the file: BOARD_LOCK_PROCESSES + n is of process n, from 1. */
enum board_lock {
    BOARD_LOCK_MASTER,
    BOARD_LOCK_TABLE,
    BOARD_LOCK_PROCESSES = 1
};

/* -EBUSY: another open file has it. */
int board_lock_try(int fd, unsigned which);
void board_lock_drop(int fd, unsigned which);

/* Whether another open file has it: COUNTD_BOARD_ALIVE, COUNTD_BOARD_DEAD, or
 * COUNTD_BOARD_UNKNOWN where the kernel does not say. */
enum countd_board_life board_lock_life(int fd, unsigned which);

/* The table's lock, against other processes, other handles and other threads,
 * and against a fork() of another thread: -EBUSY after a second, ... */
int board_lock_table(struct countd_board *b);
void board_unlock_table(struct countd_board *b);

/* Handles are on a list, because a child of fork() shares the open files of its
 * parent and with them the locks: it opens the file anew for each of them.
 * -ENOMEM. */
int board_handle_add(struct countd_board *b);
void board_handle_remove(struct countd_board *b);

/* fork()s between the process that asked first and this one. */
extern atomic_uint board_forks_count;
static inline uint32_t
board_forks(void)
{
    return atomic_load_explicit(&board_forks_count, memory_order_relaxed);
}

/* ---- board_process.c ---------------------------------------------------- */

/* Takes an entry of the table for this process, or says which it has: -ENOSPC,
 * -EBUSY, what a call said. */
int board_register(struct countd_board *b, uint32_t *me);

/* Gives the entry up, and its claims. */
void board_unregister(struct countd_board *b);

/* Whether the process of this number in the table lives. */
enum countd_board_life board_process_life(struct countd_board *b,
                                          uint32_t process);
pid_t board_process_pid(const struct countd_board *b, uint32_t process);

/* Takes a busy word back from a writer that has died.  0: it is idle now, or
 * changed by itself; -EBUSY: its writer lives, for all that is known. */
int board_recover(struct countd_board *b, _Atomic uint64_t *word);

static inline int
board_me(struct countd_board *b, uint32_t *me)
{
    const uint64_t known = atomic_load_explicit(&b->me, memory_order_relaxed);

    *me = (uint32_t)known;
    if (*me != 0 && known >> 32 == board_forks())
        return 0;
    return board_register(b, me);
}

/* Ends an update: its values are the ones from here on. */
static inline void
board_block_publish(struct board_block k, uint64_t generation)
{
    board_store_word(k.word, board_word(generation + 1, 0));
}

#endif
