/* tests/lib/answer.h - answers over HTTP, as a client reads them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_ANSWER_H
#define COUNTD_TESTS_LIB_ANSWER_H

#include "tests/lib/fleet.h"

/* Connects to the HTTP port of the reader; sends a request. */
int answer_join(struct fleet *f);
void answer_request(int fd, const char *method, const char *target);

/* Runs a shell command in which $U is the address of that port; what it prints
 * is in `text` (tests/lib/expect.h). */
void answer_shell(struct fleet *f, const char *command);

struct answer {
    int status;
    char head[4096], body[2 << 20];
};

/* Reads the head, byte by byte: nothing behind it.  The body is empty. */
void answer_read_head(int fd, struct answer *a);

/* Reads head and body; the test fails where there is no Content-length. */
void answer_read(int fd, struct answer *a);

#endif
