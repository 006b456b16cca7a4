/* tests/unit/test_cluster_outbox.c - data/outbox: batches become chains of
 * entries exactly once, whatever call fails; no server is needed. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/store/cluster/backup_file.h"
#include "common/store/cluster/cluster_backup.h"
#include "common/store/cluster/outbox.h"
#include "common/store/cluster/sender_batch.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

#define KEYS     60000 /* with their names more than one group */
#define KEY_SIZE 110

struct fixture {
    struct tmpdir tmp;
    struct outbox *o;
    struct outbox_options options;
};

static struct store_delta deltas[KEYS];
static char keys[KEYS][KEY_SIZE + 1];

static int
setup(void **state)
{
    static struct fixture x;

    tmpdir_make_in_memory(&x.tmp);
    x.options = (struct outbox_options){
        .data_fd = x.tmp.fd, .writable = true, .parts = 4};
    assert_rc(outbox_open(&x.o, &x.options), 0);
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%0*u", KEY_SIZE, i);
        deltas[i] = (struct store_delta){.key = (const uint8_t *)keys[i],
                                         .key_size = KEY_SIZE,
                                         .sum_low = i + 1};
    }
    *state = &x;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    fault_clear();
    outbox_close(x->o);
    tmpdir_remove(&x->tmp);
    return 0;
}

#define CASE(name, x) TEST_IN(name, struct fixture *x, setup, teardown)

static void
reopen_outbox(struct fixture *x)
{
    outbox_close(x->o);
    assert_rc(outbox_open(&x->o, &x->options), 0);
}

static const struct store_fill fill3 = {.uuid = {7}, .epoch = 3, .first_ms = 5};

static int
apply_rows(struct fixture *x, const struct store_fill *fill, size_t count)
{
    const struct store_batch b = {.name = (const uint8_t *)"words",
                                  .name_size = 5,
                                  .marks = fill,
                                  .mark_count = fill != NULL,
                                  .deltas = deltas,
                                  .delta_count = count};
    struct store_applied applied;

    return outbox_apply(x->o, &b, &applied);
}

static enum store_mark_state
mark_state(struct fixture *x)
{
    struct store_mark_info info;

    assert_rc(outbox_marks(x->o, (const uint8_t *)"words", 5, &fill3, 1, &info),
              0);
    return info.state;
}

/* Reads the entries of a part: each must follow the one before it.  Adds up the
 * rows, and the sums in them. */
static void
read_chain(struct fixture *x, struct outbox_part *p, uint64_t *rows,
           uint64_t *sum)
{
    uint64_t digest = 0;

    for (size_t i = 0; i < p->count; i++) {
        const struct outbox_entry *e = outbox_find_entry(p, i + 1);
        struct outbox_entry_head head;
        struct outbox_row row;
        size_t at = 0;

        assert_non_null(e);
        assert_rc(outbox_read(x->o, e, &head), 0);
        assert_int_equal(head.number, i + 1);
        assert_true(head.prev_digest == digest);
        assert_true(head.rows <= OUTBOX_ROWS);
        digest = head.digest;
        while (outbox_row_next(&head, &at, &row)) {
            assert_int_equal(outbox_part_of(row.key, row.key_size, 4),
                             p->number);
            assert_int_equal(row.cell_count, 1);
            *sum += (uint64_t)outbox_cell_get(&row, 0).sum;
            ++*rows;
        }
    }
    assert_int_equal(p->last, p->count);
    assert_true(p->last_digest == digest);
}

static void
assert_counted(struct fixture *x, uint64_t count)
{
    struct outbox_keyspace *k = outbox_find(x->o, (const uint8_t *)"words", 5);
    uint64_t rows = 0, sum = 0;

    assert_non_null(k);
    for (uint32_t i = 0; i < k->part_count; i++)
        read_chain(x, &k->parts[i], &rows, &sum);
    assert_int_equal(rows, count);
    assert_int_equal(sum, count * (count + 1) / 2);
}

