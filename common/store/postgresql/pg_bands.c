/* common/store/postgresql/pg_bands.c - bands: the order by count, cut into
 * pieces of at most BAND_MAX rows, so that the rank of a row, or the row of a
 * rank, is found without counting all rows before it.
 *
 * Invariant: the first band begins before any row, a band holds the rows from
 * its beginning to before the next one's, and `keys` is how many those are.
 * Bands change in the transaction that changes the rows. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <string.h>

#include "common/base/array.h"

#define BAND_MAX 2048

/* The band of a row: the last that begins with it or before. */
static struct pg_band *
find_band(const struct pg_bands *s, int64_t count, const uint8_t *key,
          size_t size)
{
    size_t low = 0, high = s->count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        const struct pg_band *b = &s->bands[middle];

        if (count < b->count ||
            (count == b->count &&
             bytes_compare(key, size, b->key, b->size) >= 0))
            low = middle;
        else
            high = middle;
    }
    return &s->bands[low];
}

void
pg_bands_count(struct pg *s, int64_t count, const uint8_t *key, size_t size,
               int more)
{
    find_band(&s->bands, count, key, size)->keys += more;
}

static int
insert_band(struct pg_bands *b, size_t at, const struct pg_band *band)
{
    if (array_grow(&b->bands, &b->capacity, b->count + 1, sizeof *band) < 0)
        return -ENOMEM;
    memmove(b->bands + at + 1, b->bands + at, (b->count - at) * sizeof *band);
    b->bands[at] = *band;
    b->count++;
    return 0;
}

int
pg_bands_append(struct pg *s, int64_t count, const uint8_t *key, size_t size)
{
    struct pg_bands *b = &s->bands;
    struct pg_band band = {.count = count, .size = size, .stored_keys = -1};
    int rc = 0;

    if (size > sizeof band.key)
        return -EBADMSG;
    if (b->bands[b->count - 1].keys == BAND_MAX / 2) {
        memcpy(band.key, key, size);
        rc = insert_band(b, b->count, &band);
    }
    if (rc == 0)
        b->bands[b->count - 1].keys++;
    return rc;
}

/* Takes rows of count, key and keys; an order without bands gets its first. */
static int
take_bands(struct pg_bands *b, const PGresult *r)
{
    struct pg_band band = {.count = INT64_MAX, .stored_keys = -1};
    int rc = 0;

    b->count = 0;
    if (PQntuples(r) == 0)
        return insert_band(b, 0, &band);
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        band.count = pg_bigint(r, i, 0);
        band.keys = band.stored_keys = pg_bigint(r, i, 2);
        rc = pg_key(r, i, 1, band.key, &band.size);
        if (rc == 0)
            rc = insert_band(b, b->count, &band);
    }
    return rc;
}

int
pg_bands_load(struct pg *s, const struct pg_keyspace *k)
{
    struct pg_bands *b = &s->bands;
    const PGresult *r;
    int rc;

    if (b->keyspace == k->id && b->change == k->change && b->nonce == k->nonce)
        return 0;
    rc = pg_ask(s, &r, PG_BANDS, "i", k->id);
    if (rc < 0)
        return rc;
    rc = take_bands(b, r);
    b->keyspace = rc == 0 ? k->id : 0;
    b->nonce = k->nonce;
    return rc;
}

/* Halves a band: the row in its middle begins the other. */
static int
split_band(struct pg *s, int32_t id, size_t at)
{
    struct pg_band *b = &s->bands.bands[at], other = {.stored_keys = -1};
    const int64_t half = b->keys / 2;
    const PGresult *r;
    int rc;

    rc = pg_ask(s, &r, PG_SPLIT, "iqbq", id, b->count, b->key, b->size, half);
    if (rc < 0)
        return rc;
    rc = PQntuples(r) == 1 ? pg_key(r, 0, 1, other.key, &other.size) : -EBADMSG;
    if (rc == 0)
        other.count = pg_bigint(r, 0, 0);
    if (rc < 0)
        return rc;
    other.keys = b->keys - half;
    b->keys = half;
    return insert_band(&s->bands, at + 1, &other);
}

/* Removes empty bands but the first, and lists what has changed: counts, keys
 * and sizes, then counts and keys of those that are gone. */
static int
list_changes(struct pg_bands *b, struct pg_array *a)
{
    size_t kept = 0;

    for (size_t i = 0; i < b->count; i++) {
        struct pg_band *band = &b->bands[i];

        if (band->keys < 0)
            return -EBADMSG;
        if (band->keys == 0 && i > 0) {
            if (band->stored_keys >= 0) {
                pg_array_add_bigint(&a[3], band->count);
                pg_array_add(&a[4], band->key, band->size);
            }
            continue;
        }
        if (band->keys != band->stored_keys) {
            pg_array_add_bigint(&a[0], band->count);
            pg_array_add(&a[1], band->key, band->size);
            pg_array_add_bigint(&a[2], band->keys);
            band->stored_keys = band->keys;
        }
        if (kept != i)
            b->bands[kept] = *band;
        kept++;
    }
    b->count = kept;
    return 0;
}

int
pg_bands_put(struct pg *s, const struct pg_keyspace *k)
{
    struct pg_array *a = s->arrays;
    int rc = 0;

    for (size_t i = 0; i < s->bands.count; i++)
        while (rc == 0 && s->bands.bands[i].keys > BAND_MAX)
            rc = split_band(s, k->id, i);
    pg_arrays(s, "qbqqb");
    if (rc == 0)
        rc = list_changes(&s->bands, a);
    if (rc == 0 && (a[3].count > 0 || a[4].failed))
        rc = pg_ask(s, NULL, PG_BAND_DEL, "iaa", k->id, &a[3], &a[4]);
    if (rc == 0 && (a[0].count > 0 || a[1].failed))
        rc = pg_ask(s, NULL, PG_BAND_PUT, "iaaa", k->id, &a[0], &a[1], &a[2]);
    s->bands.change = k->change + 1;
    return rc;
}
