/* writer/live/live_protocol.c - see live_protocol.h:
 * live_protocol_do(), live_protocol_dump(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/live/live_protocol.h"

#include <assert.h>
#include <string.h>

#define DUMP_STEPS 8192 /* places of the arena looked at in one call */
#define WHO_STEPS  4096 /* connections looked at for one answer to Who */
#define WHO_MAX    (10 + NET_ADDRESS_SIZE) /* of one holder in it */

/* An answer with a text has at most 64 bytes: there is a client with room for
 * no more. */
#define TEXT_MAX (64 - FRAME_HEADER)

static_assert(LIVE_PROTOCOL_PIECE - 1 + 2 * FRAME_HEADER + 10 +
                      FRAME_NAME_MAX <=
                  LIVE_PROTOCOL_OUT_SIZE,
              "a record and the end of a dump fit");

/* A request that has been read. */
struct request {
    const uint8_t *header;
    struct frame_ask ask;
    uint32_t hash;
    uint8_t opcode; /* copied: cheaper than a look at the header */
    uint8_t status; /* FRAME_OK, or how it is refused */
};

/* ---- answers ----------------------------------------------------------- */

static bool
has_enough(const struct live_protocol *r)
{
    assert(r->piece <= LIVE_PROTOCOL_PIECE);
    return r->out_size >= r->piece;
}

/* A header; returns where the body goes. */
static uint8_t *
put_header(struct live_protocol *r, const uint8_t *header,
           enum frame_status status, uint32_t body_size)
{
    uint8_t *at = r->out + r->out_size;

    at[0] = FRAME_ANSWER;
    at[1] = header[1];
    at[2] = (uint8_t)status;
    at[3] = 0;
    put_be32(at + 4, body_size);
    memcpy(at + 8, header + 8, 4);
    r->out_size += FRAME_HEADER + body_size;
    return at + FRAME_HEADER;
}

static void
put_error(struct live_protocol *r, const uint8_t *header,
          enum frame_status status)
{
    const char *text = frame_text(status);
    const size_t size = strlen(text);

