/* writer/count_body.c - see count_body.h.
 *
 * count_body_next() is the entry: next_of_tsv(), next_of_json() and
 * next_of_ndjson() read one increment each. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/count_body.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The members of an object. */
enum {
    HAS_KEYSPACE = 1,
    HAS_KEYSPACE_HEX = 2,
    HAS_KEY = 4,
    HAS_KEY_HEX = 8,
    HAS_N = 16,
    HAS_AT = 32,
    HAS_EITHER_KEYSPACE = HAS_KEYSPACE | HAS_KEYSPACE_HEX,
    HAS_EITHER_KEY = HAS_KEY | HAS_KEY_HEX
};

void
count_body_init(struct count_body *b, enum count_format format,
                const uint8_t *bytes, size_t size,
                const struct increment_form *form)
{
    b->format = format;
    b->form = *form;
    b->form.control = format != COUNT_TSV;
    b->at = bytes + increment_text_begin(bytes, size);
    b->end = bytes + size;
    b->has_begun = b->is_array = false;
    b->line = 0;
    if (format == COUNT_JSON)
        json_read_init(&b->json, b->at, (size_t)(b->end - b->at));
}

/* ---- faults ------------------------------------------------------------- */

static int
format_fault(struct count_body *b, const char *code, const char *text,
             const char *shown, const char *behind)
{
    b->fault.code = code;
    b->fault.line = b->line > 0 ? b->line : 1;
    /* A cut text still helps. */
    (void)snprintf(b->fault.detail, sizeof b->fault.detail, "%s%s%s", text,
                   shown, behind);
    return -1;
}

static int
set_fault(struct count_body *b, const char *code, const char *detail)
{
    return format_fault(b, code, detail, "", "");
}

static int
set_json_fault(struct count_body *b)
{
    return set_fault(b, "bad-json", b->json.why);
}

/* 0 where nothing is wrong. */
static int
check_fault(struct count_body *b, const struct increment_fault *why)
{
    return why ? set_fault(b, why->code, why->text) : 0;
}

/* A detail that shows JSON's last token, in text form. */
static int
set_token_fault(struct count_body *b, const char *code, const char *text,
                const char *behind)
{
    char shown[NAME_SHOWN_SIZE];

    return format_fault(b, code, text,
                        name_show(b->json.text, b->json.size, shown), behind);
}

/* ---- lines -------------------------------------------------------------- */

/* The next line that is not empty, without its end.  False: there is none. */
static bool
next_line(struct count_body *b, const uint8_t **line, size_t *size)
{
    while (b->at < b->end) {
        const uint8_t *lf = memchr(b->at, '\n', (size_t)(b->end - b->at));

        *line = b->at;
        *size = (size_t)((lf ? lf : b->end) - b->at);
        b->at = lf ? lf + 1 : b->end;
        b->line++;
        if (*size > 0 && (*line)[*size - 1] == '\r')
            (*size)--;
        if (*size > 0)
            return true;
    }
    return false;
}

static int
next_of_tsv(struct count_body *b, struct increment *out)
{
    const uint8_t *line;
    size_t size;

    if (!next_line(b, &line, &size))
        return 0;
    return check_fault(b, increment_line_read(&b->form, (const char *)line,
                                              size, out)) < 0
               ? -1
               : 1;
}

/* ---- objects ------------------------------------------------------------ */

/* A name: JSON's escapes first, then those of a text form.  A control
 * character that came through the first is one of the name. */
static int
take_name(struct count_body *b, bool is_hex, size_t max,
          struct increment_name *out, const char *member)
{
    char text[NAME_TEXT_SIZE];
    int size;

    if (b->token != JSON_STRING)
        return format_fault(b, "bad-member", member, " must be a string", "");
    size =
        json_unescape(b->json.text, b->json.size, (uint8_t *)text, sizeof text);
    if (size < 0)
        return set_fault(b, "bad-name", "a name is longer than 256 bytes");
    return check_fault(
        b, is_hex
               ? increment_name_read_hex(text, (size_t)size, max, out)
               : increment_name_read(&b->form, text, (size_t)size, max, out));
}

/* A number without fraction or exponent, or a string of one. */
static int
take_count(struct count_body *b, int64_t *out)
{
    int rc = -EINVAL;

    if (b->token == JSON_NUMBER || b->token == JSON_STRING)
        rc = increment_number_parse((const char *)b->json.text, b->json.size,
                                    out);
    if (rc == -ERANGE)
        return set_token_fault(b, "bad-number",
                               "n: not a whole number of 64 bits: ", "");
    return rc < 0 ? set_fault(b, "bad-number", "n must be a whole number") : 0;
}