CASE(a_batch_is_in_once, x)
{
    assert_int_equal(mark_state(x), STORE_MARK_NONE);
    assert_rc(apply_rows(x, &fill3, 5000), 0);
    assert_rc(apply_rows(x, &fill3, 5000), 0);
    assert_int_equal(mark_state(x), STORE_MARK_DONE);
    reopen_outbox(x);
    assert_rc(apply_rows(x, &fill3, 5000), 0);
    assert_int_equal(mark_state(x), STORE_MARK_DONE);
    assert_counted(x, 5000);
}

/* No mark says how far it came. */
CASE(a_large_batch_without_marks_is_in_once, x)
{
    assert_rc(apply_rows(x, NULL, KEYS), 0);
    assert_counted(x, KEYS);
}

/* In any of its calls. */
CASE(a_large_batch_that_fails_goes_on_where_it_was, x)
{
    bool was_partial = false;

    for (unsigned n = 1; n < 8; n++) {
        int rc;

        fault_inject("fdatasync", n, EIO);
        rc = apply_rows(x, &fill3, KEYS);
        fault_clear();
        if (rc == 0)
            break;
        assert_rc(rc, -EIO);
        reopen_outbox(x);
        was_partial = was_partial || mark_state(x) == STORE_MARK_PARTIAL;
    }
    assert_true(was_partial);
    assert_rc(apply_rows(x, &fill3, KEYS), 0);
    assert_int_equal(mark_state(x), STORE_MARK_DONE);
    assert_counted(x, KEYS);
    reopen_outbox(x);
    assert_counted(x, KEYS);
}

CASE(a_full_outbox_is_no_space_and_takes_nothing, x)
{
    x->options.max = 100000;
    reopen_outbox(x);
    assert_rc(apply_rows(x, &fill3, 5000), -ENOSPC);
    assert_int_equal(mark_state(x), STORE_MARK_NONE);
    assert_rc(apply_rows(x, &fill3, 10), 0);
    assert_counted(x, 10);
}

CASE(two_handles_make_one_chain, x)
{
    struct fixture y = *x;
    struct store_fill fill = fill3;

    assert_rc(outbox_open(&y.o, &y.options), 0);
    for (unsigned i = 0; i < 10; i++) {
        fill.epoch = i + 1;
        assert_rc(apply_rows(i % 2 ? x : &y, &fill, 1), 0);
    }
    assert_rc(outbox_refresh(x->o), 0);
    assert_rc(outbox_refresh(y.o), 0);
    assert_true(outbox_sender(x->o) == outbox_sender(y.o));
    {
        struct outbox_keyspace *k =
            outbox_find(x->o, (const uint8_t *)"words", 5);
        uint64_t rows = 0, sum = 0;

        for (uint32_t i = 0; i < 4; i++)
            read_chain(x, &k->parts[i], &rows, &sum);
        assert_int_equal(rows, 10);
        assert_int_equal(sum, 10);
    }
    outbox_close(y.o);
}

CASE(one_handle_sends, x)
{
    struct outbox *other;

    assert_rc(outbox_open(&other, &x->options), 0);
    assert_rc(outbox_lock_sender(x->o), 0);
    assert_rc(outbox_lock_sender(other), -EAGAIN);
    outbox_close(other);
}

CASE(removed_entries_leave_numbers_and_marks, x)
{
    struct store_fill fill = fill3;
    struct outbox_part *p;
    uint64_t last;

    assert_rc(apply_rows(x, &fill3, 5000), 0);
    p = &outbox_find(x->o, (const uint8_t *)"words", 5)->parts[0];
    last = p->last;
    assert_true(last > 1);
    assert_rc(outbox_begin(x->o), 0);
    assert_rc(outbox_remove(x->o, p, p->count), 0);
    assert_rc(outbox_commit(x->o), 0);
    assert_int_equal(p->count, 0);
    reopen_outbox(x);
    p = &outbox_find(x->o, (const uint8_t *)"words", 5)->parts[0];
    assert_int_equal(p->count, 0);
    assert_int_equal(p->last, last);
    assert_int_equal(outbox_first(p), last + 1);
    assert_int_equal(mark_state(x), STORE_MARK_DONE);
    fill.epoch++;
    assert_rc(apply_rows(x, &fill, 5000), 0);
    assert_int_equal(p->entries[p->first].number, last + 1);
}

