/* tests/lib/expect.h - runs a command and compares what it printed.
 *
 *     expect(expect_run("countd", &how), 0, "a part of its words");
 *
 * What the last command printed, both streams, is left in `text`.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_EXPECT_H
#define COUNTD_TESTS_LIB_EXPECT_H

#include "tests/lib/daemon.h"

#define TEXT_SIZE (256 << 10)

extern char text[TEXT_SIZE]; /* NUL-terminated */

/* Runs it to its end and returns its status.  That the test's directory is on
 * tmpfs, as /tmp is on some systems, is not left in `text`. */
int expect_run(const char *program, const struct daemon_how *how);

/* The same of "countd WORDS", in a folder and under strace with these options:
 * its status, as a shell has it.  The test is skipped where strace is not. */
int expect_traced(const char *folder, const char *options, const char *words,
                  ...) __attribute__((format(printf, 3, 4)));

/* The status, and these words somewhere in `text`. */
void expect(int got, int status, const char *words);

/* The status, and nothing but this in `text`. */
void expect_text(int got, int status, const char *whole);

#endif
