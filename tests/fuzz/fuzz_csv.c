/* tests/fuzz/fuzz_csv.c - any bytes as lines of countd load --csv.
 *
 * The first byte chooses: 1 names are as they are, 2 all rows are of one
 * keyspace.
 *
 * Whatever the bytes: nothing outside a line is read; what is wrong with a row
 * is said; and a row that is written again, its names in quotes, is the same
 * row. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>

#include "common/client/cmd/load.h"

#define LATEST 4102444800 /* Unix seconds */

static size_t
put_quoted(char *to, const struct increment_name *name)
{
    char *at = to;

    *at++ = '"';
    for (size_t i = 0; i < name->size; i++) {
        if (name->bytes[i] == '"')
            *at++ = '"';
        *at++ = (char)name->bytes[i];
    }
    *at++ = '"';
    *at++ = ',';
    return (size_t)(at - to);
}

/* Takes a line, which is not more than its bytes. */
static enum csv_result
take_line(struct csv *c, const struct increment_form *form, const void *bytes,
          size_t size, struct increment *out)
{
    char *line = fuzz_copy(bytes, size);
    const enum csv_result result = csv_take(c, form, line, size, out);

    assert((c->wrong != NULL) ==
           (result == CSV_BAD || result == CSV_NO_COLUMNS));
    free(line);
    return result;
}

static void
check_again(const struct increment *i)
{
    static struct csv c = {.raw = true};
    const struct increment_form raw = {.raw = true,
                                       .keyspace_max = NAME_MAX_SIZE,
                                       .key_max = NAME_MAX_SIZE,
                                       .latest = LATEST};
    enum csv_result result = CSV_MORE;
    struct increment same;
    struct fuzz_line line;
    char text[CSV_TEXT_MAX];
    const uint8_t *at = (const uint8_t *)text;
    size_t size = put_quoted(text, &i->keyspace);

    size += put_quoted(text + size, &i->key);
    size += (size_t)snprintf(text + size, sizeof text - size,
                             i->at != 0 ? "%lld,%lld" : "%lld,",
                             (long long)i->count, (long long)i->at);
    assert(csv_columns(&c, "keyspace,key,n,at") == NULL);
    csv_begin(&c);
    while (fuzz_take_line(&at, &size, &line)) {
        assert(result == CSV_MORE);
        result = take_line(&c, &raw, line.at, line.size, &same);
    }
    assert(result == CSV_ROW);
    assert(same.count == i->count && same.at == i->at &&
           same.keyspace.size == i->keyspace.size &&
           same.key.size == i->key.size &&
           memcmp(same.keyspace.bytes, i->keyspace.bytes, i->keyspace.size) ==
               0 &&
           memcmp(same.key.bytes, i->key.bytes, i->key.size) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct csv c;
    struct increment_form form = {.keyspace_max = NAME_MAX_SIZE,
                                  .key_max = NAME_MAX_SIZE,
                                  .latest = LATEST};
    enum csv_result result = CSV_MORE;
    struct increment i;
    struct fuzz_line line;

    if (size < 1)
        return 0;
    c = (struct csv){.raw = (bytes[0] & 1) != 0};
    form.raw = c.raw;
    if ((bytes[0] & 2) != 0)
        c.keyspace = (struct increment_name){.bytes = "all", .size = 3};
    csv_begin(&c);
    bytes++;
    size--;
    while (result != CSV_NO_COLUMNS && fuzz_take_line(&bytes, &size, &line)) {
        result = take_line(&c, &form, line.at, line.size, &i);
        if (result == CSV_ROW)
            check_again(&i);
    }
    return 0;
}
