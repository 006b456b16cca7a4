/* tests/unit/test_read_pack.c - texts packed by gzip, in steps. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include "common/wire/gunzip.h"
#include "reader/read_pack.h"
#include "tests/lib/random.h"

static uint8_t text[1 << 20], unpacked[sizeof text];

/* Packs the beginning of the text, by steps that are as short as they can be;
 * returns their number. */
static size_t
pack(struct read_pack *p, struct gunzip *g, size_t size)
{
    size_t steps = 1;

    read_pack_start(p, text, size);
    while (!read_pack_step(p, 0))
        steps++;
    assert_int_equal(gunzip_run(g, p->packed, p->size, unpacked, size), size);
    assert_memory_equal(unpacked, text, size);
    return steps;
}

TEST(what_is_packed_in_steps_is_the_text)
{
    static const size_t sizes[] = {1, 16383, 16384, 16385, 100000};
    struct random random = {.state = 19};
    struct read_pack p;
    struct gunzip *g;

    assert_rc(gunzip_open(&g), 0);
    assert_rc(read_pack_open(&p, sizeof text), 0);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)random_next(&random); /* gzip adds to it */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_int_equal(pack(&p, g, sizes[i]), (sizes[i] + 16383) / 16384);
    assert_int_equal(pack(&p, g, sizeof text), sizeof text / 16384);
    read_pack_start(&p, text, sizeof text); /* and is given up */
    assert_false(read_pack_step(&p, 0));
    assert_int_equal(pack(&p, g, 20000), 2);
    read_pack_close(&p);
    gunzip_close(g);
}
