/* common/setup/figures.h - the table of figures: what each of them is called,
 * means and needs; its rows are in figures.def.
 *
 * Pure; nothing is the caller's.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_FIGURES_H
#define COUNTD_COMMON_SETUP_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "common/setup/status.h"

enum figure_type { FIGURE_COUNTER, FIGURE_GAUGE, FIGURE_INFO };
enum figure_unit {
    FIGURE_ONE,
    FIGURE_BYTES,
    FIGURE_MS,
    FIGURE_US,
    FIGURE_BOOL
};

/* When a figure needs an operator. */
enum figure_needs {
    FIGURE_NEVER,
    FIGURE_ZERO,   /* at 0 */
    FIGURE_ABOVE,  /* above the limit */
    FIGURE_NOTED,  /* never; but above the limit it is noted */
    FIGURE_OLD,    /* as a time that is longer ago than the limit; 0: no time */
    FIGURE_RECENT, /* while the next figure is a time less long ago than it */
    FIGURE_SHARE   /* below the next figure divided by the limit */
};

#define FIGURE_UNKNOWN INT64_MIN
/* As a label: /metrics has the largest value of all rows, and no label, not even
 * that of the process. */
#define FIGURE_ALONE ""

struct figure {
    enum status_kind kind; /* kind of the row that has the figure */
    const char *name;      /* in countd status and /v1/status, by SIGUSR1 */
    const char *metric;    /* in /metrics */
    enum figure_type type;
    enum figure_unit unit;
    const char *help;
    const char *label;  /* NAME=VALUE, besides that of the process; or NULL */
    const char *family; /* help of all with this metric; NULL: `help` */
    enum figure_needs needs;
    int64_t limit;
    const char *sentence; /* about it, then */
    const char *alert;    /* in alerts.yml; NULL: none */
};

/* By enum status_figure, which are places in the values of a row, too. */
extern const struct figure figures[STATUS_FIGURES];

/* The first figure of a kind; the others follow, as many as *count says. */
const struct figure *figures_of(enum status_kind kind, size_t *count);

#endif
