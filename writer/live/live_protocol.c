/* writer/live/live_protocol.c - requests of the counter and semaphore
 * protocols; see live_server.h.
 *
 *     take()  requests of a connection, each of which do_request() answers
 *     more()  a piece of a Dump
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/live/live_server.h"

#include <assert.h>
#include <string.h>

#define DUMP_STEPS 8192 /* places of the arena looked at in one call */
#define WHO_STEPS  4096 /* connections looked at for one answer to Who */
#define WHO_MAX    (10 + NET_ADDRESS_SIZE) /* bytes of a holder in it */

/* An answer with a text has at most 64 bytes: some client has a buffer of that
 * size. */
#define TEXT_MAX (64 - FRAME_HEADER)

/* Answers of one go stop when there are PIECE bytes of them; the last one may
 * have ANSWER_MAX more, or be a record of a Dump. */
#define PIECE      (65536 - 128)
#define ANSWER_MAX 1024

/* If the pool is short, answers are made in pieces that may use its reserve. */
#define SHORT_PIECE 2048
#define SHORT_ROOM  (SHORT_PIECE + ANSWER_MAX)

static_assert(PIECE - 1 + 2 * FRAME_HEADER + 10 + FRAME_NAME_MAX <=
                  LIVE_PROTOCOL_OUT_SIZE,
              "a record and the end of a dump fit");

struct live_state {
    uint32_t began_s;  /* of loop_now_ms(), in seconds */
    uint32_t dropped;  /* bytes of a request that came after those it needs */
    uint32_t from;     /* where a Dump goes on */
    uint8_t opaque[4]; /* of the Dump */
};
static_assert(sizeof(struct live_state) == 16, "idle connections are cheap");

/* Answers on their way into a connection. */
struct answers {
    uint8_t *out;
    size_t size;
    size_t piece; /* when to stop */
};

/* A request that has been read. */
struct request {
    const uint8_t *header;
    struct frame_ask ask;
    uint32_t hash;
    uint8_t opcode; /* copied: cheaper than reading the header */
    uint8_t status; /* FRAME_OK, or how it is refused */
};

/* ---- answers ----------------------------------------------------------- */

/* Puts a header; returns where the body begins. */
static uint8_t *
put_header(struct answers *r, const uint8_t *header, enum frame_status status,
           uint32_t body_size)
{
    uint8_t *at = r->out + r->size;

    at[0] = FRAME_ANSWER;
    at[1] = header[1];
    at[2] = (uint8_t)status;
    at[3] = 0;
    put_be32(at + 4, body_size);
    memcpy(at + 8, header + 8, 4);
    r->size += FRAME_HEADER + body_size;
    return at + FRAME_HEADER;
}

static void
put_error(struct answers *r, const uint8_t *header, enum frame_status status)
{
    const char *text = frame_text(status);
    const size_t size = strlen(text);
    uint8_t *body = put_header(r, header, status, (uint32_t)size);

    assert(size <= TEXT_MAX);
    for (size_t i = 0; i < size; i++)
        body[i] = (uint8_t)text[i];
}

/* ---- Stats ------------------------------------------------------------- */

static void
put_pair(uint8_t **at, const char *name, uint64_t value)
{
    const size_t name_size = strlen(name);
    const size_t value_size = put_decimal(*at + 4 + name_size, value);

    put_be16(*at, (uint16_t)name_size);
    put_be16(*at + 2, (uint16_t)value_size);
    memcpy(*at + 4, name, name_size);
    *at += 4 + name_size + value_size;
}

size_t
live_server_put_stats(const struct live_server *s, uint8_t *out)
{
    const struct live_server_stats *f = &s->stats;
    const struct live *l = &s->live;
    uint8_t *at = out;

    /* Names and order are those that clients know; all values are live. */
    put_pair(&at, "objects", l->count);
    put_pair(&at, "total_objects", l->stats.created);
    put_pair(&at, "used_memory", live_memory(l));
    put_pair(&at, "conflicts", l->count - l->names.used);
    put_pair(&at, "gc_count", l->stats.swept);
    put_pair(&at, "last_gc_elapsed", l->stats.last_sweep_us);
    put_pair(&at, "total_gc_elapsed", l->stats.total_sweep_us);
    put_pair(&at, "curr_connections", s->listener->open);
    put_pair(&at, "total_connections", s->listener->stats.accepted);
    put_pair(&at, "command:noop", f->noop);
    put_pair(&at, "command:get", f->get);
    put_pair(&at, "command:acquire", f->acquire);
    put_pair(&at, "command:release", f->release);
    put_pair(&at, "command:stats", f->stats);
    if (s->live.options.kind == LIVE_COUNTER)
        put_pair(&at, "command:dump", f->dump);
    assert(at - out <= ANSWER_MAX - FRAME_HEADER);
    return (size_t)(at - out);
}

/* ---- reading ----------------------------------------------------------- */

/* Bytes of a body up to its name; 0: it has none; below 0: the request is
 * unknown.  `bytes` begin with a header; some opcodes are known only with their
 * flags. */
