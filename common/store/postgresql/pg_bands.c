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
#include <stdlib.h>
#include <string.h>

#define BAND_MAX 2048

static int
compare_row(int64_t count, const uint8_t *key, size_t size,
            const struct pg_band *b)
{
    int order;

    if (count != b->count)
        return count > b->count ? -1 : 1;
    order = memcmp(key, b->key, size < b->size ? size : b->size);
    return order != 0 ? order : (size > b->size) - (size < b->size);
}

size_t
pg_bands_find(const struct pg *s, int64_t count, const uint8_t *key,
              size_t size)
{
    size_t low = 0, high = s->bands.count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (compare_row(count, key, size, &s->bands.bands[middle]) >= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void
pg_bands_count(struct pg *s, int64_t count, const uint8_t *key, size_t size,
               int64_t more)
{
    s->bands.bands[pg_bands_find(s, count, key, size)].keys += more;
}

static int
insert_band(struct pg_bands *b, size_t at, const struct pg_band *band)
{
    if (b->count == b->capacity) {
        const size_t capacity = b->capacity * 2 + 64;
        struct pg_band *bands = realloc(b->bands, capacity * sizeof *bands);

        if (!bands)
            return -ENOMEM;
        b->bands = bands;
        b->capacity = capacity;
    }
    memmove(b->bands + at + 1, b->bands + at, (b->count - at) * sizeof *band);
    b->bands[at] = *band;
    b->count++;
    return 0;
}

static int
take_key(struct pg_band *b, const PGresult *r, int row, int column)
{
    size_t size;
    const uint8_t *key = pg_bytes(r, row, column, &size);

    if (size > sizeof b->key)
        return -EBADMSG;
    b->size = (uint16_t)size;
    memcpy(b->key, key, size);
    return 0;
}

static int
take_bands(struct pg_bands *b, const PGresult *r)
{
    static const struct pg_band first = {.count = INT64_MAX, .is_new = true};
    int rc = 0;

    b->count = 0;
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct pg_band band = {.count = pg_bigint(r, i, 0),
                               .keys = pg_bigint(r, i, 2)};

        band.stored_keys = band.keys;
        rc = take_key(&band, r, i, 1);
        if (rc == 0)
            rc = insert_band(b, b->count, &band);
    }
    if (rc == 0 && b->count == 0)
        rc = insert_band(b, 0, &first);
    return rc;
}

/* Loads the bands of a locked keyspace, unless they are as it left them. */
int
pg_bands_load(struct pg *s, const struct pg_keyspace *k)
{
    struct pg_bands *b = &s->bands;
    struct pg_call c;
    int rc;

    if (b->keyspace == k->id && b->change == (uint64_t)k->change &&
        b->nonce == (uint64_t)k->nonce)
        return 0;
    pg_call(&c, PG_BANDS);
    pg_add_int(&c, k->id);
    rc = pg_run(s, &c, 1);
    if (rc < 0)
        return rc;
    rc = take_bands(b, c.result);
    PQclear(c.result);
    b->keyspace = rc == 0 ? k->id : 0;
    b->nonce = (uint64_t)k->nonce;
    return rc;
}

/* The row that is `half` rows behind the beginning of a band. */
static int
find_middle(struct pg *s, int32_t id, const struct pg_band *b, int64_t half,
            PGresult **out)
{
    struct pg_call c[2];
    int64_t same;
    int rc;

    pg_call(&c[0], PG_SPLIT);
    pg_add_int(&c[0], id);
    pg_add_bigint(&c[0], b->count);
    pg_add_bytes(&c[0], b->key, b->size);
    pg_add_bigint(&c[0], half);
    pg_call(&c[1], PG_COUNT_SAME);
    pg_add_int(&c[1], id);
    pg_add_bigint(&c[1], b->count);
    pg_add_bytes(&c[1], b->key, b->size);
    pg_add_null(&c[1]);
    rc = pg_run(s, c, 2);
    if (rc < 0)
        return rc;
    same = pg_bigint(c[1].result, 0, 0);
    PQclear(c[1].result);
    *out = c[0].result;
    if (PQntuples(c[0].result) == 1)
        return 0;
    PQclear(c[0].result); /* it has a smaller count */
    pg_call(&c[0], PG_SPLIT_MORE);
    pg_add_int(&c[0], id);
    pg_add_bigint(&c[0], b->count);
    pg_add_bigint(&c[0], half - same);
    rc = pg_run(s, c, 1);
    *out = c[0].result;
    return rc;
}

/* Halves a band: the row in its middle begins the other. */
static int
split_band(struct pg *s, int32_t id, size_t at)
{
    struct pg_band *b = &s->bands.bands[at], other = {.is_new = true};
    const int64_t half = b->keys / 2;
    PGresult *r;
    int rc;

    rc = find_middle(s, id, b, half, &r);
    if (rc < 0)
        return rc;
    rc = PQntuples(r) == 1 ? take_key(&other, r, 0, 0) : -EBADMSG;
    if (rc == 0)
        other.count = pg_bigint(r, 0, 1);
    PQclear(r);
    if (rc < 0)
        return rc;
    other.keys = b->keys - half;
    b->keys = half;
    return insert_band(&s->bands, at + 1, &other);
}

static int
split_bands(struct pg *s, int32_t id)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->bands.count; i++)
        while (rc == 0 && s->bands.bands[i].keys > BAND_MAX)
            rc = split_band(s, id, i);
    return rc;
}

