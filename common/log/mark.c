/* common/log/mark.c - see mark.h. */
#include "common/log/mark.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

#define HASH_DIGITS ((size_t)2 * MARK_HASH_SIZE)

static const char digits[] = "0123456789abcdef";

static void
put_digits(uint8_t *at, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        at[2 * i] = (uint8_t)digits[bytes[i] >> 4];
        at[2 * i + 1] = (uint8_t)digits[bytes[i] & 15];
    }
}

static uint8_t
value_of(uint8_t digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static void
get_digits(uint8_t *bytes, const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] =
            (uint8_t)(value_of(at[2 * i]) << 4 | value_of(at[2 * i + 1]));
}

static bool
are_digits(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!(at[i] >= '0' && at[i] <= '9') && !(at[i] >= 'a' && at[i] <= 'f'))
            return false;
    return true;
}

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
    put_digits(bytes + l->key_at, mark->hash, sizeof mark->hash);
    put_digits(bytes + l->key_at + HASH_DIGITS, body, sizeof body);
    set_message(l, bytes, out);
}

int
mark_check(const struct layout *l, const uint8_t *bytes, struct message *out)
{
    const uint8_t *key = bytes + l->key_at;
    const int64_t count = get_le64s(bytes);

    if (!mark_fits(l) || count < 0 || count > UINT32_MAX)
        return -EBADMSG;
    if (!message_is_zero(bytes + 8, l->keyspace_size) ||
        !are_digits(key, MARK_KEY_SIZE) ||
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
    get_digits(out->hash, m->key, sizeof out->hash);
    get_digits(body, m->key + HASH_DIGITS, sizeof body);
    out->body = get_le64(body);
    out->count = (uint32_t)m->increment;
}
