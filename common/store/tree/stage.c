/* common/store/tree/stage.c - new base blocks on their way out.
 *
 * Entry points: stage_start(), stage_small(), stage_row(), stage_copy(),
 * stage_take(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/stage.h"

#include <assert.h>
#include <errno.h>

#include "common/store/tree/value.h"

void
stage_start(struct stage *s, const uint8_t *separator)
{
    const size_t size = row_size(separator);

    assert(!s->active && size <= sizeof s->separator);
    s->active = true;
    s->blocks = 0;
    memcpy(s->separator, separator, size);
    block_writer_init(&s->writer, s->bytes[0]);
}

bool
stage_small(const struct stage *s)
{
    return s->active && s->blocks < GROUP_MIN &&
           (s->blocks > 0 || s->writer.count > 0);
}

static struct row
stage_first(const struct stage *s, unsigned i)
{
    return row_get(s->bytes[i] + BLOCK_HEAD);
}

static struct row
stage_last(const struct stage *s, unsigned i)
{
    return row_get(s->bytes[i] + s->lasts[i]);
}

/* Writes the header of a group of at most `want` blocks from the front of the
 * stage into `bytes`.  Returns how many fit, *size the header's size. */
static unsigned
stage_header(const struct stage *s, unsigned want, uint8_t *bytes, size_t *size)
{
    uint8_t separators[GROUP_SIZE + BLOCK_ROW_MAX];
    size_t used = 0, ends[GROUP_MAX + 1], table;
    unsigned n;

    assert(want >= 1 && want <= GROUP_MAX);
    ends[0] = 0;
    for (n = 0; n < want; n++) {
        if (n == 0) {
            used = row_size(s->separator);
            memcpy(separators, s->separator, used);
        } else {
            const struct row low = stage_last(s, n - 1);
            const struct row high = stage_first(s, n);

            used += row_between(s->tree->kind, &low, &high, separators + used);
        }
        if (n > 0 &&
            GROUP_HEAD + GROUP_ENTRY * ((size_t)n + 1) + used > GROUP_SIZE)
            break;
        ends[n + 1] = used;
    }
    table = GROUP_HEAD + GROUP_ENTRY * (size_t)n;
    memset(bytes, 0, table);
    for (unsigned i = 0; i < n; i++) {
        uint8_t *e = bytes + GROUP_HEAD + GROUP_ENTRY * (size_t)i;

        put_le16(e, s->counts[i]);
        put_le16(e + 6, (uint16_t)(table + ends[i]));
    }
    put_le32(bytes + 24, s->tree->generation);
    memcpy(bytes + table, separators, ends[n]);
    *size = table + ends[n];
    return n;
}

/* Writes `n` blocks from the front and their header as one group, and appends it
 * to level 1. */
static int
stage_write(struct stage *s, unsigned n, uint8_t *header, size_t header_size)
{
    const uint64_t id = s->tree->root.next_id++;
    uint64_t rows = 0;
    struct block_id bid = {
        .type = BLOCK_GROUP,
        .order = (uint8_t)s->tree->kind,
        .generation = s->tree->generation,
        .key = value_key(id, 0),
    };
    int rc;

    block_seal(header, header_size, (uint16_t)n, &bid);
    rc = value_put(s->tree, bid.key, header, header_size);
    bid.type = BLOCK_BASE;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        bid.key = value_key(id, i + 1);
        block_seal(s->bytes[i], s->sizes[i], s->counts[i], &bid);
        rc = value_put(s->tree, bid.key, s->bytes[i], s->sizes[i]);
        rows += s->counts[i];
    }
    return rc < 0 ? rc : level_append(s->levels, 1, id, rows, s->separator);
}

/* Moves the blocks behind the first n to the front. */
static void
stage_shift(struct stage *s, unsigned n)
{
    const unsigned rest = s->blocks - n;

    for (unsigned i = 0; i < rest; i++) {
        memcpy(s->bytes[i], s->bytes[n + i], s->sizes[n + i]);
        s->sizes[i] = s->sizes[n + i];
        s->counts[i] = s->counts[n + i];
        s->lasts[i] = s->lasts[n + i];
    }
    s->blocks = rest;
}

/* Writes one group of at most `want` blocks from the front. */
static int
stage_emit(struct stage *s, unsigned want)
{
    uint8_t header[GROUP_SIZE + BLOCK_ROW_MAX];
    size_t size;
    unsigned n;
    int rc;

    n = stage_header(s, want, header, &size);
    rc = stage_write(s, n, header, size);
    if (rc < 0)
        return rc;
    if (n < s->blocks) {
        const struct row low = stage_last(s, n - 1);
        const struct row high = stage_first(s, n);

        (void)row_between(s->tree->kind, &low, &high, s->separator);
    }
    stage_shift(s, n);
    return 0;
}

/* Closes the block being written and makes room for another. */
static int
stage_block(struct stage *s)
{
    const unsigned i = s->blocks;
    int rc = 0;

    assert(s->writer.count > 0);
    s->counts[i] = s->writer.count;
    s->lasts[i] = s->writer.offsets[s->writer.count - 1];
    s->sizes[i] = (uint16_t)block_writer_finish(&s->writer);
    if (i > 0) {
        const struct row low = stage_last(s, i - 1);
        const struct row high = stage_first(s, i);

        if (row_compare(s->tree->kind, &low, &high) >= 0)
            return -EBADMSG;
    }
    s->blocks++;
    if (s->blocks == STAGE_BLOCKS)
        rc = stage_emit(s, GROUP_TARGET);
    block_writer_init(&s->writer, s->bytes[s->blocks]);
    return rc;
}

int
stage_row(struct stage *s, const struct row *r)
{
    if (!block_writer_fits(&s->writer, (size_t)BLOCK_ROW_HEAD + r->key_size)) {
        const int rc = stage_block(s);

        if (rc < 0)
            return rc;
    }
    block_writer_add(&s->writer, r);
    return 0;
}

int
stage_copy(struct stage *s, const struct block *b, unsigned from, unsigned to)
{
    while (from < to) {
        from += block_writer_copy(&s->writer, b, from, to);
        if (from < to) {
            const int rc = stage_block(s);

            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

int
stage_take(struct stage *s, const struct group *g)
{
    int rc = 0;

    for (unsigned i = 0; i <= g->blocks && rc == 0; i++)
        rc = value_remove(s->tree, value_key(g->id, i));
    for (unsigned i = 0; i < g->buffers && rc == 0; i++)
        rc = value_remove(s->tree, value_key(g->id, GROUP_BUFFER_PART + i));
    return rc;
}

int
stage_finish(struct stage *s)
{
    int rc = 0;

    assert(s->active);
    if (s->writer.count > 0)
        rc = stage_block(s);
    while (rc == 0 && s->blocks > 0) {
        const unsigned all = s->blocks;

        rc = stage_emit(s, all <= GROUP_MAX ? all : (all + 1) / 2);
    }
    s->active = false;
    return rc;
}
