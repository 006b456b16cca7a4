/* tests/unit/test_archive_file.c - the file of an archived log has every
 * increment of the log, in order, and nothing is read of a damaged one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/log/archive_file.h"
#include "common/log/slot.h"
#include "tests/lib/fault.h"
#include "tests/lib/file.h"
#include "tests/lib/filler.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

/* ---- a log that says what it must be ------------------------------------ */

/* The increments of a log follow from its kind and their number. */
enum kind { FEW, EDGES, MANY_NAMES, MANY_KEYSPACES, LONG_NAMES };

struct made {
    struct message m;
    uint8_t names[2 * MESSAGE_NAME_MAX];
    uint64_t received_ms;
};

static void
name_of(uint8_t *at, const char *text, uint16_t size, uint16_t *out)
{
    memset(at, 'x', size);
    memcpy(at, text, strlen(text) < size ? strlen(text) : size);
    *out = size;
}

static void
make_record(enum kind kind, uint32_t number, struct made *made)
{
    static const int64_t edges[] = {INT64_MAX, INT64_MIN, 0, -1, 1, 64, -65};
    struct random r = {number * 7919 + (unsigned)kind};
    char text[32];
    uint16_t size;

    *made = (struct made){.received_ms = 1700000000123 + number / 3};
    made->m.increment = (int64_t)random_below(&r, 1000) - 500;
    made->m.keyspace = made->names;
    made->m.key = made->names + MESSAGE_NAME_MAX;
    (void)snprintf(text, sizeof text, "k%u", (unsigned)random_below(&r, 3));
    name_of(made->names, text, 2, &made->m.keyspace_size);
    if (kind == MANY_KEYSPACES) {
        (void)snprintf(text, sizeof text, "space-%06u", number / 2);
        name_of(made->names, text, 12, &made->m.keyspace_size);
    }
    (void)snprintf(text, sizeof text, "key-%08" PRIu64,
                   kind == MANY_NAMES ? number : random_below(&r, 40));
    size = kind == LONG_NAMES ? (uint16_t)(12 + random_below(&r, 245)) : 12;
    name_of(made->names + MESSAGE_NAME_MAX, text, size, &made->m.key_size);
    if (kind != EDGES)
        return;
    made->m.increment = edges[number % (sizeof edges / sizeof edges[0])];
    made->received_ms += (uint64_t)number << 40;
    made->m.minute = (uint32_t)edges[number % 7] * (number % 3);
    name_of(made->names, "\xff", number % 2 ? 256 : 1, &made->m.keyspace_size);
    name_of(made->names + MESSAGE_NAME_MAX, "\x01", number % 3 ? 1 : 256,
            &made->m.key_size);
}

/* A full log of `count` increments, claimed as by a worker. */
static struct log
full_log(const struct tmpdir *d, enum kind kind, uint32_t count)
{
    uint8_t slot[SLOT_SIZE_MAX];
    struct layout layout;
    struct log log;

    assert_rc(layout_init(&layout, 256, 256), 0);
    assert_rc(log_create(d->fd, 7, &layout, count + 3), 0);
    assert_rc(log_claim(&log, d->fd, 7, LOG_MODE_EMPTY), 0);
    assert_rc(log_begin(&log), 0);
    for (uint32_t i = 0; i < count; i++) {
        struct slot_stamp stamp = {.synced = 0};
        struct made made;

        make_record(kind, i, &made);
        stamp.received_ms = made.received_ms;
        log.has_times = log.has_times || made.m.minute != 0;
        filler_put_slot(&log, &made.m, i, &stamp, slot);
        assert_rc(
            log_append(&log, slot, 1, stamp.received_ms, stamp.received_ms), 0);
    }
    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);
    assert_rc(log_claim(&log, d->fd, 7, LOG_MODE_FULL), 0);
    return log;
}

