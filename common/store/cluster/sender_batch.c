/* common/store/cluster/sender_batch.c - see sender_batch.h.
 *
 * Entry points: sender_batch_begin(), sender_batch_add(),
 * sender_batch_finish(). */
#include "common/store/cluster/sender_batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/store/cluster/outbox.h"

#define CELLS_ENOUGH 8192 /* no further entry is added to as many */

void
sender_batch_begin(struct sender_batch *b)
{
    b->size = b->cell_count = b->row_count = b->section_count = 0;
    b->tiers_size = 0;
    b->first = UINT32_MAX;
    b->is_untimed = false;
    b->parts = 0;
}

bool
sender_batch_wants(const struct sender_batch *b, const struct outbox_row *row)
{
    return b->parts == 0 ||
           outbox_part_of(row->key, row->key_size, b->parts) == b->part;
}

void
sender_batch_fini(struct sender_batch *b)
{
    for (size_t i = 0; i < b->section_capacity; i++)
        free(b->sections[i].bytes);
    free(b->sections);
    free(b->bytes);
    free(b->cells);
}

/* ---- cells -------------------------------------------------------------- */

static int
compare_keys(const struct sender_batch *b, const struct sender_batch_cell *x,
             const struct sender_batch_cell *y)
{
    return bytes_compare(b->bytes + x->key_at, x->key_size,
                         b->bytes + y->key_at, y->key_size);
}

static int
compare_cells(const void *x, const void *y, void *ctx)
{
    const struct sender_batch_cell *a = x, *b = y;
    const int order = compare_keys(ctx, a, b);

    return order != 0 ? order
                      : (a->minute > b->minute) - (a->minute < b->minute);
}

/* Sorts the cells and sums those of one key and minute.  Counts the keys. */
static void
sum_cells(struct sender_batch *b)
{
    size_t count = 0;

    b->row_count = 0;
    if (b->cell_count == 0)
        return; /* a part of which the batch has no key */
    qsort_r(b->cells, b->cell_count, sizeof *b->cells, compare_cells, b);
    for (size_t i = 0; i < b->cell_count; i++) {
        const bool is_first = count == 0;
        struct sender_batch_cell *last = is_first ? NULL : &b->cells[count - 1];
        const bool is_same_key =
            !is_first && compare_keys(b, last, &b->cells[i]) == 0;

        if (is_same_key && last->minute == b->cells[i].minute) {
            last->sum += b->cells[i].sum;
            continue;
        }
        b->row_count += !is_same_key;
        b->cells[count++] = b->cells[i];
    }
    b->cell_count = count;
}

static int
add_row(struct sender_batch *b, const struct outbox_row *row)
{
    if (array_grow(&b->bytes, &b->byte_capacity, b->size + row->key_size + 1,
                   1) < 0 ||
        array_grow(&b->cells, &b->cell_capacity,
                   b->cell_count + row->cell_count + 1, sizeof *b->cells) < 0)
        return -ENOMEM;
    memcpy(b->bytes + b->size, row->key, row->key_size);
    for (size_t i = 0; i < row->cell_count; i++) {
        const struct outbox_cell cell = outbox_cell_get(row, i);

        b->cells[b->cell_count++] =
            (struct sender_batch_cell){.key_at = b->size,
                                       .key_size = (uint16_t)row->key_size,
                                       .minute = cell.minute,
                                       .sum = cell.sum};
        b->is_untimed = b->is_untimed || cell.minute == 0;
        if (cell.minute > 0 && cell.minute < b->first)
            b->first = cell.minute;
    }
    b->size += row->key_size;
    return 0;
}

int
sender_batch_add(struct sender_batch *b, const struct outbox_entry_head *head)
{
    struct outbox_row row;
    size_t at = 0;
    int rc = 0;

    if (b->cell_count > 0 && (b->row_count + head->rows > OUTBOX_ROWS ||
                              b->cell_count > CELLS_ENOUGH))
        return 1;
    while (rc == 0 && outbox_row_next(head, &at, &row))
        if (sender_batch_wants(b, &row))
            rc = add_row(b, &row);
    sum_cells(b);
    return rc;
}

/* ---- what the functions take -------------------------------------------- */

/* A sum, clamped to 2^bits: whatever is larger saturates every count. */
static void
put_sum(uint8_t at[CLUSTER_SUM_SIZE], int128 sum, unsigned bits)
{
    const int128 most = (int128)1 << bits;

    sum = sum > most ? most : sum < -most ? -most : sum;
    put_be64(at, (uint64_t)(int64_t)(sum >> 32));
    put_be32(at + 8, (uint32_t)sum);
}

#define COUNT_BITS   65
#define HISTORY_BITS 84 /* sums there are exact to 2^85 */

void
sender_batch_put_rows(const struct sender_batch *b, struct cluster_command *m)
{
    for (size_t i = 0; i < b->cell_count;) {
        const struct sender_batch_cell *first = &b->cells[i];
        uint8_t delta[CLUSTER_SUM_SIZE];
        int128 sum = 0;

        for (; i < b->cell_count && compare_keys(b, first, &b->cells[i]) == 0;
             i++)
            sum += b->cells[i].sum;
        put_sum(delta, sum, COUNT_BITS);
        cluster_add_word(m, b->bytes + first->key_at, first->key_size);
        cluster_add_word(m, delta, sizeof delta);
    }
}

