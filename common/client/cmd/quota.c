/* common/client/cmd/quota.c - countd quota. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <string.h>

#include "common/client/cmd/cmd.h"

static const struct verb {
    const char *word;
    enum countd_quota_op op;
    bool needs_value, needs_name;
} verbs[] = {
    {"query", COUNTD_QUOTA_QUERY, false, false},
    {"apply", COUNTD_QUOTA_APPLY, true, false},
    {"cancel", COUNTD_QUOTA_CANCEL, true, false},
    {"increase", COUNTD_QUOTA_INCREASE, true, false},
    {"decrease", COUNTD_QUOTA_DECREASE, true, false},
    {"empty", COUNTD_QUOTA_EMPTY, false, false},
    {"create", COUNTD_QUOTA_CREATE, true, true},
    {"remove", COUNTD_QUOTA_REMOVE, false, true},
};

/* ---- answers ------------------------------------------------------------ */

static int
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
    return output_fini(&out);
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
list_quotas(const struct cmd_line *line, struct countd_http *h)
{
    static const struct table_column columns[] = {
        {"name", "name", false},
        {"limit", "limit", true},
        {"remaining", "remaining", true}};
    struct output out;
    int rc, status;

    output_init(&out, line, columns, 3);
    rc = countd_quota_list(h, print_quota, &out);
    output_rows_end(&out);
    status = output_fini(&out);
    return rc < 0 ? cmd_peer_failed(line, CMD_QUOTA, rc) : status;
}

static int
request_change(const struct cmd_line *line, const struct verb *verb,
               int64_t value)
{
    struct countd_quota_answer a;
    struct countd_http *h;
    int rc, status;

    status = cmd_http_open(line, CMD_QUOTA, &h);
    if (status != 0)
        return status;
    if (!verb) {
        status = list_quotas(line, h);
    } else {
        rc = countd_quota(h, cmd_value(line, "name"), verb->op, value,
                          cmd_value(line, "key"), &a);
        status = rc < 0 ? cmd_peer_failed(line, CMD_QUOTA, rc)
                        : print_answer(line, &a);
    }
    countd_http_close(h);
    return status;
}

int
cmd_quota(struct cmd_line *line)
{
    const char *word = line->args[0];
    struct likeness meant = likeness_of(word);
    const struct verb *verb = NULL;
    int64_t value = 0;

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(word, verbs[i].word) == 0)
            verb = &verbs[i];
        likeness_try(&meant, verbs[i].word);
    }
    likeness_try(&meant, "list");
    if (!verb && strcmp(word, "list") != 0)
        return cmd_misuse_like(line, word, "no such thing to do with a quota",
                               &meant);
    if (line->arg_count != (verb && verb->needs_value ? 2 : 1))
        return cmd_misuse(line, word,
                          verb && verb->needs_value ? "needs a number"
                                                    : "takes no number");
    if (verb && verb->needs_name && !cmd_value(line, "name"))
        return cmd_misuse(line, word, "needs --name");
    if (verb && verb->needs_value)
        value = cmd_number(line, line->args[1], "N", 0, INT64_MAX);
    return request_change(line, verb, value);
}