static int
new_file(const struct tmpdir *d, const char *name)
{
    const int fd =
        openat(d->fd, name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    return fd;
}

/* The file of such a log, which is gone then; *header was the log's. */
static int
archive_kind(const struct tmpdir *d, enum kind kind, uint32_t count,
             struct log_header *header)
{
    struct log log = full_log(d, kind, count);
    const int fd = new_file(d, "archived");
    struct archive_writer *p;

    assert_rc(archive_writer_new(&p), 0);
    assert_rc(archive_write_log(p, &log, fd), 0);
    archive_writer_free(p);
    if (header)
        *header = log.header;
    log_abandon(&log);
    assert_int_equal(unlinkat(d->fd, "0000000007", 0), 0);
    assert_int_equal(unlinkat(d->fd, "lock-0000000007", 0), 0);
    return fd;
}

static off_t
size_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return st.st_size;
}

static void
flip_bit(int fd, off_t bit)
{
    uint8_t byte;

    assert_int_equal(pread(fd, &byte, 1, bit / 8), 1);
    byte ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(pwrite(fd, &byte, 1, bit / 8), 1);
}

static void
assert_same(const struct message *m, const struct message *made)
{
    assert_true(m->increment == made->increment);
    assert_int_equal(m->minute, made->minute);
    assert_int_equal(m->keyspace_size, made->keyspace_size);
    assert_memory_equal(m->keyspace, made->keyspace, made->keyspace_size);
    assert_int_equal(m->key_size, made->key_size);
    assert_memory_equal(m->key, made->key, made->key_size);
}

/* The records read of a file; a run of them lives as long. */
struct reading {
    enum kind kind;
    uint32_t count;
    struct message run[SLOT_RUN];
};

static int
see_record(void *ctx, uint32_t number, const struct message *m,
           const struct slot_stamp *stamp)
{
    struct reading *r = ctx;
    const uint32_t in_run = number % SLOT_RUN;
    struct made made;

    assert_int_equal(number, r->count);
    r->count++;
    r->run[in_run] = *m;
    make_record(r->kind, number, &made);
    assert_int_equal(stamp->received_ms, made.received_ms);
    assert_same(m, &made.m);
    make_record(r->kind, number - in_run, &made);
    assert_same(&r->run[0], &made.m);
    return 0;
}

/* Reads all of a file: the number of increments, or an error, before one of them
 * is returned.  Each must be the one that was archived. */
static int64_t
read_back(int fd, enum kind kind)
{
    struct reading r = {.kind = kind};
    const int rc = archive_each(fd, NULL, see_record, &r);

    assert_true(rc == 0 || r.count == 0);
    return rc < 0 ? rc : (int64_t)r.count;
}

/* ---- what is read is what was archived ---------------------------------- */

IN_TMPDIR(logs_of_any_kind_come_back_and_are_small, d)
{
    static const struct {
        enum kind kind;
        uint32_t count;
    } cases[] = {{FEW, 20000},
                 {EDGES, 50},
                 {MANY_KEYSPACES, 11000},
                 {LONG_NAMES, 40000},
                 {MANY_NAMES, 20000}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t count = cases[i].count;
        struct log_header log;
        const int fd = archive_kind(d, cases[i].kind, count, &log);
        struct archive_header h;

        print_message("kind %d\n", (int)cases[i].kind);
        assert_int_equal(read_back(fd, cases[i].kind), count);
        assert_rc(archive_read_names(fd, NULL, &h, NULL, NULL), 0);
        assert_memory_equal(h.uuid, log.uuid, 16);
        assert_true(h.index == 7 && h.epoch == log.epoch);
        assert_true(h.count == count && h.slots == count + 3);
        assert_int_equal(h.features, cases[i].kind == EDGES);
        assert_int_equal(h.first_ms, log.first_ms);
        assert_int_equal(h.last_ms, log.last_ms);
        if (cases[i].kind == MANY_NAMES)
            assert_true(size_of(fd) * 20 < (off_t)count * log.layout.slot_size);
        assert_int_equal(close(fd), 0);
    }
}

/* ---- damage ------------------------------------------------------------- */

/* Some bits say nothing: in gzip's header, what fills the stream's last byte,
 * one of two ways to say the same.  Then the records are as they were, which
 * read_back() looks at. */
IN_TMPDIR(one_flipped_bit_anywhere_is_told_or_changes_nothing, d)
{
    const int fd = archive_kind(d, FEW, 300, NULL);
    unsigned harmless = 0;

    for (off_t bit = 0; bit < 8 * size_of(fd); bit++) {
        int64_t rc;

        flip_bit(fd, bit);
        rc = read_back(fd, FEW);
        assert_true(rc == -EBADMSG || rc == 300);
        harmless += rc == 300;
        flip_bit(fd, bit);
    }
    assert_in_range(harmless, 1, 80);
    assert_int_equal(read_back(fd, FEW), 300);
    assert_int_equal(close(fd), 0);
}

