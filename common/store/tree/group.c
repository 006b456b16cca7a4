/* common/store/tree/group.c - changes to a group: into its buffer, or
 * folded.
 *
 * Edits and buffer are merged into one sequence (pending_next, which holds the
 * algebra of signs).  Either that becomes the new buffer and only buffer and
 * header are written; or it is merged with the base rows into the stage, where
 * blocks are packed full and leave as groups.  A group that came out too small
 * stays in the stage and its neighbour is folded behind it.
 */
#include "common/store/tree/sweep.h"

#include <assert.h>
#include <errno.h>

/* ---- pending edits: buffer and edits as one ---- */

struct pending {
    enum block_order kind;
    const struct buffer *buffer;
    unsigned entry;
    const struct row *edits;
    size_t at;
    size_t count;
};

/* What `edit` makes of `old`, both about the same row: 1 and *out, 0 when
 * they cancel out. */
static int
combine(enum block_order kind, const struct row *old, const struct row *edit,
        struct row *out)
{
    const unsigned was = old->flags & BLOCK_SIGN;
    const unsigned is = edit->flags & BLOCK_SIGN;

    *out = *edit;
    if (was == BLOCK_DELETE) {
        if (is != BLOCK_INSERT)
            return -EBADMSG;
        if (kind == BLOCK_RANKS)
            return 0;
        out->flags = (uint16_t)((edit->flags & ~BLOCK_SIGN) | BLOCK_UPDATE);
        return 1;
    }
    if (is == BLOCK_INSERT)
        return -EBADMSG;
    if (was == BLOCK_UPDATE)
        return 1;
    if (is == BLOCK_DELETE)
        return 0;
    out->flags = (uint16_t)((edit->flags & ~BLOCK_SIGN) | BLOCK_INSERT);
    return 1;
}

