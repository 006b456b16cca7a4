/* tests/unit/test_lines.c - lines of plain and gzip input, however it comes
 * in pieces. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/client/cmd/cmd_terminal.h"
#include "tests/lib/fault.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

static char path[700];

static void
put_file(struct tmpdir *dir, const void *bytes, size_t size)
{
    tmpdir_put(dir, "in", bytes, size, 0600);
    snprintf(path, sizeof path, "%s/in", dir->path);
}

/* gzip of `size` bytes; returns its size. */
static size_t
pack_gzip(const void *bytes, size_t size, uint8_t *out, size_t out_size)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
                  .avail_in = (uInt)size,
                  .next_out = out,
                  .avail_out = (uInt)out_size};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, 0), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return out_size - z.avail_out;
}

/* Reads all lines and joins them with '|'; returns what the last fill did. */
static int
join_lines(struct lines *l, char *text, size_t size)
{
    size_t length = 0;
    int rc;

    text[0] = '\0';
    while ((rc = lines_fill(l)) > 0) {
        const char *line;
        size_t line_size;

        while (lines_next(l, &line, &line_size))
            length += (size_t)snprintf(text + length, size - length, "%.*s|",
                                       (int)line_size, line);
    }
    return rc;
}

static char joined[8192]; /* the lines that were read, joined */

/* Reads a file with these bytes; how many lines it has is in *number. */
static int
read_file(struct tmpdir *dir, const void *bytes, size_t size, uint64_t *number)
{
    struct lines l;
    int rc;

    put_file(dir, bytes, size);
    rc = lines_open(&l, path);
    if (rc < 0)
        return rc;
    rc = join_lines(&l, joined, sizeof joined);
    *number = l.number;
    lines_close(&l);
    return rc;
}

static void
assert_lines(struct tmpdir *dir, const char *bytes, size_t size,
             const char *expected, uint64_t count)
{
    uint64_t number;

    assert_rc(read_file(dir, bytes, size, &number), 0);
    assert_string_equal(joined, expected);
    assert_int_equal(number, count);
}

#define WITH_DIR(name, dir)                                                    \
    TEST_IN(name, struct tmpdir *dir, tmpdir_setup, tmpdir_teardown)

WITH_DIR(lines_end_with_newline_carriage_return_or_the_file, dir)
{
    assert_lines(dir, "", 0, "", 0);
    assert_lines(dir, "a", 1, "a|", 1);
    assert_lines(dir, "a\n", 2, "a|", 1);
    assert_lines(dir, "a\r\nb\n\nc", 7, "a|b||c|", 4);
    assert_lines(dir, "\n\n", 2, "||", 2);
    assert_lines(dir, "a\rb\r\r\n", 6, "a\rb\r|", 1);
}

WITH_DIR(what_is_done_follows_the_lines_not_the_reads, dir)
{
    uint8_t packed[512];
    const size_t packed_size = pack_gzip("ab\nc\n", 5, packed, sizeof packed);
    const char *line;
    size_t size;
    struct lines l;

    put_file(dir, "ab\nc\n", 5);
    assert_rc(lines_open(&l, path), 0);
    assert_rc(lines_fill(&l), 1);
    assert_int_equal(lines_done(&l), 0);
    assert_true(lines_next(&l, &line, &size));
    assert_int_equal(lines_done(&l), 3);
    assert_true(lines_next(&l, &line, &size));
    assert_int_equal(lines_done(&l), 5);
    lines_close(&l);

    put_file(dir, packed, packed_size);
    assert_rc(lines_open(&l, path), 0);
    assert_rc(lines_fill(&l), 1);
    assert_int_equal(lines_done(&l), 0);
    assert_rc(join_lines(&l, joined, sizeof joined), 0);
    assert_int_equal(lines_done(&l), packed_size);
    lines_close(&l);
}