    assert(size <= TEXT_MAX);
    memcpy(put_header(r, header, status, (uint32_t)size), text, size);
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

static void
put_stats(const struct live_server *s, const uint8_t *header,
          struct live_protocol *r)
{
    const struct live_server_stats *f = &s->stats;
    const struct live *l = &s->live;
    uint8_t *const start = r->out + r->out_size + FRAME_HEADER;
    uint8_t *at = start;

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
    assert(at - start <= LIVE_PROTOCOL_ANSWER - FRAME_HEADER);
    put_header(r, header, FRAME_OK, (uint32_t)(at - start));
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

/* How many bytes of a request have to be there to do it, as far as the first
 * `size` show; what is behind them is of no use. */
static size_t
needed_bytes(const uint8_t *bytes, size_t size, size_t fixed)
{
    const size_t body = get_be32(bytes + 4);

    if (body < fixed)
        return FRAME_HEADER + body; /* it is refused */
    if (size < FRAME_HEADER + fixed)
        return FRAME_HEADER + fixed;
    fixed += get_be16(bytes + FRAME_HEADER + fixed - 2);
    return FRAME_HEADER + (body < fixed ? body : fixed);
}

/* `body_size` bytes of the body are there, which are all that it needs. */
static void
read_request(const struct live_server *s, const uint8_t *bytes,
             size_t body_size, int fixed, struct request *q)
{
    q->header = bytes;
    q->opcode = bytes[1];
    q->status = FRAME_OK;
    if (bytes[0] != FRAME_REQUEST)
        q->status = FRAME_INVALID;
    else if (fixed < 0)
        q->status = FRAME_UNKNOWN;
    else if (fixed == 0)
        return;
    else if (frame_get_ask((enum frame_opcode)q->opcode, bytes + FRAME_HEADER,
                           body_size, &q->ask))
        q->hash = live_hash(&s->live, q->ask.name, q->ask.name_size);
    else
        q->status = FRAME_INVALID;
}

/* ---- doing ------------------------------------------------------------- */

/* Puts as many holders as fit one answer; the next request continues. */
static void
do_who(struct live_server *s, const struct request *q, struct live_protocol *r)
{
    const struct live *l = &s->live;
    const size_t end = s->listener != NULL ? s->listener->touched : 0;
    uint8_t *const start = r->out + r->out_size + FRAME_HEADER;
    uint8_t *at = start + 4;
    uint32_t amount, age_s, from = q->ask.resources, steps = WHO_STEPS;
    char address[NET_ADDRESS_SIZE];

    if (live_get(l, q->hash, q->ask.name, q->ask.name_size, &amount) !=
        FRAME_OK) {
        put_error(r, q->header, FRAME_NOT_FOUND);
        return;
    }
    for (; from < end && steps > 0 &&
           at - start + WHO_MAX <= LIVE_PROTOCOL_ANSWER - FRAME_HEADER;
         from++, steps--) {
        size_t size;

        amount = live_held(l, from, q->hash, q->ask.name, q->ask.name_size);
        if (amount == 0 || !live_server_peer(s, from, address, &age_s))
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

static enum live_protocol_stop
do_request(struct live_server *s, uint32_t holder, const struct request *q,
           struct live_protocol *r)
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
            return LIVE_PROTOCOL_MORE;
        case FRAME_STATS:
            s->stats.stats++;
            put_stats(s, q->header, r);
            return LIVE_PROTOCOL_MORE;
        case FRAME_DUMP:
            s->stats.dump++;
            memcpy(r->dump, q->header + 8, sizeof r->dump);
            return LIVE_PROTOCOL_DUMP;
        }
    if (status != FRAME_OK) {
        put_error(r, q->header, status);
        return LIVE_PROTOCOL_MORE;
    }
    body = put_header(r, q->header, FRAME_OK, value_size);
    if (value_size > 0)
        put_be32(body, value);
    return LIVE_PROTOCOL_MORE;
}

enum live_protocol_stop
live_protocol_do(struct live_server *s, uint32_t holder,
                 struct live_protocol *r)
{
    for (;;) {
        struct request q;
        uint32_t body, have;
        int fixed;

        r->need = FRAME_HEADER;
        if (has_enough(r))
            return LIVE_PROTOCOL_FULL;
        if (r->in_size < FRAME_HEADER)
            return LIVE_PROTOCOL_MORE;
        body = get_be32(r->in + 4);
        if (body > FRAME_BODY_MAX)
            return LIVE_PROTOCOL_LONG;
        fixed = fixed_bytes(s, r->in);
        if (r->in[0] == FRAME_REQUEST && fixed > 0)
            r->need = (uint32_t)needed_bytes(r->in, r->in_size, (size_t)fixed);
        if (r->in_size < r->need)
            return LIVE_PROTOCOL_MORE;
        have = (uint32_t)(r->in_size - FRAME_HEADER);
        if (have > body)
            have = body;
        read_request(s, r->in, have, fixed, &q);
        r->in += FRAME_HEADER + have;
        r->in_size -= FRAME_HEADER + have;
        r->skip = body - have;
        if (do_request(s, holder, &q, r) == LIVE_PROTOCOL_DUMP)
            return LIVE_PROTOCOL_DUMP;
    }
}

/* ---- Dump -------------------------------------------------------------- */

static void
put_record(struct live_protocol *r, const uint8_t *header,
           const struct live_record *record)
{
    uint8_t *at;

    at = put_header(r, header, FRAME_OK, 10 + (uint32_t)record->name_size);
    put_be32(at, record->current);
    put_be32(at + 4, record->maximum);
    put_be16(at + 8, record->name_size);
    memcpy(at + 10, record->name, record->name_size);
}

bool
live_protocol_dump(const struct live_server *s, uint32_t *from,
                   const uint8_t opaque[4], struct live_protocol *r)
{
    uint8_t header[FRAME_HEADER] = {FRAME_ANSWER, FRAME_DUMP};
    struct live_record record;
    struct live_walk walk = {.from = *from, .steps = DUMP_STEPS};
    int rc = 1;

    memcpy(header + 8, opaque, 4);
    while (!has_enough(r) && (rc = live_next(&s->live, &walk, &record)) == 1)
        put_record(r, header, &record);
    *from = walk.from;
    if (rc == 0)
        put_header(r, header, FRAME_OK, 0);
    return rc == 0;
}