IN_TMPDIR(a_file_cut_short_or_grown_is_told, d)
{
    const int fd = archive_kind(d, FEW, 20000, NULL); /* some buffers */
    off_t size = size_of(fd);

    assert_int_equal(pwrite(fd, "", 1, size), 1);
    assert_rc(read_back(fd, FEW), -EBADMSG);
    for (size--; size >= 0; size -= 1 + size / 200) {
        assert_int_equal(ftruncate(fd, size), 0);
        assert_rc(read_back(fd, FEW), -EBADMSG);
    }
    assert_int_equal(close(fd), 0);
}

/* More or fewer records than the header says, in a file that checks. */
IN_TMPDIR(a_wrong_number_of_records_is_told, d)
{
    struct archive_header h = {
        .slots = 9, .count = 1, .keyspace_size = 256, .key_size = 256};
    struct archive_writer *w;
    struct made made;
    gzFile gz;
    uint8_t bytes[ARCHIVE_HEADER_SIZE], whole[2048];
    int fd = new_file(d, "archived"), size;

    make_record(FEW, 0, &made);
    assert_rc(archive_writer_new(&w), 0);
    assert_rc(archive_writer_begin(w, &h, NULL, fd, 0), 0);
    assert_rc(archive_writer_end(w, NULL), -EBADMSG);
    assert_rc(archive_writer_begin(w, &h, NULL, fd, 0), 0);
    assert_rc(archive_writer_add(w, &made.m, made.received_ms), 0);
    assert_rc(archive_writer_end(w, NULL), 0);
    assert_rc(archive_writer_begin(w, &h, NULL, new_file(d, "other"), 0), 0);
    assert_rc(archive_writer_add(w, &made.m, made.received_ms), 0);
    assert_rc(archive_writer_add(w, &made.m, made.received_ms), -EBADMSG);
    archive_writer_free(w);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    gz = gzdopen(fd, "rb");
    assert_non_null(gz);
    size = gzread(gz, whole, sizeof whole);
    assert_in_range(size, ARCHIVE_HEADER_SIZE + 4, sizeof whole - 1);
    assert_int_equal(gzclose(gz), Z_OK);
    for (h.count = 0; h.count < 4; h.count++) {
        archive_header_put(&h, bytes);
        memcpy(whole, bytes, sizeof bytes);
        fd = new_file(d, "archived");
        gz = gzdopen(dup(fd), "wb");
        assert_int_equal(gzwrite(gz, whole, (unsigned)size), size);
        assert_int_equal(gzclose(gz), Z_OK);
        assert_rc(read_back(fd, FEW), h.count == 1 ? 1 : -EBADMSG);
        assert_int_equal(close(fd), 0);
    }
}

/* ---- members and names --------------------------------------------------- */

struct listed {
    char text[256];
};

static int
list_name(void *ctx, const struct archive_fill_name *n)
{
    struct listed *l = ctx;
    const size_t size = strlen(l->text);

    (void)snprintf(l->text + size, sizeof l->text - size, "%.*s=%u ",
                   (int)n->size, (const char *)n->name, n->increments);
    return 0;
}

/* Adds a member with three records and the names that they have. */
static uint64_t
add_member(struct archive_writer *w, int fd, uint64_t at, uint64_t epoch)
{
    static const struct archive_fill_name names[] = {
        {(const uint8_t *)"a", 1, 2}, {(const uint8_t *)"bb", 2, 1}};
    const struct archive_header h = {.slots = 9,
                                     .count = 3,
                                     .epoch = epoch,
                                     .keyspace_size = 256,
                                     .key_size = 256,
                                     .names = 2};
    struct message m = {.increment = 5,
                        .keyspace = (const uint8_t *)"a",
                        .keyspace_size = 1,
                        .key = (const uint8_t *)"key",
                        .key_size = 3};
    uint64_t end = 0;

    assert_rc(archive_writer_begin(w, &h, names, fd, at), 0);
    assert_rc(archive_writer_add(w, &m, 1), 0);
    assert_rc(archive_writer_add(w, &m, 2), 0);
    m.keyspace = (const uint8_t *)"bb";
    m.keyspace_size = 2;
    assert_rc(archive_writer_add(w, &m, 3), 0);
    assert_rc(archive_writer_end(w, &end), 0);
    return end;
}

