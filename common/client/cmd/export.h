/* common/client/cmd/export.h - what export.c and export_history.c share. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_CMD_EXPORT_H
#define COUNTD_COMMON_CLIENT_CMD_EXPORT_H

#include "common/client/cmd/cmd.h"
#include "common/client/lib/document.h"

struct export
{
    struct countd *c;
    struct cmd_name keyspace;
    bool is_named; /* keyspaces, of which each must exist */
    bool lacks;    /* one */
    bool history;  /* and not counts alone */
    bool is_part;  /* of it, from `from` until `to`: Unix seconds */
    bool is_torn;  /* it changed while it was printed */
    int64_t from, to;
    struct output out;
};

/* Exports the history of e->keyspace; 0, or an error of libcountd. */
int export_history(struct export *e);

#endif
