/* common/store/postgresql/pg_params.c - parameters and results in PostgreSQL's
 * binary form: pg_text(), pg_key() read one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/array.h"

static void
add_value(struct pg_call *c, const void *bytes, size_t size)
{
    assert(c->count < PG_PARAMS_MAX);
    c->values[c->count] = size > 0 ? bytes : ""; /* libpq takes NULL for null */
    c->sizes[c->count++] = (int)size;
}

/* Head of an array of one dimension: dimensions, has nulls, type, then count,
 * lower bound. */
#define ARRAY_HEAD  20
#define ARRAY_COUNT 12

static void
add_array(struct pg_call *c, const struct pg_array *a)
{
    c->failed = c->failed || a->failed;
    if (!a->failed)
        put_be32(a->bytes + ARRAY_COUNT, a->count);
    add_value(c, a->bytes, a->size);
}

static void
add_number(struct pg_call *c, uint64_t value, size_t size)
{
    uint8_t bytes[8];

    put_be64(bytes, value);
    memcpy(c->numbers[c->count], bytes + sizeof bytes - size, size);
    add_value(c, c->numbers[c->count], size);
}

void
pg_call_list(struct pg_call *c, enum pg_statement statement, const char *types,
             va_list list)
{
    const uint8_t *bytes;

    c->statement = statement;
    c->count = 0;
    c->failed = false;
    c->result = NULL;
    for (; *types != '\0'; types++)
        switch (*types) {
        case 'i':
            add_number(c, (uint64_t)va_arg(list, int32_t), 4);
            break;
        case 'q':
            add_number(c, (uint64_t)va_arg(list, int64_t), 8);
            break;
        case 't':
            bytes = va_arg(list, const uint8_t *);
            add_value(c, bytes, strlen((const char *)bytes));
            break;
        case 'a':
            add_array(c, va_arg(list, const struct pg_array *));
            break;
        default:
            bytes = va_arg(list, const uint8_t *);
            add_value(c, bytes, va_arg(list, size_t));
        }
}

void
pg_call(struct pg_call *c, enum pg_statement statement, const char *types, ...)
{
    va_list list;

    va_start(list, types);
    pg_call_list(c, statement, types, list);
    va_end(list);
}

/* ---- arrays ------------------------------------------------------------ */

static bool
reserve_bytes(struct pg_array *a, size_t more)
{
    a->failed =
        a->failed || array_grow(&a->bytes, &a->capacity, a->size + more, 1) < 0;
    return !a->failed;
}

void
pg_array_begin(struct pg_array *a, char type)
{
    a->size = a->count = 0;
    a->failed = false;
    if (!reserve_bytes(a, ARRAY_HEAD))
        return;
    memset(a->bytes, 0, ARRAY_HEAD);
    put_be32(a->bytes, 1);
    put_be32(a->bytes + 8, type == 'b' ? 17 : type == 'q' ? 20 : 16);
    put_be32(a->bytes + 16, 1);
    a->size = ARRAY_HEAD;
}

void
pg_arrays(struct pg *s, const char *types)
{
    for (struct pg_array *a = s->arrays; *types != '\0'; types++)
        pg_array_begin(a++, *types);
}

void
pg_array_add(struct pg_array *a, const void *bytes, size_t size)
{
    if (!reserve_bytes(a, 4 + size))
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

int
pg_key(const PGresult *r, int row, int column, uint8_t key[STORE_NAME_MAX],
       size_t *size)
{
    const uint8_t *bytes = pg_bytes(r, row, column, size);

    if (*size > STORE_NAME_MAX)
        return -EBADMSG;
    memcpy(key, bytes, *size);
    return 0;
}