/* The rows of an entry, as they are sent. */
static void
send_rows(struct sender_batch *b, const struct outbox_cell *cells, size_t count,
          const struct tiers *tiers)
{
    uint8_t rows[600];
    struct outbox_entry_head head = {
        .type = OUTBOX_ADD, .rows = 1, .row_bytes = rows};
    struct cluster_part_keys part;

    put_le16(rows, 1);
    rows[2] = 'a';
    put_le16(rows + 3, (uint16_t)count);
    for (size_t i = 0; i < count; i++)
        outbox_cell_put(rows + 5 + i * OUTBOX_CELL_SIZE, &cells[i]);
    head.row_bytes_size = 5 + count * OUTBOX_CELL_SIZE;
    part = cluster_part_keys((const uint8_t *)"words", 5, 0, 0);
    sender_batch_begin(b);
    assert_rc(sender_batch_add(b, &head), 0);
    assert_rc(sender_batch_add(b, &head), 0);
    assert_rc(sender_batch_finish(b, &part, tiers, 1000), 0);
}

/* The sum of the only row, times 2^32 and the rest. */
static int64_t
sum_of(const struct sender_batch *b, uint32_t *low)
{
    struct cluster_command m;
    int64_t high;

    assert_int_equal(b->row_count, 1);
    cluster_begin(&m, 0, "");
    sender_batch_put_rows(b, &m);
    assert_int_equal(m.words, 2);
    assert_memory_equal(m.bytes, "$1\r\na\r\n$12\r\n", 12);
    high = (int64_t)get_be64(m.bytes + 12);
    *low = get_be32(m.bytes + 20);
    cluster_end(&m, 1);
    return high;
}

CASE(sums_beyond_a_count_stay_beyond_it, x)
{
    const struct tiers none = {.count = 0};
    struct outbox_cell cell = {.sum = -1};
    struct sender_batch b = {.size = 0};
    uint32_t low;

    send_rows(&b, &cell, 1, &none);
    assert_int_equal(sum_of(&b, &low), -1);
    assert_int_equal(low, UINT32_MAX - 1);
    cell.sum = (int128)INT64_MAX * ((int128)1 << 60);
    send_rows(&b, &cell, 1, &none);
    assert_int_equal(sum_of(&b, &low), (int64_t)1 << 33);
    cell.sum = -cell.sum;
    send_rows(&b, &cell, 1, &none);
    assert_int_equal(sum_of(&b, &low), -((int64_t)1 << 33));
    assert_int_equal(low, 0);
    assert_int_equal(b.section_count, 0);
    sender_batch_fini(&b);
}

/* Two entries of three minutes: two are in one period, one step of it. */
CASE(history_is_summed_by_period_and_step, x)
{
    const struct tiers tiers = {.count = 1, .tier = {{5, 60, 1000}}};
    const struct outbox_cell cells[3] = {{600, 3}, {604, 4}, {661, 5}};
    static const uint8_t first[] = {0, 1, 0, 0, 0,  0, 0, 0, 0, 0,
                                    0, 0, 0, 0, 14, 0, 0, 0, 0, 0,
                                    0, 0, 0, 0, 0,  0, 0, 0, 0, 14};
    struct sender_batch b = {.size = 0};
    uint32_t low;

    send_rows(&b, cells, 3, &tiers);
    assert_int_equal(sum_of(&b, &low), 0);
    assert_int_equal(low, 24);
    assert_int_equal(b.section_count, 2);
    assert_int_equal(b.sections[0].period.begin, 600);
    assert_int_equal(b.sections[1].period.begin, 660);
    assert_int_equal(get_be32(b.sections[0].bytes), (660 + 1000) * 60);
    assert_int_equal(b.sections[0].size, 4 + sizeof first);
    assert_memory_equal(b.sections[0].bytes + 4, first, sizeof first);
    assert_int_equal(b.first, 600);
    sender_batch_fini(&b);
}

