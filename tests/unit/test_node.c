/* tests/unit/test_node.c - the child that has a row is found whatever the
 * children's sizes are, though the search begins where equal ones would be. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include "common/store/tree/node.h"
#include "tests/lib/random.h"

#define CHILDREN_MAX 250

/* Makes the node's rows those of children of these sizes, and looks for the
 * first and the last row of each. */
static void
check_node(const uint64_t *sizes, uint16_t count)
{
    uint8_t bytes[BLOCK_SIZE] = {0};
    const struct node n = {.bytes = bytes, .count = count};
    uint64_t rows = 0;

    for (size_t i = 0; i < count; i++) {
        rows += sizes[i];
        put_le64(bytes + BLOCK_HEAD + NODE_ENTRY * i, rows);
    }
    for (unsigned i = 0; i < count; i++) {
        const uint64_t before = node_before(&n, i);

        if (sizes[i] == 0)
            continue;
        assert_int_equal(node_find_offset(&n, before), i);
        assert_int_equal(node_find_offset(&n, before + sizes[i] - 1), i);
    }
}

TEST(a_row_is_found_among_children_of_any_sizes)
{
    struct random r = {.state = random_seed("test_node")};
    uint64_t sizes[CHILDREN_MAX];

    for (int round = 0; round < 2000; round++) {
        const uint16_t count = (uint16_t)(1 + random_below(&r, CHILDREN_MAX));
        const uint64_t most = random_chance(&r, 50) ? 3 : 3000;
        const uint64_t factor = random_chance(&r, 50) ? 1 : UINT64_C(1) << 40;

        for (size_t i = 0; i < count; i++) {
            sizes[i] = random_below(&r, most);
            if (i < count / 3u)
                sizes[i] *= factor;
        }
        check_node(sizes, count);
    }
}
