/* countd_board.h - libcountd: a board, a table of integers in a file that
 * processes of one machine have mapped.
 *
 *     struct countd_board *b;
 *     if (countd_board_attach(&b, "/run/app/board", NULL, 0, error, size) < 0)
 *     do {
 *         countd_board_read(b, row, shared, &generation);
 *         shared[0]++;
 *     } while (countd_board_update(b, row, generation, shared, 0, NULL, 0,
 *                                  NULL) == -ESTALE);
 *     countd_board_close(b);
 *
 * A board has slots, all of the same shape:
 *   shared part    integers that change together, each time to the next
 *                  generation, and only by a process that knows the current one
 *   private cells  some integers each, which change together, too; a cell that
 *                  is claimed is written by its owner only, an unclaimed one by
 *                  any process
 *
 * One process, the master, creates a board; any number attach, 256 of them at a
 * time to write.  Readers never wait, take no lock and write nothing; what they
 * get is one consistent state, never torn.  A process that dies, even by
 * SIGKILL during an update, blocks no other: half an update is never seen, and
 * the next update takes over.
 *
 * A master that starts again creates a new file.  Processes that have the old
 * one mapped keep it, and every call returns -ENOTCONN: close it and attach
 * again.
 *
 * A handle is thread-safe.  In a child of fork() it goes on working, as a
 * process of its own; the parent's claims stay the parent's.
 *
 * A process that writes holds a lock on the file, which ends with it: so life
 * and death are seen from every namespace.  A process whose lock cannot be seen
 * is unknown, and is never assumed to be dead.  A pid is that of the process's
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
    /* Create: of the shared integers, then of the private ones; NULL: they
     * have none.  Printable ASCII without space.  Attach: not looked at. */
    const char *const *names;
    unsigned mode; /* create: of the file; 0: 0600 */
};

/* Makes the board at `path` anew, all zero, and this process its master, until
 * it closes the handle or ends.  A board that was there is retired.  `error`
 * (may be NULL) gets a text.
 *   -EBUSY      another master owns it
 *   -EINVAL     the shape
 *   -ENOSPC ... what a call said */
int countd_board_create(struct countd_board **out, const char *path,
                        const struct countd_board_shape *shape, char *error,
                        size_t error_size);

#define COUNTD_BOARD_READ_ONLY 1u /* needs no right to write */
#define COUNTD_BOARD_ORPHAN    2u /* without a living master, too */

/* Attaches to the board at `path`.  `shape` is what is expected of it; NULL:
 * any.
 *   -ENOENT   no such file         -ESRCH    abandoned: it has no master
 *   -EPROTO   another shape        -EAGAIN   is being made, or retired just now
 *   -EBADMSG  damaged, cut short or no board */
int countd_board_attach(struct countd_board **out, const char *path,
                        const struct countd_board_shape *shape, unsigned flags,
                        char *error, size_t error_size);

/* Gives up claims, and the board if this is its master; frees the handle. */
void countd_board_close(struct countd_board *b);

/* ---- about it ---------------------------------------------------------- */

enum countd_board_life {
    COUNTD_BOARD_UNKNOWN = -1,
    COUNTD_BOARD_DEAD,
    COUNTD_BOARD_ALIVE
};

struct countd_board_info {
    struct countd_board_shape shape; /* without names */
    uint64_t epoch;                  /* random; another one is another board */
    uint64_t created_ms;             /* Unix time */
    uint64_t recovered;              /* updates of the dead, undone */
    pid_t master;                    /* who made it */
    int master_alive;                /* enum countd_board_life */
    int retired;
    unsigned processes; /* processes that may write */
};

void countd_board_info(struct countd_board *b, struct countd_board_info *out);

/* Name of a shared integer, or behind those of a private one; "" for none. */
const char *countd_board_name(const struct countd_board *b, uint32_t index);

/* 1, or 0 when the master has gone, or -ENOTCONN when a new one has come.  A
 * master whose life cannot be seen has not gone. */
int countd_board_master_alive(struct countd_board *b);

/* ---- reading ----------------------------------------------------------- */

/* The shared part as it is at one moment, and its generation.
 *   -EINVAL  no such slot   -ENOTCONN  retired
 *   -EBUSY   it changed a million times while it was read */
int countd_board_read(struct countd_board *b, uint32_t slot, int64_t *shared,
                      uint64_t *generation);

/* A cell as it is at one moment, and its owner's pid: 0 for none, the pid
 * negated when it has died.  `owner` may be NULL. */
int countd_board_read_cell(struct countd_board *b, uint32_t slot, uint32_t cell,
                           int64_t *values, pid_t *owner);

/* The same, and what is known of its owner. */
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

/* Replaces the shared part, if its generation is still `generation`, and
 * changes `count` values of a cell, whatever becomes of the shared part.
 * `shared` NULL: only the cell.  Returns the outcome for the shared part;
 * *private_rc (may be NULL) gets that for the cell.  Both are 0 or
 *   -ESTALE    the shared part has changed: nothing was written to it
 *   -EBUSY     another process is stopped in the middle of an update
 *   -EPERM     the cell is another's
 *   -EINVAL    slot, cell or an index; neither part is changed
 *   -ENOTCONN  retired
 *   -EROFS     attached to read only
 *   -ENOSPC    256 processes write already
 * With `shared` NULL the outcome for the cell is returned. */
int countd_board_update(struct countd_board *b, uint32_t slot,
                        uint64_t generation, const int64_t *shared,
                        uint32_t cell, const struct countd_board_value *values,
                        size_t count, int *private_rc);

/* Adds to one value of a cell, atomically; *sum (may be NULL) is the new one.
 *   -ERANGE  it would pass the bounds of int64: nothing is changed
 * and as above. */
int countd_board_add(struct countd_board *b, uint32_t slot, uint32_t cell,
                     uint32_t index, int64_t delta, int64_t *sum);

/* Claims a cell of the slot that is free or whose owner has died, and sets it
 * to zero.  -ENOSPC: all have live owners. */
int countd_board_claim(struct countd_board *b, uint32_t slot, uint32_t *cell);

/* Gives a claimed cell up; its values stay. */
int countd_board_release(struct countd_board *b, uint32_t slot, uint32_t cell);

/* ---- read before update ------------------------------------------------ */

/* Boards that remember the generation for their user: a row is updated only if
 * it is the last one read, and only if no process has changed it since. Private
 * values are those of cell 0.  One per thread.
 *   struct countd_board_last l = {.board = b}; */
struct countd_board_last {
    struct countd_board *board;
    uint64_t generation;
    int64_t slot; /* the last one read, + 1; 0: none */
    char text[COUNTD_BOARD_ERROR_SIZE];
};

/* 0, or -EINVAL ("wrong index"), ...; l->text says why. */
int countd_board_last_read(struct countd_board_last *l, int64_t slot,
                           int64_t *shared, int64_t *values);

/* 1: the shared part is updated.  0: it is not, since it was changed by another
 * or by this one since the read, or `shared` is NULL; private values are
 * written nevertheless.  0 with a text: the row is locked by a process that
 * does not go on.  -EINVAL: nothing was changed; l->text is one of
 *     wrong index                              wrong private index
 *     update for only last read index is allowed
 *     values size mismatch slot size */
struct countd_board_pair {
    int64_t index;
    int64_t value;
};
int countd_board_last_update(struct countd_board_last *l, int64_t slot,
                             const int64_t *shared, size_t shared_count,
                             const struct countd_board_pair *values,
                             size_t count);

#ifdef __cplusplus
}
#endif

#endif