static uint32_t
count_parts(struct fixture *x, const char *name)
{
    const struct store_key key = {(const uint8_t *)"k", 1};

    assert_rc(outbox_delete(x->o, (const uint8_t *)name, strlen(name), &key, 1),
              0);
    return outbox_find(x->o, (const uint8_t *)name, strlen(name))->part_count;
}

CASE(a_keyspace_has_the_parts_of_its_setting, x)
{
    static struct parts_rules rules;
    const char *why;

    assert_rc(parts_rules_set(&rules, "w*", "2", &why), 0);
    assert_rc(parts_rules_set(&rules, "words", "9", &why), 0);
    assert_rc(parts_rules_set(&rules, "words", "8", &why), 0);
    assert_rc(parts_rules_set(&rules, "words", "257", &why), -EINVAL);
    assert_rc(parts_rules_set(&rules, "words", "-1", &why), -EINVAL);
    assert_rc(parts_rules_set(&rules, "", "1", &why), -EINVAL);
    x->options.parts_of = &rules;
    reopen_outbox(x);
    assert_int_equal(count_parts(x, "words"), 8);
    assert_int_equal(count_parts(x, "word"), 2);
    assert_int_equal(count_parts(x, "other"), 4);
}

/* ---- files of parts ------------------------------------------------------ */

static void
make_part_file(int dir_fd)
{
    static const struct backup_field fields[] = {
        {(const uint8_t *)"\0k", (const uint8_t *)"1", 2, 1},
        {(const uint8_t *)"the", (const uint8_t *)"12345678", 3, 8}};
    uint8_t head[24 + 5] = {5};
    struct backup_file f;

    put_le32(head + 12, 1);
    memcpy(head + 24, "words", 5);
    assert_rc(backup_file_create(&f, dir_fd, "part"), 0);
    assert_rc(backup_file_begin(&f, BACKUP_HEAD, head, sizeof head), 0);
    assert_rc(backup_file_begin(&f, BACKUP_COUNTS, NULL, 0), 0);
    assert_rc(backup_file_add(&f, &fields[0]), 0);
    assert_rc(backup_file_add(&f, &fields[1]), 0);
    assert_rc(backup_file_finish(&f), 0);
    backup_file_close(&f);
}

static void
write_file(int dir_fd, const uint8_t *bytes, size_t size)
{
    const int fd = openat(dir_fd, "other", O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    (void)close(fd);
}

CASE(a_file_of_a_part_that_is_cut_or_changed_is_refused, x)
{
    struct cluster_backup_info info;
    uint8_t bytes[512];
    ssize_t size;
    int fd;

    make_part_file(x->tmp.fd);
    assert_rc(cluster_backup_check(x->tmp.fd, "part", &info), 0);
    assert_int_equal(info.rows, 1);
    assert_int_equal(info.name_size, 5);
    fd = openat(x->tmp.fd, "part", O_RDONLY);
    size = read(fd, bytes, sizeof bytes);
    (void)close(fd);
    assert_true(size > 50 && size < (ssize_t)sizeof bytes);
    for (ssize_t i = 0; i < size; i++) {
        write_file(x->tmp.fd, bytes, (size_t)i);
        assert_rc(cluster_backup_check(x->tmp.fd, "other", &info), -EBADMSG);
        bytes[i] ^= 4;
        write_file(x->tmp.fd, bytes, (size_t)size);
        assert_rc(cluster_backup_check(x->tmp.fd, "other", &info), -EBADMSG);
        bytes[i] ^= 4;
    }
    bytes[size] = 0;
    write_file(x->tmp.fd, bytes, (size_t)size + 1);
    assert_rc(cluster_backup_check(x->tmp.fd, "other", &info), -EBADMSG);
}
