/* common/log/mark.c - see mark.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/mark.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hex.h"

#define HASH_DIGITS ((size_t)2 * MARK_HASH_SIZE)

static void
set_message(const struct layout *l, const uint8_t *bytes, struct message *out)
{
    *out = (struct message){.increment = get_le64s(bytes),
                            .keyspace = bytes + 8,
                            .key = bytes + l->key_at,
                            .key_size = MARK_KEY_SIZE};
}

void
mark_put(const struct layout *l, const struct request_mark *mark,
         uint8_t *bytes, struct message *out)
{
    uint8_t body[8];

    assert(mark_fits(l));
    memset(bytes, 0, l->message_size);
    put_le64s(bytes, mark->count);
    put_le64(body, mark->body);
    (void)hex_put(bytes + l->key_at, mark->hash, sizeof mark->hash);
    (void)hex_put(bytes + l->key_at + HASH_DIGITS, body, sizeof body);
    set_message(l, bytes, out);
}

int
mark_check(const struct layout *l, const uint8_t *bytes, struct message *out)
{
    const uint8_t *key = bytes + l->key_at;
    uint8_t values[MARK_KEY_SIZE / 2];
    const int64_t count = get_le64s(bytes);

    if (!mark_fits(l) || count < 0 || count > UINT32_MAX)
        return -EBADMSG;
    if (!message_is_zero(bytes + 8, l->keyspace_size) ||
        !hex_get(key, values, sizeof values) ||
        !message_is_zero(key + MARK_KEY_SIZE, l->key_size - MARK_KEY_SIZE))
        return -EBADMSG;
    set_message(l, bytes, out);
    return 0;
}

void
mark_get(const struct message *m, struct request_mark *out)
{
    uint8_t body[8];

    assert(mark_is(m));
    (void)hex_get(m->key, out->hash, sizeof out->hash);
    (void)hex_get(m->key + HASH_DIGITS, body, sizeof body);
    out->body = get_le64(body);
    out->count = (uint32_t)m->increment;
}