static int
add_epoch(void *ctx, int fd, const struct archive_member *m)
{
    unsigned *epochs = ctx;
    struct archive_header h;

    if (archive_each(fd, m, NULL, NULL) < 0 ||
        archive_read_names(fd, m, &h, NULL, NULL) < 0)
        return -EBADMSG;
    *epochs = 10 * *epochs + (unsigned)h.epoch;
    return 0;
}

/* The epochs of the members that read to their end, as digits. */
static unsigned
epochs_of(int fd)
{
    unsigned epochs = 0;
    bool damaged = false;

    assert_rc(archive_each_member(fd, (uint64_t)size_of(fd), add_epoch, &epochs,
                                  &damaged),
              0);
    assert_true(damaged == (epochs != 123));
    return epochs;
}

/* The last member of a sound file. */
static int
take_member(void *ctx, int fd, const struct archive_member *m)
{
    struct archive_member *last = ctx;

    (void)fd;
    *last = *m;
    return 0;
}

static struct archive_member
last_member(int fd)
{
    struct archive_member m = {.at = 0};
    bool damaged = false;

    assert_rc(archive_each_member(fd, (uint64_t)size_of(fd), take_member, &m,
                                  &damaged),
              0);
    assert_false(damaged);
    return m;
}

IN_TMPDIR(a_damaged_member_loses_only_itself, d)
{
    const int fd = new_file(d, "members");
    struct archive_writer *w;
    uint64_t first, second, end;

    assert_rc(archive_writer_new(&w), 0);
    first = add_member(w, fd, 0, 1);
    second = add_member(w, fd, first, 2);
    end = add_member(w, fd, second, 3);
    archive_writer_free(w);
    assert_int_equal(epochs_of(fd), 123);
    for (off_t bit = 8 * (off_t)first; bit < 8 * (off_t)second; bit++) {
        const unsigned epochs = (flip_bit(fd, bit), epochs_of(fd));

        assert_true(epochs == 13 || epochs == 123);
        flip_bit(fd, bit);
    }
    assert_int_equal(ftruncate(fd, (off_t)end - 1), 0);
    assert_int_equal(epochs_of(fd), 12);
    assert_int_equal(close(fd), 0);
}

IN_TMPDIR(the_names_of_each_member_are_listed, d)
{
    const int fd = new_file(d, "members");
    struct listed l = {.text = ""};
    struct archive_member m;
    struct archive_header h;
    struct archive_writer *w;
    uint64_t first, end;

    assert_rc(archive_writer_new(&w), 0);
    first = add_member(w, fd, 0, 1);
    end = add_member(w, fd, first, 2);
    archive_writer_free(w);
    m = last_member(fd);
    assert_true(m.at == first && m.size == end - first);
    assert_rc(archive_read_names(fd, &m, &h, list_name, &l), 0);
    assert_string_equal(l.text, "a=2 bb=1 ");
    assert_true(h.epoch == 2 && h.names == 2);
    assert_int_equal(close(fd), 0);
}

