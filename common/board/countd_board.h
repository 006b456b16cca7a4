/* countd_board.h - libcountd: a board, a table of integers in a file that
 * processes of one machine have mapped.
 *
 *     struct countd_board *b;
 *     if (countd_board_attach(&b, "/run/app/board", NULL, 0, error) < 0) ...
 *     do {
 *         countd_board_read(b, row, shared, &generation);
 *         shared[0]++;
 *     } while (countd_board_update(b, row, generation, shared, NULL) ==
 *              -ESTALE);
 *     countd_board_close(b);
 *
 * A board has slots, all of the same shape:
 *   shared part    integers that change together; each update makes the next
 *                  generation, and only a process that knows the current one
 *                  can make it
 *   private cells  some integers each, which change together, too; only its
 *                  owner writes to a claimed cell, any process to an unclaimed
 *                  one
 *
 * One process, the master, creates a board; any number attach, at most 256 of
 * them to write.  Readers never wait, take no lock and write nothing, and get
 * one consistent state.  A process that dies, even by SIGKILL during an update,
 * blocks no other: half an update is never seen, and the next update takes
 * over.
 *
 * A master that starts again creates a new file.  Processes that have the old
 * one mapped keep it, and every call returns -ENOTCONN: close it and attach
 * again.
 *
 * A handle is thread-safe.  A child of fork() can go on using it, as another
 * process; the parent's claims stay the parent's.
 *
 * A process that writes holds a lock on the file until it ends: so processes of
 * any namespace see whether it lives.  If its lock cannot be seen, its life is
 * unknown, and it is never assumed to be dead.  A pid is that of the process's
 * own namespace.
 *
 * Arguments are checked before anything is changed: -EINVAL has no effect.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BOARD_COUNTD_BOARD_H
#define COUNTD_COMMON_BOARD_COUNTD_BOARD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COUNTD_BOARD_SLOTS_MAX  1048576
#define COUNTD_BOARD_VALUES_MAX 256 /* shared ones; private ones of a cell */
#define COUNTD_BOARD_CELLS_MAX  1024
#define COUNTD_BOARD_FILE_MAX   ((uint64_t)4 << 30) /* bytes */
#define COUNTD_BOARD_NAME_SIZE  32                  /* with its NUL; in files */
#define COUNTD_BOARD_ERROR_SIZE 256

struct countd_board;

struct countd_board_shape {
    size_t size; /* sizeof(struct countd_board_shape) */
    uint32_t slots;
    uint32_t shared_count;  /* integers of the shared part, from 1 */
    uint32_t private_count; /* private values of each cell; 0 without cells */
    uint32_t cells;         /* cells of each slot */
    /* Create: names of the shared integers, then of the private ones, in
     * printable ASCII without space; NULL: none.  Attach: ignored. */
    const char *const *names;
    unsigned mode; /* create: of the file; 0: 0600 */
};

/* Makes a new board at `path`, all zero, whose master is this process until it
 * closes the handle or ends.  An old board at `path` is retired.  `error`, an
 * array of COUNTD_BOARD_ERROR_SIZE bytes or NULL, gets a text.
 *   -EBUSY      another master owns the old board
 *   -EINVAL     an impossible shape
 *   -ENOSPC ... errors of system calls */
int countd_board_create(struct countd_board **out, const char *path,
                        const struct countd_board_shape *shape,
                        char error[COUNTD_BOARD_ERROR_SIZE]);

#define COUNTD_BOARD_READ_ONLY 1u /* needs no right to write */
#define COUNTD_BOARD_ORPHAN    2u /* attaches even if the master is dead */

/* Attaches to the board at `path`.  `shape` is the expected shape; NULL: any.
 *   -ENOENT   no such file         -ESRCH    abandoned: it has no master
 *   -EPROTO   another shape        -EAGAIN   it is being made or replaced
 *   -EBADMSG  damaged, cut short, or not a board */
int countd_board_attach(struct countd_board **out, const char *path,
                        const struct countd_board_shape *shape, unsigned flags,
                        char error[COUNTD_BOARD_ERROR_SIZE]);

/* Gives up claims, and the board if this is its master; frees the handle. */
void countd_board_close(struct countd_board *b);

/* ---- facts about a board ----------------------------------------------- */

enum countd_board_life {
    COUNTD_BOARD_UNKNOWN = -1,
    COUNTD_BOARD_DEAD,
    COUNTD_BOARD_ALIVE
};

struct countd_board_info {
    struct countd_board_shape shape; /* without names */
    uint64_t epoch;                  /* random; each board has its own */
    uint64_t created_ms;             /* Unix time */
    uint64_t recovered;              /* updates of dead processes, undone */
    pid_t master;                    /* the process that made it */
    int master_alive;                /* enum countd_board_life */
    int retired;
    unsigned processes; /* processes that may write */
};

