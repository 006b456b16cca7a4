/* common/base/array.h - arrays that grow: array_grow(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_ARRAY_H
#define COUNTD_COMMON_BASE_ARRAY_H

#include <stddef.h>

/* Makes `need` items fit into the array whose pointer is at `array`, at least
 * doubling it.  An array of no capacity may be NULL.  On -ENOMEM everything
 * stays as it was.
 *
 *     rc = array_grow(&list->files, &list->capacity, list->count + 1,
 *                     sizeof *list->files); */
int array_grow(void *array, size_t *capacity, size_t need, size_t item_size);

#endif