/* As written before there were names: a gzip file without an extra field. */
IN_TMPDIR(a_file_of_version_2_is_read, d)
{
    const struct archive_header h = {
        .slots = 9, .count = 1, .keyspace_size = 256, .key_size = 256};
    static const char record[] = "\x05\x0a"
                                 "a\0key"; /* and a NUL */
    const int fd = new_file(d, "archived");
    struct listed l = {.text = ""};
    struct archive_member m;
    uint8_t bytes[ARCHIVE_HEADER_SIZE];
    struct archive_header out;
    gzFile gz = gzdopen(dup(fd), "wb");

    archive_header_put(&h, bytes);
    bytes[7] = '2';
    put_le32(bytes + 8, 2);
    put_le32(bytes + 124, crc_of(bytes, 124));
    assert_int_equal(gzwrite(gz, bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(gzwrite(gz, record, sizeof record), sizeof record);
    assert_int_equal(gzclose(gz), Z_OK);
    m = last_member(fd);
    assert_int_equal(m.size, size_of(fd));
    assert_rc(archive_read_names(fd, &m, &out, list_name, &l), 0);
    assert_string_equal(l.text, "a=1 ");
    assert_int_equal(out.count, 1);
    assert_int_equal(close(fd), 0);
}

#define GOLDEN       "tests/golden/archive-v3"
#define GOLDEN_COUNT 42

/* COUNTD_GOLDEN=FILE writes the present format to that file: a new format has a
 * file and a test of its own, and this one stays. */
IN_TMPDIR(the_golden_file_of_version_3_is_read, d)
{
    const char *anew = getenv("COUNTD_GOLDEN");
    uint8_t *bytes;
    size_t size;
    int fd;

    if (anew) {
        assert_int_equal(close(archive_kind(d, EDGES, GOLDEN_COUNT, NULL)), 0);
        bytes = file_bytes(file_path(d->path, "archived"), &size);
        file_put(anew, bytes, size);
        free(bytes);
    }
    fd = open(GOLDEN, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read_back(fd, EDGES), GOLDEN_COUNT);
    assert_int_equal(close(fd), 0);
}

IN_TMPDIR(a_file_of_no_record_is_whole, d)
{
    const struct archive_header h = {
        .slots = 9, .keyspace_size = 256, .key_size = 256};
    const int fd = new_file(d, "archived");
    struct archive_writer *w;

    assert_rc(archive_writer_new(&w), 0);
    assert_rc(archive_writer_begin(w, &h, NULL, fd, 0), 0);
    assert_rc(archive_writer_end(w, NULL), 0);
    archive_writer_free(w);
    assert_int_equal(read_back(fd, FEW), 0);
    assert_int_equal(close(fd), 0);
}

IN_TMPDIR(a_damaged_slot_is_not_archived, d)
{
    struct log log = full_log(d, FEW, 100);
    const int fd = new_file(d, "archived");
    struct archive_writer *p;

    assert_int_equal(pwrite(log.fd, "!", 1, LOG_SLOTS_AT + 50 * 544 + 3), 1);
    assert_rc(archive_writer_new(&p), 0);
    assert_rc(archive_write_log(p, &log, fd), -EBADMSG);
    archive_writer_free(p);
    assert_int_equal(close(fd), 0);
    assert_rc(log_release(&log), 0);
}

IN_TMPDIR(another_version_is_told_from_damage, d)
{
    static const char old[] = "COUNTDA1 and what stands behind it, not gzip";
    const struct archive_header h = {
        .slots = 9, .keyspace_size = 256, .key_size = 256};
    uint8_t bytes[ARCHIVE_HEADER_SIZE];
    struct archive_header out;
    const int fd = new_file(d, "archived");

    archive_header_put(&h, bytes);
    assert_rc(archive_header_get(bytes, &out), 0);
    bytes[12] = 2; /* a feature of tomorrow */
    assert_rc(archive_header_get(bytes, &out), -EBADMSG);
    put_le32(bytes + 124, crc_of(bytes, 124));
    assert_rc(archive_header_get(bytes, &out), -EPROTONOSUPPORT);
    assert_int_equal(write(fd, old, sizeof old), sizeof old);
    assert_rc(read_back(fd, FEW), -EPROTONOSUPPORT);
    assert_int_equal(close(fd), 0);
}

IN_TMPDIR(any_failing_call_is_told_or_made_again, d)
{
    static const int errors[] = {EIO, ENOSPC};
    struct log log = full_log(d, FEW, 9000);
    struct archive_writer *p;
    bool hit = true;

    assert_rc(archive_writer_new(&p), 0);
    for (unsigned n = 1; hit; n++) {
        const int to = new_file(d, "again");
        int rc;

        assert_true(n < 1000);
        fault_inject("disk", n, errors[n % 2]);
        rc = archive_write_log(p, &log, to);
        hit = fault_hit();
        fault_clear();
        if (rc == 0) /* a read is tried again */
            assert_int_equal(read_back(to, FEW), 9000);
        else
            assert_rc(rc, hit ? -errors[n % 2] : 0);
        assert_int_equal(close(to), 0);
    }
    archive_writer_free(p);
    assert_rc(log_release(&log), 0);
}
