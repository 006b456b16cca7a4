/* tests/bench/live_ceiling.c - the least a server of the counter protocol can
 * do; see live_load.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include <sys/socket.h>

#include "common/base/bytes.h"
#include "common/wire/frame.h"
#include "tests/bench/bench.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/live_load.h"
#include "tests/lib/client.h"

#define RECORD_SIZE (FRAME_HEADER + 10 + LIVE_NAME_SIZE)
#define PIECE       ((64u << 10) / RECORD_SIZE) /* records of one send */

static uint8_t piece[PIECE * RECORD_SIZE];

static void
make_piece(const struct ceiling *c)
{
    static const struct frame_header h = {.magic = FRAME_ANSWER,
                                          .opcode = FRAME_DUMP,
                                          .body_size = 10 + LIVE_NAME_SIZE,
                                          .opaque = {1, 2, 3, 4}};

    (void)c; /* all are alike */
    for (size_t i = 0; i < PIECE; i++) {
        frame_put_header(piece + i * RECORD_SIZE, &h);
        put_be16(piece + i * RECORD_SIZE + FRAME_HEADER + 8, LIVE_NAME_SIZE);
    }
}

/* Others that ask meanwhile wait. */
static void
send_dump(int fd, uint64_t records)
{
    uint8_t end[FRAME_HEADER] = {FRAME_ANSWER, FRAME_DUMP, [8] = 1, 2, 3, 4};

    for (uint64_t n; records > 0; records -= n) {
        n = records < PIECE ? records : PIECE;
        client_send(fd, piece, n * RECORD_SIZE);
    }
    client_send(fd, end, sizeof end);
}

static size_t
take_requests(const struct ceiling *c, struct ceiling_conn *conn)
{
    static uint8_t out[CEILING_IN_SIZE * 2];
    const uint64_t *records = c->ctx;
    struct frame_header h;
    size_t at = 0, size = 0;

    while (conn->have - at >= FRAME_HEADER) {
        frame_get_header(conn->in + at, &h);
        if (conn->have - at < FRAME_HEADER + h.body_size)
            break;
        at += FRAME_HEADER + h.body_size;
        if (h.opcode == FRAME_DUMP) {
            send_dump(conn->fd, *records);
            continue;
        }
        h.magic = FRAME_ANSWER;
        h.status = FRAME_OK;
        h.body_size =
            h.opcode == FRAME_GET || h.opcode == FRAME_ACQUIRE ? 4 : 0;
        frame_put_header(out + size, &h);
        size += FRAME_HEADER;
        if (h.body_size > 0) {
            put_be32(out + size, 1);
            size += 4;
        }
    }
    if (size > 0)
        (void)client_try_send(conn->fd, out, size); /* else it has gone */
    return at;
}

pid_t
live_ceiling_start(uint16_t *port, uint64_t records)
{
    const struct ceiling c = {
        .open = make_piece, .take = take_requests, .ctx = &records};

    return ceiling_start(&c, port, NULL);
}