WITH_DIR(a_line_that_is_too_long_is_cut_and_counted_once, dir)
{
    static char bytes[LINES_SIZE_MAX + 300000];
    const size_t sizes[] = {LINES_SIZE_MAX,   LINES_SIZE_MAX + 1,
                            LINES_BUFFER - 1, LINES_BUFFER,
                            LINES_BUFFER + 1, 300000};
    const char *const ends[] = {"\nend", "\r\nend"};

    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const size_t long_size = sizes[i / 2];
        const char *line;
        struct lines l;
        size_t size;

        memset(bytes, 'x', long_size);
        memcpy(bytes + long_size, ends[i % 2], strlen(ends[i % 2]));
        put_file(dir, bytes, long_size + strlen(ends[i % 2]));
        assert_rc(lines_open(&l, path), 0);
        while (!lines_next(&l, &line, &size))
            assert_rc(lines_fill(&l), 1);
        assert_int_equal(size, LINES_SIZE_MAX);
        assert_true(l.cut == (long_size > LINES_SIZE_MAX));
        while (!lines_next(&l, &line, &size))
            assert_rc(lines_fill(&l), 1);
        assert_int_equal(size, 3);
        assert_false(l.cut);
        assert_int_equal(l.number, 2);
        lines_close(&l);
    }
}

WITH_DIR(a_line_that_is_long_enough_may_end_in_the_next_read, dir)
{
    static char bytes[LINES_BUFFER + 1];
    const size_t empty = LINES_BUFFER - LINES_SIZE_MAX - 1;
    const char *line;
    struct lines l;
    size_t size = 0;

    memset(bytes, '\n', sizeof bytes);
    memset(bytes + empty, 'x', LINES_SIZE_MAX);
    bytes[LINES_BUFFER - 1] = '\r';
    put_file(dir, bytes, sizeof bytes);
    assert_rc(lines_open(&l, path), 0);
    while (lines_fill(&l) > 0)
        while (lines_next(&l, &line, &size))
            assert_false(l.cut);
    assert_int_equal(size, LINES_SIZE_MAX);
    assert_int_equal(l.number, empty + 1);
    lines_close(&l);
}

TEST(pieces_of_any_size_give_the_same_lines)
{
    static const char text[] = "one\ttwo\n\nthree\r\nf\n\xff\xfe\nlast";
    struct random random = {random_seed(__func__)};
    uint8_t packed[512];
    const size_t packed_size =
        pack_gzip(text, sizeof text - 1, packed, sizeof packed);

    for (int round = 0; round < 400; round++) {
        const bool gzip = round % 2 != 0;
        const uint8_t *bytes = gzip ? packed : (const uint8_t *)text;
        const size_t size = gzip ? packed_size : sizeof text - 1;
        char got[256] = "";
        size_t sent = 0, length = 0;
        int fds[2], rc = 1;
        struct lines l;

        assert_int_equal(pipe(fds), 0);
        assert_rc(lines_open(&l, "-"), 0);
        l.fd = fds[0];
        while (rc > 0) {
            size_t part = 1 + random_below(&random, 9);
            const char *line;
            size_t line_size;

            part = part < size - sent ? part : size - sent;
            if (part > 0)
                assert_int_equal(write(fds[1], bytes + sent, part), part);
            sent += part;
            if (part > 0 && sent == size)
                assert_int_equal(close(fds[1]), 0);
            /* The first two bytes are waited for. */
            if (!lines_ready(&l) || (!l.started && sent < 2))
                continue;
            rc = lines_fill(&l);
            while (lines_next(&l, &line, &line_size))
                length += (size_t)snprintf(got + length, sizeof got - length,
                                           "%.*s|", (int)line_size, line);
        }
        assert_rc(rc, 0);
        assert_string_equal(got, "one\ttwo||three|f|\xff\xfe|last|");
        lines_close(&l);
    }
}

WITH_DIR(damaged_gzip_is_an_error_wherever_it_is_cut, dir)
{
    uint8_t packed[4096];
    uint64_t number;
    size_t size;

    for (size_t i = 0; i < 300; i++)
        snprintf(joined + 8 * i, 9, "%07zu\n", i * 7919);
    size = pack_gzip(joined, 2400, packed, sizeof packed);
    for (size_t cut = 2; cut < size; cut += 1 + cut / 9)
        assert_rc(read_file(dir, packed, cut, &number), -ENODATA);
    packed[size / 2] ^= 0x55;
    assert_rc(read_file(dir, packed, size, &number), -EBADMSG);
}

WITH_DIR(every_failing_read_is_an_error, dir)
{
    bool hit = true;

    for (unsigned n = 1; hit; n++) {
        uint64_t number;
        int rc;

        fault_inject("read", n, EIO);
        rc = read_file(dir, "a\nb\n", 4, &number);
        hit = fault_hit();
        fault_clear();
        assert_rc(rc, hit ? -EIO : 0);
    }
    assert_string_equal(joined, "a|b|");
    assert_rc(lines_open(&(struct lines){0}, "/does/not/exist"), -ENOENT);
}
