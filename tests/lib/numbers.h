/* tests/lib/numbers.h - sequence numbers of a countd-write, over HTTP. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_NUMBERS_H
#define COUNTD_TESTS_LIB_NUMBERS_H

#include "common/wire/sequence.h"
#include "tests/lib/service.h"

#define NUMBERS_LINE (SEQUENCE_SIZE + 1)

/* As service_setup(), and the writer will give numbers. */
int numbers_setup(void **state);

/* Sends a request for a number. */
void numbers_ask(int fd);

/* Waits for one of its answers, and takes the number out of it: false when the
 * connection broke. */
bool numbers_take(int fd, char line[NUMBERS_LINE],
                  struct sequence_parts *number);

/* Which of two was to be given first: below 0, 0, above. */
int numbers_order(const struct sequence_parts *a,
                  const struct sequence_parts *b);

#endif
