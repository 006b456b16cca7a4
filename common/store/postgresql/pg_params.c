/* common/store/postgresql/pg_params.c - parameters and results in PostgreSQL's
 * binary form. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void
pg_call(struct pg_call *c, enum pg_statement statement)
{
    c->statement = statement;
    c->count = 0;
    c->result = NULL;
}

static void
add_value(struct pg_call *c, const void *bytes, size_t size, int format)
{
    assert(c->count < PG_PARAMS_MAX);
    c->values[c->count] = bytes;
    c->sizes[c->count] = (int)size;
    c->formats[c->count++] = format;
}

void
pg_add_bytes(struct pg_call *c, const void *bytes, size_t size)
{
    add_value(c, size > 0 ? bytes : "", size, 1);
}

void
pg_add_text(struct pg_call *c, const char *text)
{
    add_value(c, text, 0, 0);
}

void
pg_add_null(struct pg_call *c)
{
    add_value(c, NULL, 0, 1);
}

void
pg_add_int(struct pg_call *c, int32_t value)
{
    uint8_t *at = c->numbers[c->count];

    put_be32(at, (uint32_t)value);
    add_value(c, at, 4, 1);
}

void
pg_add_bigint(struct pg_call *c, int64_t value)
{
    uint8_t *at = c->numbers[c->count];

    put_be64(at, (uint64_t)value);
    add_value(c, at, 8, 1);
}

/* ---- arrays ------------------------------------------------------------ */

/* Of one dimension: dimensions, has nulls, type, then count, lower bound. */
#define ARRAY_HEAD  20
#define ARRAY_COUNT 12

static bool
reserve(struct pg_array *a, size_t more)
{
    size_t capacity = (a->size + more) * 2 + 4096;
    uint8_t *bytes;

    if (a->failed || a->size + more <= a->capacity)
        return !a->failed;
    bytes = realloc(a->bytes, capacity);
    if (!bytes) {
        a->failed = true;
        return false;
    }
    a->bytes = bytes;
    a->capacity = capacity;
    return true;
}

void
pg_array_begin(struct pg_array *a, enum pg_type type)
{
    a->size = 0;
    a->count = 0;
    if (!reserve(a, ARRAY_HEAD))
        return;
    put_be32(a->bytes, 1);
    put_be32(a->bytes + 4, 0);
    put_be32(a->bytes + 8, (uint32_t)type);
    put_be32(a->bytes + 16, 1);
    a->size = ARRAY_HEAD;
}

void
pg_array_add(struct pg_array *a, const void *bytes, size_t size)
{
    if (!reserve(a, 4 + size))
        return;
    put_be32(a->bytes + a->size, (uint32_t)size);
    if (size > 0)
        memcpy(a->bytes + a->size + 4, bytes, size);
    a->size += 4 + size;
    a->count++;
}

void
pg_array_add_bigint(struct pg_array *a, int64_t value)
{
    uint8_t bytes[8];

    put_be64(bytes, (uint64_t)value);
    pg_array_add(a, bytes, sizeof bytes);
}

int
pg_add_array(struct pg_call *c, struct pg_array *a)
{
    if (a->failed)
        return -ENOMEM;
    put_be32(a->bytes + ARRAY_COUNT, a->count);
    pg_add_bytes(c, a->bytes, a->size);
    return 0;
}

void
pg_array_free(struct pg_array *a)
{
    free(a->bytes);
    *a = (struct pg_array){.bytes = NULL};
}

/* ---- results ----------------------------------------------------------- */

int64_t
pg_bigint(const PGresult *r, int row, int column)
{
    if (PQgetlength(r, row, column) != 8)
        return 0; /* null */
    return (int64_t)get_be64(PQgetvalue(r, row, column));
}

bool
pg_bool(const PGresult *r, int row, int column)
{
    return PQgetlength(r, row, column) == 1 && *PQgetvalue(r, row, column) != 0;
}

const uint8_t *
pg_bytes(const PGresult *r, int row, int column, size_t *size)
{
    *size = (size_t)PQgetlength(r, row, column);
    return (const uint8_t *)PQgetvalue(r, row, column);
}

void
pg_text(const PGresult *r, int row, int column, char *text, size_t size)
{
    size_t length;
    const uint8_t *bytes = pg_bytes(r, row, column, &length);

    if (length > size - 1)
        length = size - 1;
    memcpy(text, bytes, length);
    text[length] = '\0';
}

void
pg_format_sum(int128 value, char text[48])
{
    uint128 left = value < 0 ? -(uint128)value : (uint128)value;
    char digits[48];
    size_t at = sizeof digits;

    digits[--at] = '\0';
    do
        digits[--at] = (char)('0' + (int)(left % 10));
    while ((left /= 10) > 0);
    if (value < 0)
        digits[--at] = '-';
    memcpy(text, digits + at, sizeof digits - at);
}

int128
pg_parse_sum(const char *text)
{
    const bool is_negative = *text == '-';
    uint128 u = 0;

    for (text += is_negative; *text >= '0' && *text <= '9'; text++)
        u = u * 10 + (unsigned)(*text - '0');
    return is_negative ? (int128)-u : (int128)u;
}