/* A time, as a number or as a string. */
static int
take_time(struct count_body *b, int64_t *out)
{
    if (b->token != JSON_NUMBER && b->token != JSON_STRING)
        return set_fault(b, "bad-time", "at must be a number or a string");
    return check_fault(b,
                       increment_time_read(&b->form, (const char *)b->json.text,
                                           b->json.size, out));
}

/* The member whose name is the token; 0: there is none such. */
static unsigned
find_member(const struct count_body *b)
{
    static const struct {
        const char *name;
        unsigned member;
    } members[] = {{"keyspace", HAS_KEYSPACE},
                   {"key", HAS_KEY},
                   {"n", HAS_N},
                   {"at", HAS_AT},
                   {"keyspace_hex", HAS_KEYSPACE_HEX},
                   {"key_hex", HAS_KEY_HEX}};

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_is(&b->json, members[i].name))
            return members[i].member;
    return 0;
}

static int
take_member(struct count_body *b, struct increment *out)
{
    const unsigned member = find_member(b);
    const bool is_hex = (member & (HAS_KEYSPACE_HEX | HAS_KEY_HEX)) != 0;

    if (member == 0)
        return set_token_fault(b, "unknown-member", "unknown member \"",
                               "\"; there are keyspace, key, n and at");
    if ((b->members & member) != 0)
        return set_fault(b, "bad-json", "a member is there twice");
    b->members |= member;
    b->token = json_next(&b->json);
    if (b->token == JSON_BAD)
        return set_json_fault(b);
    if (member == HAS_N)
        return take_count(b, &out->count);
    if (member == HAS_AT)
        return take_time(b, &out->at);
    if (b->token == JSON_NULL && !is_hex)
        return 0;
    b->names |= member;
    return (member & HAS_EITHER_KEYSPACE) != 0
               ? take_name(b, is_hex, b->form.keyspace_max, &out->keyspace,
                           "keyspace")
               : take_name(b, is_hex, b->form.key_max, &out->key, "key");
}

/* Whether each name is there once, as text or in hexadecimal digits. */
static int
check_names(struct count_body *b)
{
    const unsigned keyspace = b->names & HAS_EITHER_KEYSPACE;
    const unsigned key = b->names & HAS_EITHER_KEY;

    if (keyspace == 0)
        return set_fault(b, "bad-member", "keyspace is missing");
    if (key == 0)
        return set_fault(b, "bad-member", "key is missing");
    if (keyspace == HAS_EITHER_KEYSPACE || key == HAS_EITHER_KEY)
        return set_fault(b, "bad-member",
                         "a name is there as text and in hexadecimal digits");
    return 1;
}

/* An object that b->token begins; nothing else may be there.  1, or -1. */
static int
take_object(struct count_body *b, struct increment *out)
{
    if (b->token == JSON_BAD)
        return set_json_fault(b);
    if (b->token != JSON_OBJECT)
        return set_fault(b, "bad-json", "an object was expected");
    out->count = 1;
    out->at = b->form.at;
    b->members = b->names = 0;
    while ((b->token = json_next(&b->json)) == JSON_MEMBER)
        if (take_member(b, out) < 0)
            return -1;
    return b->token == JSON_BAD ? set_json_fault(b) : check_names(b);
}

/* Behind the last object nothing may follow. */
static int
take_end(struct count_body *b, int result)
{
    return json_next(&b->json) == JSON_END ? result : set_json_fault(b);
}

static int
next_of_ndjson(struct count_body *b, struct increment *out)
{
    const uint8_t *line;
    size_t size;

    if (!next_line(b, &line, &size))
        return 0;
    json_read_init(&b->json, line, size);
    b->token = json_next(&b->json);
    return take_object(b, out) < 0 ? -1 : take_end(b, 1);
}

static int
next_of_json(struct count_body *b, struct increment *out)
{
    if (b->has_begun && !b->is_array)
        return take_end(b, 0);
    b->token = json_next(&b->json);
    if (!b->has_begun && b->token == JSON_ARRAY) {
        b->is_array = true;
        b->token = json_next(&b->json);
    }
    b->has_begun = true;
    b->line++;
    return b->is_array && b->token == JSON_ARRAY_END ? take_end(b, 0)
                                                     : take_object(b, out);
}

int
count_body_next(struct count_body *b, struct increment *out)
{
    return b->format == COUNT_TSV      ? next_of_tsv(b, out)
           : b->format == COUNT_NDJSON ? next_of_ndjson(b, out)
                                       : next_of_json(b, out);
}
