/* common/client/cmd/keys.c - countd keys: rows in the order of keys; and countd
 * get of several keys.  Read from the end: cmd_keys(), lookup_keys(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/wire/query.h"

#define KEYS_ROWS   100
#define KEYS_AGAIN  20 /* reads of keys while the keyspace changes */
#define SINGLES_MAX 256

static const struct table_column columns[] = {{"count", "count", true},
                                              {"key", "key", false}};

/* ---- several keys ------------------------------------------------------- */

/* The keys of the line, and their counts. */
struct several {
    struct lookup l;
    size_t count;
    struct cmd_name names[SINGLES_MAX];
    struct countd_key keys[SINGLES_MAX];
    struct countd_keyspace_state state;
};

static int
parse_keys(const struct cmd_line *line, struct several *s)
{
    if (line->arg_count - 1 > SINGLES_MAX)
        return cmd_misuse(line, line->args[SINGLES_MAX + 1],
                          "256 keys at most are read at once");
    for (int i = 1; i < line->arg_count; i++)
        s->names[s->count++] = cmd_name(line, line->args[i], "key");
    return *line->status;
}

/* Reads all keys of one state of the keyspace: again while it changes between
 * the first request and the last. */
static int
request_keys(struct several *s)
{
    const struct cmd_name *k = &s->l.keyspace;
    struct countd_keyspace_state after = {.nonce = 0};
    int rc;

    for (int i = 0; i < KEYS_AGAIN; i++) {
        rc = countd_keyspace_state(s->l.c, k->bytes, k->size, &s->state);
        if (rc == 0)
            rc = countd_gets(s->l.c, s->keys, s->count);
        if (rc == 0)
            rc = countd_keyspace_state(s->l.c, k->bytes, k->size, &after);
        if (rc < 0 ||
            (s->state.nonce == after.nonce && s->state.change == after.change))
            return rc;
    }
    return -EAGAIN;
}

static int
print_keys(struct several *s)
{
    lookup_begin(&s->l, columns, 2);
    for (size_t i = 0; i < s->count; i++) {
        const struct countd_key *key = &s->keys[i];
        const struct cell cells[] = {key->result == 0 ? cell_number(key->count)
                                                      : cell_none(),
                                     cell_name(key->key, key->key_size)};

        output_row(&s->l.out, cells);
    }
    output_rows_end(&s->l.out);
    output_as_of(&s->l.out, s->state.as_of_ms);
    return output_fini(&s->l.out);
}

int
lookup_keys(const struct cmd_line *line)
{
    static struct several s;
    int rc, status;

    status = parse_keys(line, &s);
    if (status == 0)
        status = lookup_open(&s.l, line, 1);
    if (status != 0)
        return status;
    for (size_t i = 0; i < s.count; i++)
        s.keys[i] = (struct countd_key){.keyspace = s.l.keyspace.bytes,
                                        .keyspace_size = s.l.keyspace.size,
                                        .key = s.names[i].bytes,
                                        .key_size = s.names[i].size,
                                        .result = -ENOENT};
    rc = request_keys(&s);
    if (rc == -EAGAIN) {
        diag(DIAG_ERROR, "the keyspace changed each time that its keys were "
                         "read; try again, or read fewer keys at once");
        return lookup_close(&s.l, CMD_READER, 0, CONFIG_EXIT_SYSTEM);
    }
    if (rc == 0 || rc == -ENOENT)
        status = print_keys(&s);
    return lookup_close(&s.l, CMD_READER, rc, status);
}

/* ---- keys in order ------------------------------------------------------ */

struct keys_command {
    struct lookup l;
    struct cmd_name prefix, after;
    int64_t length;
    struct countd_facts facts;
};

/* An empty one is none at all. */
static struct cmd_name
parse_part(const struct cmd_line *line, const char *text, const char *what)
{
    return text && text[0] != '\0' ? cmd_name(line, text, what)
                                   : (struct cmd_name){.size = 0};
}

static void
print_rows(struct keys_command *k, const struct countd_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct countd_row *row = &rows->rows[i];
        const struct cell cells[] = {cell_number(row->count),
                                     cell_name(row->key, row->key_size)};

        output_row(&k->l.out, cells);
    }
    if (rows->count > 0) {
        const struct countd_row *last = &rows->rows[rows->count - 1];

        k->after.size = last->key_size;
        memcpy(k->after.bytes, last->key, last->key_size);
    }
}

/* Prints `length` rows, in pages of which each begins after the last key of the
 * one before, so that no key is there twice. */
static int
print_pages(struct keys_command *k)
{
    const struct cmd_name *name = &k->l.keyspace;
    int64_t count, got;

    do {
        struct countd_rows *rows = NULL;
        int rc;

        count = k->length < QUERY_ROWS_MAX ? k->length : QUERY_ROWS_MAX;
        rc = countd_keys(k->l.c, name->bytes, name->size, k->prefix.bytes,
                         k->prefix.size, k->after.bytes, k->after.size, count,
                         &rows);
        if (rc < 0)
            return rc;
        assert(rows);
        got = (int64_t)rows->count;
        print_rows(k, rows);
        countd_rows_free(rows);
        k->length -= got;
    } while (k->length > 0 && got == count);
    return 0;
}

static int
print_answer(struct keys_command *k, int *rc)
{
    lookup_begin(&k->l, columns, 2);
    output_fact(&k->l.out, "prefix",
                cell_name(k->prefix.bytes, k->prefix.size));
    *rc = print_pages(k);
    output_rows_end(&k->l.out);
    if (*rc == 0)
        output_as_of(&k->l.out, k->facts.as_of_ms);
    return output_fini(&k->l.out);
}

int
cmd_keys(struct cmd_line *line)
{
    struct keys_command k = {0};
    int rc, status;

    k.length = cmd_option_number(line, "n", 1, INT64_MAX, KEYS_ROWS);
    if (line->arg_count > 1)
        k.prefix = parse_part(line, line->args[1], "prefix");
    k.after = parse_part(line, cmd_value(line, "after"), "key");
    status = lookup_open(&k.l, line, 1);
    if (status != 0)
        return status;
    rc = countd_about(k.l.c, k.l.keyspace.bytes, k.l.keyspace.size, NULL, 0,
                      &k.facts);
    if (rc == 0)
        status = print_answer(&k, &rc);
    return lookup_close(&k.l, CMD_READER, rc, status);
}