static int
fixed_bytes(const struct live_server *s, const uint8_t *bytes)
{
    switch (bytes[1]) {
    case FRAME_NOOP:
    case FRAME_STATS:
        return 0;
    case FRAME_GET:
        return 2;
    case FRAME_ACQUIRE:
        return 10;
    case FRAME_RELEASE:
        return 6;
    case FRAME_WHO:
        return bytes[2] == FRAME_WHO_FLAGS ? 6 : -1;
    case FRAME_DUMP:
        return s->live.options.kind == LIVE_COUNTER ? 0 : -1;
    default:
        return -1;
    }
}

/* How many bytes of a request are needed to do it, as far as its first `size`
 * bytes show; the bytes after them are ignored. */
static size_t
needed_bytes(const uint8_t *bytes, size_t size, size_t fixed)
{
    const size_t body = get_be32(bytes + 4);

    if (body < fixed)
        return FRAME_HEADER + body; /* to be refused */
    if (size < FRAME_HEADER + fixed)
        return FRAME_HEADER + fixed;
    fixed += get_be16(bytes + FRAME_HEADER + fixed - 2);
    return FRAME_HEADER + (body < fixed ? body : fixed);
}

/* Reads a request of which `body_size` bytes of the body are there, as many as
 * it needs. */
static void
read_request(const struct live_server *s, const uint8_t *bytes,
             size_t body_size, int fixed, struct request *q)
{
    q->header = bytes;
    q->opcode = bytes[1];
    q->status = FRAME_INVALID;
    if (bytes[0] != FRAME_REQUEST)
        return;
    if (fixed < 0) {
        q->status = FRAME_UNKNOWN;
    } else if (fixed == 0) {
        q->status = FRAME_OK;
    } else if (frame_get_ask((enum frame_opcode)q->opcode, bytes + FRAME_HEADER,
                             body_size, &q->ask)) {
        q->status = FRAME_OK;
        q->hash = live_hash(&s->live, q->ask.name, q->ask.name_size);
    }
}

/* ---- doing ------------------------------------------------------------- */

/* The address of a holder's connection as text, and how many seconds ago it was
 * accepted.  False: the connection has ended. */
static bool
find_peer(const struct live_server *s, uint32_t holder,
          char address[NET_ADDRESS_SIZE], uint32_t *age_s)
{
    struct conn *c = listener_open_conn(s->listener, holder);
    const struct live_state *state;

    if (c == NULL)
        return false;
    state = conn_state(c);
    conn_peer(c, address);
    *age_s = (uint32_t)(loop_now_ms(s->loop) / 1000 - state->began_s);
    return true;
}

/* Puts as many holders as fit one answer; the next request continues. */
static void
do_who(struct live_server *s, const struct request *q, struct answers *r)
{
    const struct live *l = &s->live;
    const size_t end = s->listener->touched;
    uint8_t *const start = r->out + r->size + FRAME_HEADER;
    uint8_t *at = start + 4;
    uint32_t amount, age_s, from = q->ask.resources, steps = WHO_STEPS;
    char address[NET_ADDRESS_SIZE];

    if (live_get(l, q->hash, q->ask.name, q->ask.name_size, &amount) !=
        FRAME_OK) {
        put_error(r, q->header, FRAME_NOT_FOUND);
        return;
    }
    for (; from < end && steps > 0 &&
           at - start + WHO_MAX <= ANSWER_MAX - FRAME_HEADER;
         from++, steps--) {
        size_t size;

        amount = live_held(l, from, q->hash, q->ask.name, q->ask.name_size);
        if (amount == 0 || !find_peer(s, from, address, &age_s))
            continue;
        size = strlen(address);
        put_be32(at, amount);
        put_be32(at + 4, age_s);
        put_be16(at + 8, (uint16_t)size);
        memcpy(at + 10, address, size);
        at += 10 + size;
    }
    put_be32(start, from < end ? from : 0);
    put_header(r, q->header, FRAME_OK, (uint32_t)(at - start));
}

/* Returns whether the request is a Dump, which is answered later. */
static bool
do_request(struct live_server *s, uint32_t holder, const struct request *q,
           struct answers *r)
{
    struct live *l = &s->live;
    enum frame_status status = (enum frame_status)q->status;
    uint32_t value = 0, value_size = 4;
    uint8_t *body;

    if (status == FRAME_OK)
        switch ((enum frame_opcode)q->opcode) {
        case FRAME_NOOP:
            s->stats.noop++;
            value_size = 0;
            break;
        case FRAME_GET:
            s->stats.get++;
            status =
                live_get(l, q->hash, q->ask.name, q->ask.name_size, &value);
            break;
        case FRAME_ACQUIRE:
            s->stats.acquire++;
            value = q->ask.resources;
            status = live_acquire(l, holder, q->hash, &q->ask);
            break;
        case FRAME_RELEASE:
            s->stats.release++;
            value_size = 0;
            status = live_release(l, holder, q->hash, &q->ask);
            break;
        case FRAME_WHO:
            do_who(s, q, r);
            return false;
        case FRAME_STATS:
            s->stats.stats++;
            value_size = (uint32_t)live_server_put_stats(s, r->out + r->size +
                                                                FRAME_HEADER);
            put_header(r, q->header, FRAME_OK, value_size);
            return false;
        case FRAME_DUMP:
            s->stats.dump++;
            return true;
        }
    if (status != FRAME_OK) {
        put_error(r, q->header, status);
        return false;
    }
    body = put_header(r, q->header, FRAME_OK, value_size);
    if (value_size > 0)
        put_be32(body, value);
    return false;
}

