/* common/setup/figures.c - see figures.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/figures.h"

#include "common/setup/overview.h"

#define FIGURE(row_kind, constant, row_name, row_metric, row_type, row_unit,   \
               ...)                                                            \
    [STATUS_##constant] = {.kind = STATUS_##row_kind,                          \
                           .name = (row_name),                                 \
                           .metric = (row_metric),                             \
                           .type = FIGURE_##row_type,                          \
                           .unit = FIGURE_##row_unit,                          \
                           .help = __VA_ARGS__},

const struct figure figures[STATUS_FIGURES] = {
#include "common/setup/figures.def"
};

const struct figure *
figures_of(enum status_kind kind, size_t *count)
{
    size_t first = 0, end;

    while (first < STATUS_FIGURES && figures[first].kind != kind)
        first++;
    for (end = first; end < STATUS_FIGURES && figures[end].kind == kind;)
        end++;
    *count = end - first;
    return &figures[first];
}