/* What is to be stored of bands, and to be deleted. */
struct band_lists {
    struct pg_array counts, keys, sizes;
    struct pg_array gone_counts, gone_keys;
};

/* Removes empty bands but the first, and lists what has changed. */
static int
list_changes(struct pg_bands *b, struct band_lists *l)
{
    size_t kept = 0;

    for (size_t i = 0; i < b->count; i++) {
        struct pg_band *band = &b->bands[i];

        if (band->keys < 0)
            return -EBADMSG;
        if (band->keys == 0 && i > 0) {
            if (!band->is_new) {
                pg_array_add_bigint(&l->gone_counts, band->count);
                pg_array_add(&l->gone_keys, band->key, band->size);
            }
            continue;
        }
        if (band->is_new || band->keys != band->stored_keys) {
            pg_array_add_bigint(&l->counts, band->count);
            pg_array_add(&l->keys, band->key, band->size);
            pg_array_add_bigint(&l->sizes, band->keys);
            band->stored_keys = band->keys;
            band->is_new = false;
        }
        if (kept != i)
            b->bands[kept] = *band;
        kept++;
    }
    b->count = kept;
    return 0;
}

static int
put_lists(struct pg *s, int32_t id, struct band_lists *l)
{
    struct pg_call c;
    int rc = 0;

    if (l->gone_counts.count > 0 || l->gone_counts.failed) {
        pg_call(&c, PG_BAND_DEL);
        pg_add_int(&c, id);
        rc = pg_add_array(&c, &l->gone_counts);
        if (rc == 0)
            rc = pg_add_array(&c, &l->gone_keys);
        if (rc == 0)
            rc = pg_do(s, &c);
    }
    if (rc < 0 || (l->counts.count == 0 && !l->counts.failed))
        return rc;
    pg_call(&c, PG_BAND_PUT);
    pg_add_int(&c, id);
    rc = pg_add_array(&c, &l->counts);
    if (rc == 0)
        rc = pg_add_array(&c, &l->keys);
    if (rc == 0)
        rc = pg_add_array(&c, &l->sizes);
    return rc < 0 ? rc : pg_do(s, &c);
}

/* Stores the bands that have changed.  They are as of the keyspace's next
 * change from then on. */
int
pg_bands_put(struct pg *s, const struct pg_keyspace *k)
{
    struct band_lists l = {.counts = {.bytes = NULL}};
    int rc;

    rc = split_bands(s, k->id);
    if (rc < 0)
        return rc;
    pg_array_begin(&l.counts, PG_TYPE_BIGINT);
    pg_array_begin(&l.keys, PG_TYPE_BYTEA);
    pg_array_begin(&l.sizes, PG_TYPE_BIGINT);
    pg_array_begin(&l.gone_counts, PG_TYPE_BIGINT);
    pg_array_begin(&l.gone_keys, PG_TYPE_BYTEA);
    rc = list_changes(&s->bands, &l);
    if (rc == 0)
        rc = put_lists(s, k->id, &l);
    pg_array_free(&l.counts);
    pg_array_free(&l.keys);
    pg_array_free(&l.sizes);
    pg_array_free(&l.gone_counts);
    pg_array_free(&l.gone_keys);
    s->bands.change = (uint64_t)k->change + 1;
    return rc;
}
