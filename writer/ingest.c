/* writer/ingest.c - see ingest.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/ingest.h"

/* A turn has capacity for several slices, each of which costs a wait, a receive
 * and a write; an answer waits for the sync of all that came meanwhile. */
#define SLICE ((uint32_t)256 << 10)

/* Bytes of the messages that the logs have free slots for: whole ones, so that
 * a sender that is ahead leaves no rest to be kept.  None while the group that
 * a client waits for is full: its sync would take longer the more others send.
 */
static size_t
input_limit(struct listener *d)
{
    const struct ingest *in = d->row->ctx;
    const size_t size = in->logs->layout.message_size;
    const size_t count = logs_free_slots(in->logs), most = SLICE / size;

    if (gate_has_waiters(&in->commit->gate) && logs_group_is_full(in->logs))
        return 0;
    return (count < most ? count : most) * size;
}

/* What a connection is at. */
struct ingest_state {
    uint32_t minute; /* of the messages that come; 0: of their receipt */
    uint32_t unused;
};

/* Puts the whole messages there are into the logs; acknowledges them, and time
 * messages too, where the protocol does. */
static enum conn_next
take(struct conn *c, struct input *input)
{
    struct ingest_state *state = conn_state(c);
    struct ingest *in = conn_ctx(c);
    const struct layout *l = &in->logs->layout;
    struct message m;
    uint32_t count = 0, times = 0;
    bool bad = false;

    input->need = l->message_size;
    while (input->size >= l->message_size) {
        if (message_parse(l, input->at, &m) == 0) {
            m.minute = state->minute;
            logs_put(in->logs, &m);
        } else if (message_is_time(l, input->at, &state->minute)) {
            times++;
        } else {
            bad = true;
            break;
        }
        input->at += l->message_size;
        input->size -= l->message_size;
        count++;
    }
    in->messages += count - times;
    if (count > 0 && c->listener->row->protocol->ack) {
        /* The only gate of this listener. */
        (void)conn_gate(c, &in->commit->gate);
        conn_add_acks(c, count);
    }
    return bad ? conn_refuse(c, "an empty keyspace or key, or bytes behind a "
                                "name's first NUL")
               : CONN_NEED_INPUT;
}

const struct protocol ingest_silent = {.state_size =
                                           sizeof(struct ingest_state),
                                       .stop = STOP_DRAIN,
                                       .takes = "increments",
                                       .slice = SLICE,
                                       .input_limit = input_limit,
                                       .take = take};

const struct protocol ingest_ack = {.state_size = sizeof(struct ingest_state),
                                    .stop = STOP_DRAIN,
                                    .takes = "increments",
                                    .ack = "WIN",
                                    .refusal = "FAIL",
                                    .slice = SLICE,
                                    .input_limit = input_limit,
                                    .take = take};