/* Does the requests that have come whole.  CONN_END: the next body is too long.
 *
 * Only the bytes that an unfinished request needs are kept. */
static enum conn_next
do_requests(struct conn *c, struct input *in, struct answers *r)
{
    struct live_server *s = conn_ctx(c);
    struct live_state *state = conn_state(c);
    const uint32_t holder = conn_number(c);

    for (;;) {
        struct request q;
        uint32_t body, have;
        int fixed;

        in->need = FRAME_HEADER;
        if (r->size >= r->piece)
            return CONN_FULL;
        if (in->size < FRAME_HEADER)
            return CONN_NEED_INPUT;
        body = get_be32(in->at + 4);
        if (body > FRAME_BODY_MAX)
            return CONN_END;
        fixed = fixed_bytes(s, in->at);
        if (in->at[0] == FRAME_REQUEST && fixed > 0)
            in->need = (uint32_t)needed_bytes(in->at, in->size, (size_t)fixed);
        if (in->size < in->need)
            return CONN_NEED_INPUT;
        have = (uint32_t)(in->size - FRAME_HEADER);
        if (have < body - state->dropped) {
            state->dropped += (uint32_t)in->size - in->need;
            in->size = in->need;
            in->need = 0;
            return CONN_NEED_INPUT;
        }
        have = body - state->dropped;
        state->dropped = 0;
        read_request(s, in->at, have, fixed, &q);
        in->at += FRAME_HEADER + have;
        in->size -= FRAME_HEADER + have;
        if (do_request(s, holder, &q, r)) {
            state->from = 0;
            memcpy(state->opaque, q.header + 8, sizeof state->opaque);
            return CONN_LONG;
        }
    }
}

/* ---- Dump -------------------------------------------------------------- */

static void
put_record(struct answers *r, const uint8_t *header,
           const struct live_record *record)
{
    uint8_t *at;

    at = put_header(r, header, FRAME_OK, 10 + (uint32_t)record->name_size);
    put_be32(at, record->current);
    put_be32(at + 4, record->maximum);
    put_be16(at + 8, record->name_size);
    memcpy(at + 10, record->name, record->name_size);
}

static enum conn_next
more(struct conn *c)
{
    const struct live_server *s = conn_ctx(c);
    struct live_state *state = conn_state(c);
    struct answers r = {.out = conn_space(c, LIVE_PROTOCOL_OUT_SIZE),
                        .piece = PIECE};
    uint8_t header[FRAME_HEADER] = {FRAME_ANSWER, FRAME_DUMP};
    struct live_walk walk = {.from = state->from, .steps = DUMP_STEPS};
    struct live_record record;
    int rc = 1;

    if (!r.out)
        return CONN_FULL;
    memcpy(header + 8, state->opaque, sizeof state->opaque);
    while (r.size < r.piece && (rc = live_next(&s->live, &walk, &record)) == 1)
        put_record(&r, header, &record);
    state->from = walk.from;
    if (rc == 0)
        put_header(&r, header, FRAME_OK, 0);
    conn_put(c, r.size);
    return rc == 0 ? CONN_ANSWERED : CONN_LONG;
}

/* ---- connections ------------------------------------------------------- */

static void
began(struct conn *c)
{
    const struct live_server *s = conn_ctx(c);
    struct live_state *state = conn_state(c);

    state->began_s = (uint32_t)(loop_now_ms(s->loop) / 1000);
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    struct answers r = {.out = conn_space(c, LIVE_PROTOCOL_OUT_SIZE),
                        .piece = PIECE};
    enum conn_next next;

    live_server_see_clock(conn_ctx(c));
    if (!r.out)
        r = (struct answers){.out = conn_space(c, SHORT_ROOM),
                             .piece = SHORT_PIECE};
    if (!r.out)
        return CONN_FULL;
    next = do_requests(c, in, &r);
    conn_put(c, r.size);
    /* What the connection holds is released at once, so it does not linger for
     * its peer to read the answers. */
    if (next == CONN_END)
        (void)conn_refuse(c, "a body above 31457280 bytes");
    return next;
}

/* Releases what a closed connection holds; true when nothing is left. */
static bool
ended(struct conn *c)
{
    struct live_server *s = conn_ctx(c);

    return live_drop(&s->live, conn_number(c), LIVE_DROP_STEP);
}

const struct protocol live_protocol = {.state_size = sizeof(struct live_state),
                                       .stop = STOP_CUT,
                                       .takes = "requests",
                                       .take = take,
                                       .more = more,
                                       .began = began,
                                       .ended = ended};
