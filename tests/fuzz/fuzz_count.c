/* tests/fuzz/fuzz_count.c - any bytes as the body of POST /v1/count, in each of
 * its formats, and as its gzip.
 *
 * Whatever the bytes: nothing outside them is read; they are read as the same
 * each time; each increment can be put into a message; what a line or an element
 * was read from is written as JSON again and read as the same; and what gzip
 * inflates to is within its limit, and a body, too.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>

#include "common/wire/gunzip.h"
#include "common/wire/json_write.h"
#include "common/wire/message.h"
#include "common/wire/utf8.h"
#include "writer/count_body.h"

#define INPUT_MAX    65536
#define INFLATED_MAX 262144
#define LATEST       4102444800 /* Unix seconds */

static struct layout layout;

/* Names in text form, and as they are. */
static const struct increment_form forms[] = {
    {.keyspace_max = NAME_MAX_SIZE, .key_max = NAME_MAX_SIZE, .latest = LATEST},
    {.raw = true,
     .keyspace_max = NAME_MAX_SIZE,
     .key_max = NAME_MAX_SIZE,
     .at = 60,
     .latest = LATEST}};

/* Puts a name as answers have it in each form. */
static void
put_name(struct json_writer *w, const char *member,
         const struct increment_name *name, bool is_raw)
{
    char hex[32];

    (void)snprintf(hex, sizeof hex, "%s_hex", member);
    json_member(w, member);
    if (!is_raw)
        json_name(w, name->bytes, name->size);
    else if (utf8_is_valid(name->bytes, name->size))
        json_string(w, name->bytes, name->size);
    else {
        json_literal(w, "null");
        json_member(w, hex);
        json_hex(w, name->bytes, name->size);
    }
}

/* An increment in JSON is the same increment. */
static void
check_again(const struct increment *i, bool is_raw)
{
    char text[8 * NAME_TEXT_SIZE];
    struct json_writer w;
    struct count_body b;
    struct increment same;

    json_write_init(&w, text, sizeof text);
    json_begin(&w, '{');
    put_name(&w, "keyspace", &i->keyspace, is_raw);
    put_name(&w, "key", &i->key, is_raw);
    json_member(&w, "n");
    json_integer(&w, i->count);
    if (i->at != 0) {
        json_member(&w, "at");
        json_integer(&w, i->at);
    }
    json_end(&w, '}');
    assert(json_write_size(&w) > 0);
    count_body_init(&b, COUNT_JSON, (const uint8_t *)text, json_write_size(&w),
                    &forms[is_raw]);
    assert(count_body_next(&b, &same) == 1);
    assert(same.count == i->count && (i->at == 0 || same.at == i->at) &&
           same.key.size == i->key.size &&
           same.keyspace.size == i->keyspace.size &&
           memcmp(same.key.bytes, i->key.bytes, i->key.size) == 0 &&
           memcmp(same.keyspace.bytes, i->keyspace.bytes, i->keyspace.size) ==
               0);
    assert(count_body_next(&b, &same) == 0);
}

static void
check_increment(const struct increment *i)
{
    uint8_t bytes[MESSAGE_SIZE_MAX];
    const struct message m = {.increment = i->count,
                              .keyspace = i->keyspace.bytes,
                              .key = i->key.bytes,
                              .keyspace_size = (uint16_t)i->keyspace.size,
                              .key_size = (uint16_t)i->key.size};

    assert(i->at == 0 || (i->at >= 60 && i->at <= LATEST));
    assert(message_put(&layout, &m, bytes) == 0);
    check_again(i, false);
    check_again(i, true);
}

/* What a body came to. */
struct outcome {
    uint64_t increments, bytes, sum; /* of names, and of counts: it wraps */
    uint32_t line;                   /* of the fault; 0: there is none */
};

static struct outcome
read_body(enum count_format format, const struct increment_form *form,
          const uint8_t *bytes, size_t size)
{
    struct outcome o = {0};
    struct count_body b;
    struct increment i;
    int rc;

    count_body_init(&b, format, bytes, size, form);
    for (; (rc = count_body_next(&b, &i)) > 0; o.increments++) {
        check_increment(&i);
        o.bytes += i.keyspace.size + i.key.size;
        o.sum += (uint64_t)i.count + (uint64_t)i.at;
    }
    if (rc < 0) {
        assert(b.fault.line > 0 && b.fault.code[0] != '\0');
        assert(memchr(b.fault.detail, '\0', sizeof b.fault.detail));
        o.line = b.fault.line;
    }
    return o;
}

static void
check_body(enum count_format format, const struct increment_form *form,
           const uint8_t *bytes, size_t size)
{
    const struct outcome one = read_body(format, form, bytes, size),
                         again = read_body(format, form, bytes, size);

    assert(memcmp(&one, &again, offsetof(struct outcome, line)) == 0 &&
           one.line == again.line);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct gunzip gunzip;
    static uint8_t inflated[INFLATED_MAX + 1];
    const struct increment_form *form;
    uint8_t *copy;
    int n;

    if (layout.slot_size == 0) {
        assert(gunzip_open(&gunzip) == 0);
        assert(layout_init(&layout, NAME_MAX_SIZE, NAME_MAX_SIZE) == 0);
    }
    if (size < 1 || size > INPUT_MAX)
        return 0;
    form = &forms[bytes[0] / 3 % 2];
    copy = fuzz_copy(bytes + 1, size - 1);
    check_body((enum count_format)(bytes[0] % 3), form, copy, size - 1);
    n = gunzip_run(&gunzip, copy, size - 1, inflated, INFLATED_MAX);
    assert(n <= INFLATED_MAX);
    if (n > 0)
        check_body((enum count_format)(bytes[0] % 3), form, inflated,
                   (size_t)n);
    free(copy);
    return 0;
}
