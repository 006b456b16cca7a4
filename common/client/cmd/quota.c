/* common/client/cmd/quota.c - countd quota. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>

#include "common/client/cmd/cmd.h"

/* ---- answers ------------------------------------------------------------ */

static void
print_answer(const struct cmd_line *line, const struct countd_quota_answer *a)
{
    struct output out;

    output_init(&out, line, NULL, 0);
    if (a->number > 0)
        output_count(&out, "number", a->number);
    output_fact(&out, "remaining", cell_number(a->remaining));
    if (a->number > 0)
        output_text(&out, "%" PRIu64 "%c", a->number,
                    out.format == OUTPUT_TSV ? '\t' : ' ');
    output_text(&out, "%" PRId64 "\n", a->remaining);
    output_fini(&out);
}

static int
print_quota(void *ctx, const char *name, int64_t limit, int64_t remaining)
{
    const struct cell cells[] = {cell_text(name), cell_number(limit),
                                 cell_number(remaining)};

    output_row(ctx, cells);
    return 0;
}

static int
list_quotas(struct cmd_line *line)
{
    static const struct table_column columns[] = {
        {"name", "name", false},
        {"limit", "limit", true},
        {"remaining", "remaining", true}};
    struct countd_http *h;
    struct output out;
    int rc, status = cmd_http_open(line, CMD_QUOTA, &h);

    if (status != 0)
        return status;
    output_init(&out, line, columns, 3);
    rc = countd_quota_list(h, print_quota, &out);
    countd_http_close(h);
    if (rc < 0)
        return cmd_peer_failed(line, CMD_QUOTA, rc);
    output_fini(&out);
    return CONFIG_EXIT_OK;
}

static int request_change(struct cmd_line *line);

/* Those of the library by its numbers for them. */
static const struct cmd_verb verbs[] = {
    [COUNTD_QUOTA_QUERY] = {"query", 1, 1, request_change},
    [COUNTD_QUOTA_APPLY] = {"apply", 2, 2, request_change},
    [COUNTD_QUOTA_CANCEL] = {"cancel", 2, 2, request_change},
    [COUNTD_QUOTA_INCREASE] = {"increase", 2, 2, request_change},
    [COUNTD_QUOTA_DECREASE] = {"decrease", 2, 2, request_change},
    [COUNTD_QUOTA_EMPTY] = {"empty", 1, 1, request_change},
    [COUNTD_QUOTA_CREATE] = {"create", 2, 2, request_change},
    [COUNTD_QUOTA_REMOVE] = {"remove", 1, 1, request_change},
    {"list", 1, 1, list_quotas},
};

static int
request_change(struct cmd_line *line)
{
    struct countd_quota_request r = {
        .op = (enum countd_quota_op)(line->verb - verbs),
        .value = line->arg_count > 1
                     ? cmd_number(line, line->args[1], "N", 0, INT64_MAX)
                     : 0,
        .name = cmd_value(line, "name"),
        .key = cmd_value(line, "key")};
    struct countd_quota_answer a;
    struct countd_http *h;
    int rc, status;

    if (r.op >= COUNTD_QUOTA_CREATE && !r.name)
        return cmd_misuse(line, line->args[0], "needs --name");
    status = cmd_http_open(line, CMD_QUOTA, &h);
    if (status != 0)
        return status;
    rc = countd_quota(h, &r, &a);
    countd_http_close(h);
    if (rc < 0)
        return cmd_peer_failed(line, CMD_QUOTA, rc);
    print_answer(line, &a);
    return CONFIG_EXIT_OK;
}

int
cmd_quota(struct cmd_line *line)
{
    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
