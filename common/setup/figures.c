/* common/setup/figures.c - see figures.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/figures.h"

#include <assert.h>

#include "common/setup/overview.h"

#define ROW(row_kind, constant, row_name, row_metric, row_type, row_unit, ...) \
    {.kind = (row_kind),                                                       \
     .value = (constant),                                                      \
     .name = (row_name),                                                       \
     .metric = (row_metric),                                                   \
     .type = FIGURE_##row_type,                                                \
     .unit = FIGURE_##row_unit,                                                \
     .help = __VA_ARGS__},

#define DIRECTORY(c, ...) ROW(STATUS_DIRECTORY, STATUS_D_##c, __VA_ARGS__)
#define PROCESS(c, ...)   ROW(STATUS_PROCESS, STATUS_##c, __VA_ARGS__)
#define WRITER(c, ...)    ROW(STATUS_WRITER, STATUS_W_##c, __VA_ARGS__)
#define WORKER(c, ...)    ROW(STATUS_WORKER, STATUS_M_##c, __VA_ARGS__)
#define READER(c, ...)    ROW(STATUS_READER, STATUS_R_##c, __VA_ARGS__)
#define PORT(c, ...)      ROW(STATUS_LISTENER, STATUS_L_##c, __VA_ARGS__)
#define LIVE(c, ...)      ROW(STATUS_LIVE, STATUS_V_##c, __VA_ARGS__)
#define SCRAPE(c, ...)    ROW(STATUS_SCRAPE, STATUS_S_##c, __VA_ARGS__)

const struct figure figures[] = {
#include "common/setup/figures.def"
};

const size_t figure_count = sizeof figures / sizeof figures[0];

const struct figure *
figures_of(enum status_kind kind, size_t *count)
{
    size_t first = 0, end;

    while (first < figure_count && figures[first].kind != kind)
        first++;
    for (end = first; end < figure_count && figures[end].kind == kind;)
        end++;
    *count = end - first;
    return &figures[first];
}

const struct figure *
figure_at(enum status_kind kind, size_t value)
{
    size_t count;
    const struct figure *f = figures_of(kind, &count);

    assert(count > 0 && value >= f->value && value - f->value < count);
    return &f[value - f->value];
}
