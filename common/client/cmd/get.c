/* common/client/cmd/get.c - countd get, rank, total: one number. */
#include <errno.h>
#include <inttypes.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/period.h"

enum what { WHAT_COUNT, WHAT_RANK, WHAT_TOTAL };

static const char *const words[] = {
    [WHAT_COUNT] = "count",
    [WHAT_RANK] = "rank",
    [WHAT_TOTAL] = "total",
};

/* No such key: or is there no such keyspace? */
static const char *
name_missing(struct countd *c, enum what what, const struct cmd_name *keyspace)
{
    int64_t total;

    if (what == WHAT_TOTAL ||
        countd_total(c, keyspace->bytes, keyspace->size, &total) == -ENOENT)
        return "no such keyspace";
    return "no such key";
}

/* Prints the facts beside the answer, for programs. */
static void
print_facts(struct output *out, enum what what,
            const struct countd_facts *facts, bool found)
{
    if (found && what == WHAT_RANK)
        output_fact(out, "count", cell_number(facts->count));
    if (found && what == WHAT_TOTAL)
        output_fact(out, "keys", cell_number(facts->keys));
    if (found)
        output_fact(out, "saturated",
                    what == WHAT_TOTAL ? cell_number(facts->saturated)
                                       : cell_bool(facts->saturated != 0));
    output_fact(out, "as_of_ms", cell_number(facts->as_of_ms));
}

static int
print_answer(const struct cmd_line *line, enum what what,
             const struct cmd_name *keyspace, const struct cmd_name *key,
             const struct countd_facts *facts, bool found)
{
    const int64_t answer = what == WHAT_RANK ? facts->rank : facts->count;
    struct output out;

    output_init(&out, line, NULL, 0);
    output_fact(&out, "keyspace", cell_name(keyspace->bytes, keyspace->size));
    if (what != WHAT_TOTAL)
        output_fact(&out, "key", cell_name(key->bytes, key->size));
    output_fact(&out, words[what], found ? cell_number(answer) : cell_none());
    print_facts(&out, what, facts, found);
    if (found && out.format != OUTPUT_JSON)
        (void)printf("%" PRId64 "\n", answer);
    if (found && what == WHAT_COUNT && facts->saturated &&
        out.format == OUTPUT_PEOPLE)
        diag(DIAG_INFO, "saturated: a sum once left the range of 64 bits, so "
                        "the count is not exact");
    return output_fini(&out);
}

static int
request_answer(struct cmd_line *line, enum what what)
{
    struct cmd_name keyspace, key = {0};
    struct countd_facts facts = {0};
    struct countd *c;
    int rc, status;

    status = cmd_name(line, line->args[0], "keyspace", &keyspace);
    if (status == 0 && what != WHAT_TOTAL)
        status = cmd_name(line, line->args[1], "key", &key);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;

    rc = countd_about(c, keyspace.bytes, keyspace.size, key.bytes, key.size,
                      &facts);
    if (rc == -ENOENT)
        diag(DIAG_INFO, "%s", name_missing(c, what, &keyspace));
    (void)countd_close(c); /* nothing was sent to be counted */
    if (rc < 0 && rc != -ENOENT)
        return cmd_peer_failed(line, CMD_READER, rc);
    status = print_answer(line, what, &keyspace, &key, &facts, rc == 0);
    return status == 0 && rc < 0 ? CONFIG_EXIT_NEGATIVE : status;
}

int
cmd_get(struct cmd_line *line)
{
    return request_answer(line, WHAT_COUNT);
}

int
cmd_rank(struct cmd_line *line)
{
    return period_is_asked(line) ? period_rank(line)
                                 : request_answer(line, WHAT_RANK);
}

int
cmd_total(struct cmd_line *line)
{
    return request_answer(line, WHAT_TOTAL);
}
