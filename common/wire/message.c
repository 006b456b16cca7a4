/* common/wire/message.c - see message.h; its slots are in slot.c.
 *
 * layout_init(), message_parse(), message_put() and message_is_time(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/message.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

int
layout_init(struct layout *l, unsigned keyspace_size, unsigned key_size)
{
    if (keyspace_size < 1 || keyspace_size > MESSAGE_NAME_MAX)
        return -ERANGE;
    if (key_size < 1 || key_size > MESSAGE_NAME_MAX)
        return -ERANGE;

    l->keyspace_size = (uint16_t)keyspace_size;
    l->key_size = (uint16_t)key_size;
    l->key_at = 8 + keyspace_size;
    l->message_size = l->key_at + key_size;
    l->received_at = l->message_size + 8;
    l->synced_at = l->received_at + 8;
    l->crc_at = l->synced_at + 4;
    l->slot_size = l->crc_at + 4;
    return 0;
}

/* Nearly every byte of a message is padding, so this runs over some 480 bytes
 * of each.  libc's memcmp uses the widest loads of the machine it runs on,
 * which no loop compiled for every machine can. */
bool
message_is_zero(const uint8_t *at, size_t size)
{
    static const uint8_t zeros[MESSAGE_NAME_MAX];

    for (; size > sizeof zeros; at += sizeof zeros, size -= sizeof zeros)
        if (memcmp(at, zeros, sizeof zeros) != 0)
            return false;
    return memcmp(at, zeros, size) == 0;
}

uint16_t
message_name_size(const uint8_t *field, uint16_t field_size)
{
    const uint8_t *nul = memchr(field, 0, field_size);
    size_t size;

    if (!nul)
        return field_size;
    size = (size_t)(nul - field);
    return message_is_zero(nul, field_size - size) ? (uint16_t)size : 0;
}

int
message_parse(const struct layout *l, const uint8_t *bytes, struct message *out)
{
    const uint16_t keyspace_size =
        message_name_size(bytes + 8, l->keyspace_size);
    const uint16_t key_size = message_name_size(bytes + l->key_at, l->key_size);

    if (keyspace_size == 0 || key_size == 0)
        return -EBADMSG;
    *out = (struct message){.increment = get_le64s(bytes),
                            .keyspace = bytes + 8,
                            .key = bytes + l->key_at,
                            .keyspace_size = keyspace_size,
                            .key_size = key_size};
    return 0;
}

static int
check_name(const uint8_t *name, size_t size, size_t field_size)
{
    if (size == 0)
        return -EINVAL;
    if (size > field_size)
        return -ENAMETOOLONG;
    return memchr(name, 0, size) ? -EINVAL : 0;
}

int
message_check(const struct layout *l, const struct message *m)
{
    const int rc = check_name(m->keyspace, m->keyspace_size, l->keyspace_size);

    return rc < 0 ? rc : check_name(m->key, m->key_size, l->key_size);
}

int
message_put(const struct layout *l, const struct message *m, uint8_t *bytes)
{
    const int rc = message_check(l, m);

    if (rc < 0)
        return rc;

    memset(bytes, 0, l->message_size);
    put_le64s(bytes, m->increment);
    memcpy(bytes + 8, m->keyspace, m->keyspace_size);
    memcpy(bytes + l->key_at, m->key, m->key_size);
    return 0;
}

bool
message_is_time(const struct layout *l, const uint8_t *bytes, uint32_t *minute)
{
    if (get_le32(bytes + 4) != MESSAGE_TIME_TAG ||
        !message_is_zero(bytes + 8, l->message_size - 8))
        return false;
    *minute = get_le32(bytes);
    return true;
}

void
message_put_time(const struct layout *l, uint32_t minute, uint8_t *bytes)
{
    memset(bytes, 0, l->message_size);
    put_le32(bytes, minute);
    put_le32(bytes + 4, MESSAGE_TIME_TAG);
}
