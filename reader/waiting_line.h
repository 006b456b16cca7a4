/* reader/waiting_line.h - a line of connections of which one at a time has a
 * long answer made.
 *
 * A protocol that makes an answer in steps has memory for one.  The connection
 * that waiting_line_enter() admits is served until waiting_line_leave(); others
 * wait for conn_wake() in the order in which they asked.
 *
 * Ownership: the caller's.  `place` is in the state of its connection, zero at
 * first. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_WAITING_LINE_H
#define COUNTD_READER_WAITING_LINE_H

#include "common/net/conn.h"

struct waiting_line_place {
    struct list_link link; /* NULL: never waited */
    struct conn *conn;
};

struct waiting_line {
    struct conn *served; /* whose answer is being made; or NULL */
    struct list_link waiting;
};

void waiting_line_init(struct waiting_line *l);

/* True: the connection is served from now on.  False: it waits in line, and its
 * take() is to return CONN_PAUSE. */
bool waiting_line_enter(struct waiting_line *l, struct conn *c,
                        struct waiting_line_place *place);

/* The answer is made, or its connection has gone: the first in line may enter.
 * For a connection that neither is served nor waits, too. */
void waiting_line_leave(struct waiting_line *l, struct conn *c,
                        struct waiting_line_place *place);

#endif
