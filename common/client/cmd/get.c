/* common/client/cmd/get.c - countd get, rank, total: one number. */
#include <errno.h>
#include <inttypes.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"

enum what { WHAT_COUNT, WHAT_RANK, WHAT_TOTAL };

static const char *const words[] = {
    [WHAT_COUNT] = "count",
    [WHAT_RANK] = "rank",
    [WHAT_TOTAL] = "total",
};

static int
ask(struct countd *c, enum what what, const struct cmd_name *keyspace,
    const struct cmd_name *key, int64_t *answer)
{
    switch (what) {
    case WHAT_COUNT:
        return countd_get(c, keyspace->bytes, keyspace->size, key->bytes,
                          key->size, answer);
    case WHAT_RANK:
        return countd_rank(c, keyspace->bytes, keyspace->size, key->bytes,
                           key->size, answer);
    case WHAT_TOTAL:
        break;
    }
    return countd_total(c, keyspace->bytes, keyspace->size, answer);
}

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

static int
print(const struct cmd_line *line, enum what what,
      const struct cmd_name *keyspace, const struct cmd_name *key,
      const int64_t *answer)
{
    struct output out;

    output_init(&out, line, NULL, 0);
    output_fact(&out, "keyspace", cell_name(keyspace->bytes, keyspace->size));
    if (what != WHAT_TOTAL)
        output_fact(&out, "key", cell_name(key->bytes, key->size));
    output_fact(&out, words[what], answer ? cell_number(*answer) : cell_none());
    if (answer != NULL && out.format != OUTPUT_JSON)
        (void)printf("%" PRId64 "\n", *answer); /* output_fini() tells */
    return output_fini(&out);
}

static int
run(struct cmd_line *line, enum what what)
{
    struct cmd_name keyspace, key = {0};
    struct countd *c;
    int64_t answer;
    int rc, status;

    status = cmd_name(line->args[0], "keyspace", &keyspace);
    if (status == 0 && what != WHAT_TOTAL)
        status = cmd_name(line->args[1], "key", &key);
    if (status == 0)
        status = cmd_connect(line, CMD_READER, 0, &c);
    if (status != 0)
        return status;

    rc = ask(c, what, &keyspace, &key, &answer);
    if (rc == -ENOENT)
        diag(DIAG_INFO, "%s", name_missing(c, what, &keyspace));
    countd_close(c);
    if (rc < 0 && rc != -ENOENT)
        return cmd_peer_failed(line, CMD_READER, rc);
    status = print(line, what, &keyspace, &key, rc < 0 ? NULL : &answer);
    return status == 0 && rc < 0 ? CONFIG_EXIT_NEGATIVE : status;
}

int
cmd_get(struct cmd_line *line)
{
    return run(line, WHAT_COUNT);
}

int
cmd_rank(struct cmd_line *line)
{
    return run(line, WHAT_RANK);
}

int
cmd_total(struct cmd_line *line)
{
    return run(line, WHAT_TOTAL);
}