void countd_board_info(struct countd_board *b, struct countd_board_info *out);

/* Returns the name of a shared integer or, with an index after theirs, of a
 * private one; "" if it has none. */
const char *countd_board_name(const struct countd_board *b, uint32_t index);

/* Returns 1 while the master lives or its life is unknown, 0 when it has ended,
 * or -ENOTCONN when a new master has made a new board. */
int countd_board_master_alive(struct countd_board *b);

/* ---- reading ----------------------------------------------------------- */

/* Reads the shared part as it is at one moment, and its generation.
 *   -EINVAL  no such slot   -ENOTCONN  the board is retired
 *   -EBUSY   it changed during each of a million attempts to read it */
int countd_board_read(struct countd_board *b, uint32_t slot, int64_t *shared,
                      uint64_t *generation);

/* Reads a cell as it is at one moment, and its owner's pid: 0 for none, negated
 * if the owner has died.  `owner` may be NULL. */
int countd_board_read_cell(struct countd_board *b, uint32_t slot, uint32_t cell,
                           int64_t *values, pid_t *owner);

/* The same, and whether the owner lives. */
struct countd_board_owner {
    pid_t pid; /* 0: none */
    int life;  /* enum countd_board_life; without an owner: dead */
};

int countd_board_read_owned(struct countd_board *b, uint32_t slot,
                            uint32_t cell, int64_t *values,
                            struct countd_board_owner *owner);

/* ---- writing ----------------------------------------------------------- */

struct countd_board_value {
    uint32_t index; /* in the cell */
    int64_t value;
};

struct countd_board_change {
    uint32_t cell;
    const struct countd_board_value *values;
    size_t count; /* of values; 0: the cell is not changed */
    int result;   /* out: the result for the cell */
};

/* Replaces the shared part if its generation is still `generation`, and makes a
 * change of a cell (NULL: none) whether or not the shared part is replaced.
 * With `shared` NULL only the cell is changed.  Returns the result for the
 * shared part; change->result gets that for the cell.  Both are 0 or
 *   -ESTALE    the shared part has changed: nothing was written to it
 *   -EBUSY     another process is stopped in the middle of an update
 *   -EPERM     another process owns the cell
 *   -EINVAL    no such slot, cell or index; neither part is changed
 *   -ENOTCONN  the board is retired
 *   -EROFS     attached only for reading
 *   -ENOSPC    256 processes write already
 * With `shared` NULL the result for the cell is returned. */
int countd_board_update(struct countd_board *b, uint32_t slot,
                        uint64_t generation, const int64_t *shared,
                        struct countd_board_change *change);

/* Adds added.value to value added.index of a cell, atomically; *sum (may be
 * NULL) gets the sum.
 *   -ERANGE  the sum would leave the range of int64: nothing is changed
 *   others as above */
int countd_board_add(struct countd_board *b, uint32_t slot, uint32_t cell,
                     struct countd_board_value added, int64_t *sum);

/* Claims a cell of the slot that is free or whose owner has died, and sets it
 * to zero.  -ENOSPC: all have live owners. */
int countd_board_claim(struct countd_board *b, uint32_t slot, uint32_t *cell);

/* Gives a claimed cell up; its values stay. */
int countd_board_release(struct countd_board *b, uint32_t slot, uint32_t cell);

/* ---- read before update ------------------------------------------------ */

/* A board with the generation of the slot that was read last: a slot is updated
 * only if it is that one and no process has changed it since.  Private values
 * are those of cell 0.  Each thread needs its own.
 *   struct countd_board_last l = {.board = b}; */
struct countd_board_last {
    struct countd_board *board;
    uint64_t generation;
    int64_t slot; /* 1 + the slot that was read last; 0: none */
    char text[COUNTD_BOARD_ERROR_SIZE];
};

/* 0, or an error such as -EINVAL ("wrong index"); l->text has the reason. */
int countd_board_last_read(struct countd_board_last *l, int64_t slot,
                           int64_t *shared, int64_t *values);

struct countd_board_pair {
    int64_t index;
    int64_t value;
};

struct countd_board_last_change {
    const int64_t *shared; /* NULL: the shared part is not changed */
    size_t shared_count;
    const struct countd_board_pair *values; /* new private values */
    size_t count;
};

/* Returns 1 if the shared part is updated, or 0 if not, because a process, this
 * one included, has changed it since it was read, or `shared` is NULL; private
 * values are written nevertheless.  0 with a text: a process that does not go on
 * has locked the slot; 1 with a text: the private values are not written.
 * -EINVAL: nothing was changed; l->text is one of
 *     wrong index                              wrong private index
 *     update for only last read index is allowed
 *     values size mismatch slot size */
int countd_board_last_update(struct countd_board_last *l, int64_t slot,
                             const struct countd_board_last_change *change);

#ifdef __cplusplus
}
#endif

#endif
