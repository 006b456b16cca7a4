/* common/base/array.c - see array.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
array_grow(void *array, size_t *capacity, size_t need, size_t item_size)
{
    const size_t larger = 2 * *capacity > need ? 2 * *capacity : need + 16;
    void *at, *moved;

    if (need <= *capacity)
        return 0;
    memcpy(&at, array, sizeof at); /* of any type */
    moved = realloc(at, larger * item_size);
    if (moved == NULL)
        return -ENOMEM;
    memcpy(array, &moved, sizeof moved);
    *capacity = larger;
    /* cppcheck-suppress memleak ; the array has it */
    return 0;
}
