/* tests/bench/live_load.c - see live_load.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/live_load.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/wire/frame.h"
#include "tests/bench/bench.h"
#include "tests/lib/client.h"
#include "tests/lib/test.h"

#define REQUEST_MAX  (FRAME_HEADER + 10 + LIVE_NAME_SIZE)
#define FILL_DEPTH   512
#define DUMP_RECEIVE ((size_t)256 << 10)

/* ---- requests and answers ----------------------------------------------- */

static size_t
put_name(uint8_t *at, uint64_t number)
{
    put_be16(at, LIVE_NAME_SIZE);
    memcpy(at + 2, "counter:", 8);
    for (int i = LIVE_NAME_SIZE + 1; i >= 10; i--, number /= 10)
        at[i] = (uint8_t)('0' + number % 10);
    return 2 + LIVE_NAME_SIZE;
}

static size_t
put_request(uint8_t *at, uint8_t opcode, uint64_t name)
{
    uint8_t *body = at + FRAME_HEADER;
    struct frame_header h = {
        .magic = FRAME_REQUEST, .opcode = opcode, .opaque = {1, 2, 3, 4}};

    if (opcode == FRAME_ACQUIRE || opcode == FRAME_RELEASE) {
        put_be32(body, 1);
        body += 4;
    }
    if (opcode == FRAME_ACQUIRE) {
        put_be32(body, INT32_MAX);
        body += 4;
    }
    if (opcode != FRAME_DUMP)
        body += put_name(body, name);
    h.body_size = (uint32_t)(body - at) - FRAME_HEADER;
    frame_put_header(at, &h);
    return (size_t)(body - at);
}

/* The same name for both of a pair, and no order that names have. */
static uint64_t
name_of(unsigned conn, uint64_t number)
{
    return (number + conn * 1000003u) * 0x9e3779b97f4a7c15u % LIVE_KNOWN;
}

static size_t
put_pair(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    (void)l; /* all are alike */
    return put_request(to, sent % 2 ? FRAME_RELEASE : FRAME_ACQUIRE,
                       name_of(conn, sent / 2));
}

/* Answers, which must be successes. */
static size_t
take_answers(const struct load *l, const uint8_t *in, size_t have,
             uint64_t *answers)
{
    struct frame_header h;
    size_t at = 0;

    (void)l; /* all are alike */
    while (have - at >= FRAME_HEADER) {
        frame_get_header(in + at, &h);
        if (h.magic != FRAME_ANSWER || h.status != FRAME_OK)
            fail_msg("an answer that is not a success");
        if (have - at < FRAME_HEADER + h.body_size)
            break;
        at += FRAME_HEADER + h.body_size;
        (*answers)++;
    }
    return at;
}

double
live_load_run(unsigned conns, unsigned depth, uint64_t ms, uint16_t port,
              struct times *t)
{
    const struct load l = {.conns = conns,
                           .depth = depth,
                           .ms = ms,
                           .put = put_pair,
                           .take = take_answers,
                           .request_max = REQUEST_MAX};

    return load_run(&l, port, t) / 2;
}

/* ---- one connection ----------------------------------------------------- */

/* More of `in`, behind what is there. */
static void
receive_more(int fd, uint8_t *in, size_t *have)
{
    *have +=
        (size_t)must(recv(fd, in + *have, DUMP_RECEIVE - *have, 0), "receive");
}

/* Drops the first bytes of `in`. */
static void
drop_used(uint8_t *in, size_t *have, size_t used)
{
    *have -= used;
    memmove(in, in + used, *have);
}

double
live_load_fill(int fd, uint64_t from, uint64_t to)
{
    static uint8_t out[FILL_DEPTH * REQUEST_MAX], in[DUMP_RECEIVE];
    uint64_t sent = from, answered = from;
    const uint64_t begin_ns = clock_ns();
    size_t have = 0;

    while (answered < to) {
        if (sent - answered <= FILL_DEPTH / 2) {
            size_t size = 0;

            for (; sent < to && sent - answered < FILL_DEPTH; sent++)
                size += put_request(out + size, FRAME_ACQUIRE, sent);
            client_send(fd, out, size);
        }
        receive_more(fd, in, &have);
        drop_used(in, &have, take_answers(NULL, in, have, &answered));
    }
    return (double)(clock_ns() - begin_ns) / 1e9;
}

/* Whole answers of a dump: their bytes.  *end: the last one was there. */
static size_t
count_records(const uint8_t *in, size_t have, uint64_t *records, bool *end)
{
    size_t at = 0;

    while (have - at >= FRAME_HEADER && !*end) {
        const uint32_t body = get_be32(in + at + 4);

        if (have - at < FRAME_HEADER + body)
            break;
        at += FRAME_HEADER + body;
        *end = body == 0;
        *records += body > 0;
    }
    return at;
}

double
live_load_dump(int fd, uint64_t *records)
{
    static uint8_t in[DUMP_RECEIVE];
    const uint64_t begin_ns = clock_ns();
    uint8_t request[FRAME_HEADER];
    size_t have = 0;
    bool end = false;

    *records = 0;
    client_send(fd, request, put_request(request, FRAME_DUMP, 0));
    while (!end) {
        receive_more(fd, in, &have);
        drop_used(in, &have, count_records(in, have, records, &end));
    }
    return (double)(clock_ns() - begin_ns) / 1e9;
}
