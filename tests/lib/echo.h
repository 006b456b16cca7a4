/* tests/lib/echo.h - a small protocol at two listeners of a connection server,
 * and peers that speak it.
 *
 * A request is `size u16 | kind | body`, big-endian, size that of the body:
 *
 *     e  echo: the body comes back
 *     g  the same, when the group commit that collects now is durable
 *     G  the same behind another gate
 *     b  a large answer: as many KiB of 'b' as the body says (u16)
 *     l  the same KiB by KiB
 *     L  the same in one piece, but begun as a long answer
 *     h  waits for the test to wake it, then echoes
 *     H  waits for the group commit, and only then echoes
 *     w  work: takes 100 us of a driven clock (fault_stop_clock), no answer
 *     o  owes the pattern as often as the body says (u16), behind the gate
 *     x  is malformed
 *     c  cuts the connection
 *
 * The listeners: ECHO answers half-closed peers and what has arrived before a
 * stop; CUT does none of that; WINS has a pattern; RAW refuses browsers,
 * and the end of a peer's input wakes what pauses there.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_ECHO_H
#define COUNTD_TESTS_LIB_ECHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/conn.h"

enum { ECHO, CUT, WINS, RAW, ECHO_LISTENERS };

#define ECHO_HEAD   3
#define ECHO_PEERS  64
#define ECHO_SERVED 512

/* What a connection has for a state. */
struct echo_state {
    uint16_t left; /* KiB of a long answer */
    uint16_t ends; /* steps of ended() so far */
    uint32_t whole;
};

struct echo {
    struct loop *loop;
    struct conns *conns;
    struct gate own, other;
    struct gate *gate; /* of g and o: own, or that of a commit */
    struct listener_config rows[ECHO_LISTENERS];
    struct conns_options options;
    bool narrow; /* peers take little before they read */
    size_t room; /* of all listeners; SIZE_MAX: no limit */
    struct conn *held;
    unsigned ends; /* steps that ended() takes, of 100 us each */
    unsigned ended;
    bool stopped;
    bool (*enough)(struct echo *f);
    void (*after)(void *ctx); /* the last of a turn; may be NULL */
    void *ctx;
    /* The connections that worked, in order: listener * 1000 + number. */
    unsigned served[ECHO_SERVED];
    size_t served_count;
    /* What the test waits for. */
    int fd;
    size_t want;
    uint8_t *heard;
    size_t heard_size, heard_max;
    bool heard_end;
    int *peers;
    size_t peer_count;
};

struct echo *echo_new(void); /* options and rows may be changed now */
void echo_start(struct echo *f);
void echo_free(struct echo *f);

/* Runs until `enough`. */
void echo_run(struct echo *f, bool (*enough)(struct echo *f));
void echo_turns(struct echo *f, size_t count);

/* The group that collects at the gate becomes durable. */
void echo_commit(struct gate *g);

const struct listener_stats *echo_stats(const struct echo *f, size_t listener);

/* A connected peer of a listener. */
int echo_join(struct echo *f, size_t listener);

size_t echo_request(uint8_t *at, char kind, const char *body);
void echo_say(int fd, const void *bytes, size_t size);
void echo_ask(int fd, char kind, const char *body);
void echo_ask_number(int fd, char kind, uint16_t number);

/* Hears exactly this next; the same and then the end; `size` bytes, which are
 * in `heard`; nothing, though there were turns for it. */
void echo_hear(struct echo *f, int fd, const char *text);
void echo_hear_end(struct echo *f, int fd, const char *text);
void echo_hear_size(struct echo *f, int fd, size_t size);
void echo_hear_nothing(struct echo *f, int fd);

/* Begins a stop; whether it is done, for echo_run(). */
void echo_stop(struct echo *f, uint64_t ms);
bool echo_has_stopped(struct echo *f);

#endif