/* 1 and the next edit against the base, 0 at the end, -EBADMSG. */
static int
pending_next(struct pending *p, struct row *out)
{
    while (p->entry < p->buffer->entries || p->at < p->count) {
        struct row old;
        int d, rc;

        if (p->entry >= p->buffer->entries) {
            *out = p->edits[p->at++];
            return 1;
        }
        old = buffer_row(p->buffer, p->entry);
        d = p->at < p->count ? row_compare(p->kind, &old, &p->edits[p->at])
                             : -1;
        if (d < 0) {
            p->entry++;
            *out = old;
            return 1;
        }
        if (d > 0) {
            *out = p->edits[p->at++];
            return 1;
        }
        rc = combine(p->kind, &old, &p->edits[p->at], out);
        p->entry++;
        p->at++;
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- loading: copies, since writing moves LMDB's pages ---- */

static int
copy_header(struct tree *t, uint64_t id, uint64_t rows, struct group *g)
{
    size_t size;
    int rc;

    rc = tree_group(t, id, rows, g);
    if (rc < 0)
        return rc;
    size = get_le16(g->bytes + 20);
    if (size > sizeof t->work->header)
        return -EBADMSG;
    memcpy(t->work->header, g->bytes, size);
    g->bytes = t->work->header;
    return 0;
}

static int
copy_buffer(struct tree *t, const struct group *g, struct buffer *b)
{
    int rc;

    rc = tree_buffer(t, g, b);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < b->count; i++) {
        memcpy(t->work->buffer[i], b->blocks[i].bytes, b->blocks[i].size);
        b->blocks[i] = block_open(t->work->buffer[i]);
    }
    return 0;
}

static int
copy_base(struct tree *t, const struct group *g)
{
    for (unsigned i = 0; i < g->blocks; i++) {
        struct block b;
        const int rc = tree_block(t, BLOCK_BASE, tree_key(g->id, i + 1),
                                  g->base_generation, &b);

        if (rc < 0)
            return rc;
        if (b.count != group_rows(g, i))
            return -EBADMSG;
        memcpy(t->work->base[i], b.bytes, b.size);
    }
    return 0;
}

/* ---- the stage ---- */

void
tree_stage_start(struct tree *t, const uint8_t *separator, size_t size)
{
    struct stage *s = &t->work->stage;

    assert(!s->active && size <= sizeof s->separator);
    s->active = true;
    s->blocks = 0;
    s->spare_count = 0;
    s->separator_size = size;
    memcpy(s->separator, separator, size);
    block_writer_init(&s->writer, s->bytes[0]);
}

bool
tree_stage_small(const struct tree *t)
{
    const struct stage *s = &t->work->stage;

    return s->active && s->blocks < TREE_GROUP_MIN &&
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
stage_header(const struct tree *t, unsigned want, uint8_t *bytes, size_t *size)
{
    const struct stage *s = &t->work->stage;
    uint8_t separators[TREE_GROUP_SIZE + BLOCK_ROW_MAX];
    size_t used = 0, ends[TREE_GROUP_MAX + 1], table;
    unsigned n;

    assert(want >= 1 && want <= TREE_GROUP_MAX);
    ends[0] = 0;
    for (n = 0; n < want; n++) {
        if (n == 0) {
            memcpy(separators, s->separator, s->separator_size);
            used = s->separator_size;
        } else {
            const struct row low = stage_last(s, n - 1);
            const struct row high = stage_first(s, n);

            used += row_between(t->kind, &low, &high, separators + used);
        }
        if (n > 0 &&
            TREE_GROUP_HEAD + 8 * ((size_t)n + 1) + used > TREE_GROUP_SIZE)
            break;
        ends[n + 1] = used;
    }
    table = TREE_GROUP_HEAD + 8 * (size_t)n;
    memset(bytes, 0, table);
    for (unsigned i = 0; i < n; i++) {
        uint8_t *e = bytes + TREE_GROUP_HEAD + 8 * (size_t)i;

        put_le16(e, s->counts[i]);
        put_le16(e + 6, (uint16_t)(table + ends[i]));
    }
    put_le32(bytes + 24, t->generation);
    memcpy(bytes + table, separators, ends[n]);
    *size = table + ends[n];
    return n;
}

/* Removes the values of an old group from these parts on. */
static int
remove_parts(struct tree *t, uint64_t id, unsigned from, unsigned blocks,
             unsigned buffers)
{
    int rc = 0;

    for (unsigned i = from; i <= blocks && rc == 0; i++)
        rc = tree_remove(t, tree_key(id, i));
    for (unsigned i = 0; i < buffers && rc == 0; i++)
        rc = tree_remove(t, tree_key(id, TREE_BUFFER_PART + i));
    return rc;
}

/* Writes `n` blocks from the front and their header as one group. */
static int
stage_write(struct tree *t, unsigned n, uint8_t *header, size_t header_size,
            uint64_t id, uint64_t *rows)
{
    struct stage *s = &t->work->stage;
    struct block_id bid = {
        .type = BLOCK_GROUP,
        .order = (uint8_t)t->kind,
        .generation = t->generation,
        .key = tree_key(id, 0),
    };
    int rc;

    block_seal(header, header_size, (uint16_t)n, &bid);
    rc = tree_put(t, bid.key, header, header_size);
    bid.type = BLOCK_BASE;
    *rows = 0;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        bid.key = tree_key(id, i + 1);
        block_seal(s->bytes[i], s->sizes[i], s->counts[i], &bid);
        rc = tree_put(t, bid.key, s->bytes[i], s->sizes[i]);
        *rows += s->counts[i];
    }
    return rc;
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
stage_emit(struct tree *t, unsigned want)
{
    struct stage *s = &t->work->stage;
    uint8_t header[TREE_GROUP_SIZE + BLOCK_ROW_MAX];
    uint8_t own[BLOCK_ROW_MAX];
    const size_t own_size = s->separator_size;
    uint64_t id, rows;
    size_t size;
    unsigned n;
    int rc;

    n = stage_header(t, want, header, &size);
    memcpy(own, s->separator, own_size);
    if (s->spare_count > 0) {
        s->spare_count--;
        id = s->spares[s->spare_count].id;
        rc = remove_parts(t, id, n + 1, s->spares[s->spare_count].blocks,
                          s->spares[s->spare_count].buffers);
    } else {
        id = t->root.next_id++;
        rc = 0;
    }
    if (rc == 0)
        rc = stage_write(t, n, header, size, id, &rows);
    if (rc == 0)
        rc = tree_level_append(t, 1, id, rows, own, own_size);
    if (rc < 0)
        return rc;
    if (n < s->blocks) {
        const struct row low = stage_last(s, n - 1);
        const struct row high = stage_first(s, n);

        s->separator_size = row_between(t->kind, &low, &high, s->separator);
    }
    stage_shift(s, n);
    return 0;
}

/* Closes the block being written and makes room for another. */
static int
stage_block(struct tree *t)
{
    struct stage *s = &t->work->stage;
    const unsigned i = s->blocks;
    int rc = 0;

    assert(s->writer.count > 0);
    s->counts[i] = s->writer.count;
    s->lasts[i] = s->writer.offsets[s->writer.count - 1];
    s->sizes[i] = (uint16_t)block_writer_finish(&s->writer);
    s->blocks++;
    if (s->blocks == STAGE_BLOCKS)
        rc = stage_emit(t, TREE_GROUP_TARGET);
    block_writer_init(&s->writer, s->bytes[s->blocks]);
    return rc;
}

static int
stage_row(struct tree *t, const struct row *r)
{
    struct stage *s = &t->work->stage;

    if (!block_writer_fits(&s->writer, (size_t)BLOCK_ROW_HEAD + r->key_size)) {
        const int rc = stage_block(t);

        if (rc < 0)
            return rc;
    }
    block_writer_add(&s->writer, r);
    return 0;
}

static int
stage_copy(struct tree *t, const struct block *b, unsigned from, unsigned to)
{
    struct stage *s = &t->work->stage;

    while (from < to) {
        from += block_writer_copy(&s->writer, b, from, to);
        if (from < to) {
            const int rc = stage_block(t);

            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

int
tree_stage_finish(struct tree *t)
{
    struct stage *s = &t->work->stage;
    int rc = 0;

    assert(s->active);
    if (s->writer.count > 0)
        rc = stage_block(t);
    while (rc == 0 && s->blocks > 0) {
        const unsigned all = s->blocks;

        rc = stage_emit(t, all <= TREE_GROUP_MAX ? all : (all + 1) / 2);
    }
    while (rc == 0 && s->spare_count > 0) {
        s->spare_count--;
        rc = remove_parts(t, s->spares[s->spare_count].id, 0,
                          s->spares[s->spare_count].blocks,
                          s->spares[s->spare_count].buffers);
    }
    s->active = false;
    return rc;
}

int
tree_stage_inserts(struct tree *t, const struct row *edits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct row r = edits[i];
        int rc;

        if ((r.flags & BLOCK_SIGN) != BLOCK_INSERT)
            return -EBADMSG;
        r.flags &= BLOCK_SATURATED;
        rc = stage_row(t, &r);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- folding ---- */

/* Remembers the group's values, to be used again or removed. */
static int
stage_take(struct tree *t, const struct group *g)
{
    struct stage *s = &t->work->stage;

    if (s->spare_count == SPARE_MAX)
        return remove_parts(t, g->id, 0, g->blocks, g->buffers);
    s->spares[s->spare_count].id = g->id;
    s->spares[s->spare_count].blocks = g->blocks;
    s->spares[s->spare_count].buffers = g->buffers;
    s->spare_count++;
    return 0;
}

/* Where one edit falls in the base: copies the rows before it and applies
 * it.  *block and *row are how far the base has been copied. */
static int
fold_one(struct tree *t, const struct group *g, const struct row *edit,
         unsigned *block, unsigned *row)
{
    const bool insert = (edit->flags & BLOCK_SIGN) == BLOCK_INSERT;
    struct row r = *edit;
    struct block b;
    unsigned at;
    bool found;
    int rc;

    while (*block + 1u < g->blocks) {
        const struct row end = group_separator(g, *block + 1);

        if (row_compare(t->kind, edit, &end) < 0)
            break;
        b = block_open(t->work->base[*block]);
        rc = stage_copy(t, &b, *row, b.count);
        if (rc < 0)
            return rc;
        (*block)++;
        *row = 0;
    }
    b = block_open(t->work->base[*block]);
    at = block_find(&b, t->kind, edit, *row, &found);
    if (found == insert)
        return -EBADMSG;
    rc = stage_copy(t, &b, *row, at);
    if (rc < 0)
        return rc;
    *row = at + (found ? 1 : 0);
    if ((edit->flags & BLOCK_SIGN) == BLOCK_DELETE)
        return 0;
    r.flags &= BLOCK_SATURATED;
    return stage_row(t, &r);
}

static int
fold(struct tree *t, const struct group *g, struct pending *p)
{
    unsigned block = 0, row = 0;
    struct row edit;
    int rc;

    rc = copy_base(t, g);
    if (rc < 0)
        return rc;
    rc = stage_take(t, g);
    if (rc < 0)
        return rc;
    while ((rc = pending_next(p, &edit)) > 0) {
        rc = fold_one(t, g, &edit, &block, &row);
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    for (; block < g->blocks; block++, row = 0) {
        const struct block b = block_open(t->work->base[block]);

        rc = stage_copy(t, &b, row, b.count);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- buffering ---- */

/* A new buffer on its way: blocks in work->out, header in work->header. */
struct filler {
    struct tree *tree;
    const struct group *group;
    struct block_writer writer;
    unsigned blocks; /* complete */
    unsigned entries;
    unsigned base; /* block of the last entry */
    int rows;      /* net, of all */
};

static void
filler_block(struct filler *f)
{
    const struct block_id id = {
        .type = BLOCK_BUFFER,
        .order = (uint8_t)f->tree->kind,
        .generation = f->tree->generation,
        .key = tree_key(f->group->id, TREE_BUFFER_PART + f->blocks),
    };
    const uint16_t count = f->writer.count;
    const size_t size = block_writer_finish(&f->writer);

    block_seal(f->tree->work->out[f->blocks], size, count, &id);
    f->blocks++;
}

/* Goes on to the base block of `r` (NULL: the last), setting the first entry
 * of those in between. */
static void
filler_base(struct filler *f, const struct row *r)
{
    while (f->base + 1u < f->group->blocks) {
        uint8_t *e;

        if (r != NULL) {
            const struct row end = group_separator(f->group, f->base + 1);

            if (row_compare(f->tree->kind, r, &end) < 0)
                break;
        }
        f->base++;
        e = f->tree->work->header + TREE_GROUP_HEAD + 8 * (size_t)f->base;
        put_le16(e + 2, (uint16_t)f->entries);
        put_le16(e + 4, 0);
    }
}

static int
filler_add(struct filler *f, const struct row *r)
{
    const unsigned sign = r->flags & BLOCK_SIGN;
    const int net = sign == BLOCK_INSERT ? 1 : sign == BLOCK_DELETE ? -1 : 0;
    uint8_t *e;

    filler_base(f, r);
    e = f->tree->work->header + TREE_GROUP_HEAD + 8 * (size_t)f->base;
    put_le16(e + 4, (uint16_t)((int16_t)get_le16(e + 4) + net));
    if ((int)get_le16(e) + (int16_t)get_le16(e + 4) < 0)
        return -EBADMSG;
    f->rows += net;
    if (!block_writer_fits(&f->writer, (size_t)BLOCK_ROW_HEAD + r->key_size)) {
        filler_block(f);
        assert(f->blocks < TREE_BUFFER_MAX);
        block_writer_init(&f->writer, f->tree->work->out[f->blocks]);
    }
    block_writer_add(&f->writer, r);
    f->entries++;
    return 0;
}

/* Stores the new buffer and header. */
static int
filler_store(struct filler *f)
{
    struct tree *t = f->tree;
    const struct group *g = f->group;
    uint8_t *header = t->work->header;
    const struct block_id id = {
        .type = BLOCK_GROUP,
        .order = (uint8_t)t->kind,
        .more = (uint16_t)f->blocks,
        .generation = t->generation,
        .key = tree_key(g->id, 0),
    };
    const size_t size = get_le16(header + 20);
    int rc;

    put_le32(header + 28, t->generation);
    put_le16(header + 32, (uint16_t)f->entries);
    block_seal(header, size, g->blocks, &id);
    rc = tree_put(t, id.key, header, size);
    for (unsigned i = 0; i < f->blocks && rc == 0; i++)
        rc = tree_put(t, tree_key(g->id, TREE_BUFFER_PART + i), t->work->out[i],
                      get_le16(t->work->out[i] + 20));
    for (unsigned i = f->blocks; i < g->buffers && rc == 0; i++)
        rc = tree_remove(t, tree_key(g->id, TREE_BUFFER_PART + i));
    return rc;
}

/* Makes the pending edits the group's buffer; *rows: the group's then. */
static int
fill(struct tree *t, const struct group *g, struct pending *p, uint64_t *rows)
{
    struct filler f = {.tree = t, .group = g};
    struct row edit;
    int rc;

    block_writer_init(&f.writer, t->work->out[0]);
    put_le16(t->work->header + TREE_GROUP_HEAD + 2, 0);
    put_le16(t->work->header + TREE_GROUP_HEAD + 4, 0);
    while ((rc = pending_next(p, &edit)) > 0) {
        rc = filler_add(&f, &edit);
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    filler_base(&f, NULL);
    if (f.writer.count > 0)
        filler_block(&f);
    *rows = 0;
    for (unsigned i = 0; i < g->blocks; i++)
        *rows += group_total(g, i);
    return filler_store(&f);
}

/* ---- which of the two ---- */

/* A number that differs by group and fold, so that folds spread over
 * batches. */
static uint32_t
jitter(const struct group *g)
{
    uint64_t x = g->id * 0x9e3779b97f4a7c15u + g->base_generation;

    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9u;
    return (uint32_t)(x >> 32);
}

/* Whether the buffer may grow by these edits. */
static bool
buffer_takes(const struct tree *t, const struct group *g,
             const struct buffer *b, const struct row *edits, size_t count)
{
    const size_t share = (size_t)g->blocks * BLOCK_SIZE / 8;
    const size_t most =
        (size_t)TREE_BUFFER_MAX * (BLOCK_SIZE - BLOCK_HEAD - BLOCK_ROW_MAX - 2);
    size_t used = 0, limit;

    if (g->blocks < TREE_GROUP_MIN)
        return false;
    limit = t->pages >= t->pages_fold ? 2 * share
                                      : share / 2 + jitter(g) % (share / 2 + 1);
    if (limit > most)
        limit = most;
    for (unsigned i = 0; i < b->count; i++)
        used += b->blocks[i].size - (size_t)BLOCK_HEAD;
    for (size_t i = 0; i < count && used <= limit; i++)
        used += (size_t)BLOCK_ROW_HEAD + 2 + edits[i].key_size;
    return used <= limit;
}

int
tree_group_update(struct tree *t, uint64_t id, uint64_t rows,
                  const uint8_t *separator, size_t separator_size,
                  const struct row *edits, size_t count)
{
    struct pending p = {.kind = t->kind, .edits = edits, .count = count};
    struct buffer buffer;
    struct group g;
    int rc;

    rc = copy_header(t, id, rows, &g);
    if (rc < 0)
        return rc;
    rc = copy_buffer(t, &g, &buffer);
    if (rc < 0)
        return rc;
    p.buffer = &buffer;
    if (!t->work->stage.active && buffer_takes(t, &g, &buffer, edits, count)) {
        rc = fill(t, &g, &p, &rows);
        if (rc < 0)
            return rc;
        return tree_level_append(t, 1, id, rows, separator, separator_size);
    }
    if (!t->work->stage.active)
        tree_stage_start(t, separator, separator_size);
    return fold(t, &g, &p);
}
