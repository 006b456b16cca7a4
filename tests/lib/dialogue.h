/* tests/lib/dialogue.h - what clients of the counter and semaphore protocols
 * say and what they hear.
 *
 *     {"the maximum belongs to the request", COUNTERS,
 *      ROWS({"a", "ACQUIRE doors 5/5", "OK"},
 *           {"a", "ACQUIRE doors 1/5", "FULL"},
 *           {"b", "GET doors", "5/10"},
 *           {"a", "CLOSE"},
 *           {"b", "AWAIT doors", "0/10"})},
 *
 * Rows are done one after another.  `who` is one of a to d; its connection is
 * opened where it has none.  A row that hears nothing leaves its answer to a
 * later one that says nothing (a pipeline).  Each answer is compared whole:
 * opcode, opaque, size and text.
 *
 * say:
 *     NOOP, JOIN (only connects), GET NAME, ACQUIRE NAME N/BOUND,
 *     RELEASE NAME N, DUMP [NAME], STATS [FIGURE]
 *     OPCODES 12-56         a request of each of these (hexadecimal)
 *     BODY 02 00000001 00   one of this opcode with this body
 *     90 00 0000 ...        these bytes
 *     TEXT ...              this text and the end of its line
 *     AWAIT NAME            GET until it is as heard, with a deadline
 *     AWAIT-STAT FIGURE     the same with a figure of Stats
 *     CLOSE, RESET, HALF-CLOSE
 * A NAME of '' is empty, and %00 a byte in it.
 *
 * hear:
 *     OK, NOT_FOUND, INVALID, FULL, NOT_HELD, UNKNOWN
 *     7        the value of a Get or of a figure
 *     SOME     a figure above 0
 *     3/10     Get: 3 of 10 are taken (a semaphore answers 7);
 *              Dump: 3 are taken, the peak is 10
 *     NONE     Dump: no record of that name
 *     a b c    Stats: these are the figures, in this order, and no more
 *     91 00 .. these bytes
 *     SILENCE  nothing comes
 *     END      the server closes; `who` has no connection after it
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_DIALOGUE_H
#define COUNTD_TESTS_LIB_DIALOGUE_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/lib/live_client.h"
#include "tests/lib/test.h"

#define COUNTERS   1u
#define SEMAPHORES 2u
#define BOTH       (COUNTERS | SEMAPHORES)

struct dialogue_row {
    const char *who, *say, *hear;
};

struct dialogue {
    const char *name;
    unsigned kinds;
    const struct dialogue_row *rows; /* ends with an empty one */
    unsigned connections;            /* the most; 0: enough */
};

/* The table: tests/lib/live_client_talk.c. */
extern const struct dialogue live_talk[];
extern const size_t live_talk_count;

/* A dialogue with a server of one kind: the initial state of its test, which
 * the fixture's setup finds in *state. */
struct dialogue_case {
    const struct dialogue *dialogue;
    unsigned kind;
    char name[96];
};

/* As test_main() with one more test for each dialogue and each kind: `play`,
 * with its setup and teardown. */
int dialogue_main(const struct CMUnitTest *play, int argc, char **argv);

/* Fails the test unless all of it is as it should be, with a server that has
 * nothing in it; `open` connects. */
void dialogue_run(const struct dialogue_case *c,
                  void (*open)(void *ctx, struct live_client *t), void *ctx);

/* For teardowns: names the row at which dialogue_run() failed, if it did. */
void dialogue_tell(void);

#endif
