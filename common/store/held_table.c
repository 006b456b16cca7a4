/* common/store/held_table.c - see held_table.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/held_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/diag.h"

const struct table_column held_columns[HELD_COLUMNS] = {
    {"records", "records", true},   {"fills", "fills", true},
    {"bytes", "bytes", true},       {"oldest", "oldest_ms", true},
    {"since", "since_ms", true},    {"why", "why", false},
    {"keyspace", "keyspace", false}};

/* Why a keyspace refused, with the settings and their values where it may be
 * one of these. */
static const char *
why_text(const struct held_limits *limits, int error, char text[HELD_WHY_SIZE])
{
    if (error == 0)
        return "waits behind records that were held before it";
    if (abs(error) != EDQUOT)
        return diag_text(error);
    if (limits->keys_max == 0)
        (void)snprintf(text, HELD_WHY_SIZE, "over keyspace.max=%" PRIu64,
                       limits->keyspaces_max);
    else
        (void)snprintf(text, HELD_WHY_SIZE,
                       "over keyspace.max=%" PRIu64
                       " or keyspace.max_keys=%" PRIu64,
                       limits->keyspaces_max, limits->keys_max);
    return text;
}

void
held_cells(const struct held_summary *s, const struct held_limits *limits,
           char why[HELD_WHY_SIZE], struct cell cells[HELD_COLUMNS])
{
    cells[0] = cell_number((int64_t)s->records);
    cells[1] = cell_number((int64_t)s->fills);
    cells[2] = cell_number((int64_t)s->bytes);
    cells[HELD_OLDEST] = cell_number((int64_t)s->oldest_ms);
    cells[HELD_SINCE] = cell_number((int64_t)s->since_ms);
    cells[5] = cell_text(why_text(limits, s->error, why));
    cells[6] = cell_name(s->name, s->name_size);
}