static int
put_cell(struct sender_batch_section *s, uint32_t row, uint32_t step,
         int128 sum)
{
    if (array_grow(&s->bytes, &s->capacity, s->size + 3 + CLUSTER_SUM_SIZE, 1) <
        0)
        return -ENOMEM;
    put_be16(s->bytes + s->size, (uint16_t)row);
    s->bytes[s->size + 2] = (uint8_t)step;
    put_sum(s->bytes + s->size + 3, sum, HISTORY_BITS);
    s->size += 3 + CLUSTER_SUM_SIZE;
    return 0;
}

/* Ends the sum that is being made. */
static int
end_sum(struct sender_batch_section *s)
{
    const uint32_t row = s->row;

    s->row = 0;
    return row == 0 ? 0 : put_cell(s, row, s->step, s->sum);
}

/* Adds a section; its bytes begin with the time at which it expires. */
static struct sender_batch_section *
add_section(struct sender_batch *b, const struct cluster_part_keys *keys,
            const struct tier *tier, uint32_t begin)
{
    const size_t had = b->section_capacity;
    struct sender_batch_section *s;
    uint8_t *bytes;
    size_t capacity;

    if (array_grow(&b->sections, &b->section_capacity, b->section_count + 1,
                   sizeof *b->sections) < 0)
        return NULL;
    if (b->section_capacity > had)
        memset(b->sections + had, 0,
               (b->section_capacity - had) * sizeof *b->sections);
    s = &b->sections[b->section_count];
    bytes = s->bytes;
    capacity = s->capacity;
    *s = (struct sender_batch_section){
        .period = {tier->step, tier->period, begin},
        .bytes = bytes,
        .capacity = capacity};
    if (array_grow(&s->bytes, &s->capacity, 4, 1) < 0)
        return NULL;
    put_be32(s->bytes, (begin + tier->period + tier->keep) * 60);
    s->size = 4;
    s->key_size = cluster_period_key(s->key, keys, &s->period);
    b->section_count++;
    return s;
}

static struct sender_batch_section *
find_section(struct sender_batch *b, const struct cluster_part_keys *keys,
             const struct tier *tier, uint32_t begin)
{
    for (size_t i = b->section_count; i > 0; i--) {
        const struct cluster_period *p = &b->sections[i - 1].period;

        if (p->begin == begin && p->step == tier->step &&
            p->length == tier->period)
            return &b->sections[i - 1];
    }
    return add_section(b, keys, tier, begin);
}

/* Adds a cell to the section of its period. */
static int
add_to_section(struct sender_batch *b, const struct cluster_part_keys *keys,
               const struct tier *tier, const struct sender_batch_cell *cell,
               uint32_t row)
{
    const uint32_t begin = cell->minute - cell->minute % tier->period;
    const uint32_t step = (cell->minute - begin) / tier->step;
    struct sender_batch_section *s = find_section(b, keys, tier, begin);
    int rc = 0;

    if (s == NULL)
        return -ENOMEM;
    if (s->row != row || s->step != step)
        rc = end_sum(s);
    s->sum = s->row == 0 ? cell->sum : s->sum + cell->sum;
    s->row = row;
    s->step = step;
    s->all[step] += cell->sum;
    s->any |= (uint64_t)1 << step;
    return rc;
}

/* Puts the sums of all keys at the end of a section, as row 0. */
static int
end_section(struct sender_batch_section *s)
{
    int rc;

    rc = end_sum(s);
    for (uint32_t i = 0; rc == 0 && i < TIERS_CELLS_MAX; i++)
        if (s->any >> i & 1)
            rc = put_cell(s, 0, i, s->all[i]);
    return rc;
}

static int
make_sections(struct sender_batch *b, const struct cluster_part_keys *keys,
              const struct tier *tier, uint32_t now)
{
    uint32_t row = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < b->cell_count; i++) {
        const struct sender_batch_cell *c = &b->cells[i];
        const uint64_t end = (uint64_t)c->minute - c->minute % tier->period +
                             tier->period + tier->keep;

        row += i == 0 || compare_keys(b, &b->cells[i - 1], c) != 0;
        if (end > now)
            rc = add_to_section(b, keys, tier, c, row);
    }
    return rc;
}

int
sender_batch_finish(struct sender_batch *b,
                    const struct cluster_part_keys *keys,
                    const struct tiers *tiers, uint32_t now)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < tiers->count; i++) {
        const struct tier *t = &tiers->tier[i];

        put_be32(b->tiers + b->tiers_size, t->step);
        put_be32(b->tiers + b->tiers_size + 4, t->period);
        put_be32(b->tiers + b->tiers_size + 8, t->keep);
        b->tiers_size += 12;
        rc = make_sections(b, keys, t, now);
    }
    for (size_t i = 0; rc == 0 && i < b->section_count; i++)
        rc = end_section(&b->sections[i]);
    return rc;
}
