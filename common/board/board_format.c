/* common/board/board_format.c - the header of a board: made, checked, compared;
 * see board_internal.h.
 *
 * Entry points: board_crc(), board_format(),
 * board_format_seal(), board_format_check(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/board/board_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CRC_SIZE offsetof(struct board_header, crc)

int
board_fail(const struct board_error *e, int rc, const char *format, ...)
{
    const int size = COUNTD_BOARD_ERROR_SIZE; /* cut is good enough */
    va_list args;
    int n;

    if (!e->text)
        return rc;
    n = snprintf(e->text, (size_t)size, "board (%s) ", e->path);
    va_start(args, format);
    if (n < size)
        (void)vsnprintf(e->text + n, (size_t)(size - n), format, args);
    va_end(args);
    return rc;
}

/* As zlib's, bit by bit: a header is checked when a board is attached to, and
 * users of the library need no zlib for that. */
uint32_t
board_crc(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static uint32_t
names_size(const struct board_header *h)
{
    return (h->shared_count + h->private_count) * COUNTD_BOARD_NAME_SIZE;
}

/* All sizes follow from the counts; none overflows within their limits. */
static void
set_sizes(struct board_header *h)
{
    uint64_t stride = board_block_size(h->shared_count);

    stride += (uint64_t)h->cells * board_block_size(h->private_count + 1);
    h->stride = (uint32_t)stride;
    h->header_size = board_round_up(BOARD_NAMES_AT + names_size(h), BOARD_PAGE);
    h->file_size = h->header_size + (uint64_t)h->slots * h->stride;
}

static bool
in_limits(const struct board_header *h)
{
    return h->slots >= 1 && h->slots <= COUNTD_BOARD_SLOTS_MAX &&
           h->shared_count >= 1 && h->shared_count <= COUNTD_BOARD_VALUES_MAX &&
           h->private_count <= COUNTD_BOARD_VALUES_MAX &&
           h->cells <= COUNTD_BOARD_CELLS_MAX &&
           (h->cells == 0) == (h->private_count == 0);
}

static bool
is_name(const char *name)
{
    size_t size = 0;

    for (; size < COUNTD_BOARD_NAME_SIZE && name[size] != '\0'; size++)
        if (name[size] <= ' ' || name[size] > '~')
            return false;
    return size < COUNTD_BOARD_NAME_SIZE;
}

int
board_format(const struct board_error *e,
             const struct countd_board_shape *shape, struct board_header *out)
{
    struct board_header *h = out;

    memset(h, 0, sizeof *h);
    memcpy(h->magic, BOARD_MAGIC, sizeof h->magic);
    h->order = BOARD_ORDER;
    h->version = BOARD_VERSION;
    h->slots = shape->slots;
    h->shared_count = shape->shared_count;
    h->private_count = shape->private_count;
    h->cells = shape->cells;
    h->processes = BOARD_PROCESSES;
    if (!in_limits(h))
        return board_fail(
            e, -EINVAL,
            "cannot be made: a board has 1 to %d slots of 1 to %d shared "
            "integers, and up to %d cells of up to %d, both or neither",
            COUNTD_BOARD_SLOTS_MAX, COUNTD_BOARD_VALUES_MAX,
            COUNTD_BOARD_CELLS_MAX, COUNTD_BOARD_VALUES_MAX);
    set_sizes(h);
    if (h->file_size > COUNTD_BOARD_FILE_MAX)
        return board_fail(e, -EINVAL,
                          "cannot be made: a board of %" PRIu64
                          " bytes is too large",
                          h->file_size);
    for (uint32_t i = 0; shape->names && i < h->shared_count + h->private_count;
         i++)
        if (!is_name(shape->names[i]))
            return board_fail(e, -EINVAL,
                              "cannot be made: a name has at most %d printable "
                              "characters and no space",
                              COUNTD_BOARD_NAME_SIZE - 1);
    return 0;
}

void
board_format_seal(struct board_header *h, const uint8_t *names)
{
    h->names_crc = board_crc(names, names_size(h));
    h->crc = board_crc(h, CRC_SIZE);
}

/* The first fault of the constant part, or NULL. */
static const char *
find_fault(const struct board_header *h)
{
    struct board_header sizes = {.slots = h->slots,
                                 .shared_count = h->shared_count,
                                 .private_count = h->private_count,
                                 .cells = h->cells};

    if (memcmp(h->magic, BOARD_MAGIC, sizeof h->magic) != 0)
        return "is not a board: invalid magic";
    if (h->order != BOARD_ORDER)
        return "is a board of a machine with another byte order";
    if (h->version != BOARD_VERSION)
        return "is a board of another version";
    if (board_crc(h, CRC_SIZE) != h->crc)
        return "is a damaged board: wrong checksum of its header";
    if (!in_limits(h) || h->processes != BOARD_PROCESSES)
        return "is a damaged board: impossible sizes";
    set_sizes(&sizes);
    if (sizes.stride != h->stride || sizes.header_size != h->header_size ||
        sizes.file_size != h->file_size || h->file_size > COUNTD_BOARD_FILE_MAX)
        return "is a damaged board: sizes that do not fit each other";
    return NULL;
}

int
board_format_check(const struct board_error *e, const struct board_header *h,
                   uint64_t file_size)
{
    const char *fault = find_fault(h);

    if (fault)
        return board_fail(e, -EBADMSG, "%s", fault);
    if (h->file_size != file_size)
        return board_fail(e, -EBADMSG,
                          "has a wrong size: %" PRIu64
                          " bytes instead of %" PRIu64,
                          file_size, h->file_size);
    return 0;
}

int
board_format_check_names(const struct board_error *e,
                         const struct board_header *h, const uint8_t *names)
{
    bool good = board_crc(names, names_size(h)) == h->names_crc;

    for (uint32_t i = 0; good && i < h->shared_count + h->private_count; i++)
        good =
            is_name((const char *)names + (size_t)i * COUNTD_BOARD_NAME_SIZE);
    return good ? 0
                : board_fail(e, -EBADMSG,
                             "is a damaged board: the names of its columns");
}

int
board_format_compare(const struct board_error *e, const struct board_header *h,
                     const struct countd_board_shape *shape)
{
    const struct {
        const char *what;
        uint32_t has, expected;
    } all[] = {
        {"number of slots mismatch", h->slots, shape->slots},
        {"slot size mismatch: shared integers", h->shared_count,
         shape->shared_count},
        {"slot size mismatch: private integers", h->private_count,
         shape->private_count},
        {"slot size mismatch: cells", h->cells, shape->cells},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].has != all[i].expected)
            return board_fail(
                e, -EPROTO, "%s: it has %" PRIu32 ", %" PRIu32 " are expected",
                all[i].what, all[i].has, all[i].expected);
    return 0;
}
