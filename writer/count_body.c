/* writer/count_body.c - see count_body.h.
 *
 * count_body_next() is the entry: next_of_tsv(), next_of_json() and
 * next_of_ndjson() read one increment each. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/count_body.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What an object has; a name that is null is there, and is not one. */
enum {
    HAS_KEYSPACE = 1,
    HAS_KEY = 2,
    HAS_N = 4,
    HAS_KEYSPACE_HEX = 8,
    HAS_KEY_HEX = 16,
    NULL_KEYSPACE = 32,
    NULL_KEY = 64,
    HAS_AT = 128
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

static int
fail_detail(const struct count_body *b, struct count_fault *fault,
            const char *code, const char *detail)
{
    fault->code = code;
    fault->line = b->line > 0 ? b->line : 1;
    (void)snprintf(fault->detail, sizeof fault->detail, "%s",
                   detail); /* a cut text still helps */
    return -1;
}

static int
fail_line(const struct count_body *b, struct count_fault *fault,
          const struct increment_fault *why)
{
    return fail_detail(b, fault, why->code, why->text);
}

/* A detail that shows JSON's last token, in text form. */
static int
fail_with(const struct count_body *b, struct count_fault *fault,
          const char *code, const char *text, const char *behind)
{
    char shown[NAME_SHOWN_SIZE], detail[COUNT_DETAIL_SIZE];

    (void)snprintf(detail, sizeof detail, "%s%s%s", text,
                   name_show(b->json.text, b->json.size, shown), behind);
    return fail_detail(b, fault, code, detail);
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
next_of_tsv(struct count_body *b, struct increment *out,
            struct count_fault *fault)
{
    const struct increment_fault *why;
    const uint8_t *line;
    size_t size;

    if (!next_line(b, &line, &size))
        return 0;
    why = increment_line_read(&b->form, (const char *)line, size, out);
    return why ? fail_line(b, fault, why) : 1;
}

/* ---- objects ------------------------------------------------------------ */

/* A name: JSON's escapes first, then those of a text form.  A control
 * character that came through the first is one of the name. */
static int
take_name(struct count_body *b, const char *member, bool is_hex, size_t max,
          struct increment_name *out, struct count_fault *fault)
{
    const struct increment_fault *why;
    uint8_t text[NAME_TEXT_SIZE];
    char detail[COUNT_DETAIL_SIZE];
    int size;

    if (b->token == JSON_BAD)
        return fail_detail(b, fault, "bad-json", b->json.why);
    if (b->token != JSON_STRING) {
        (void)snprintf(detail, sizeof detail, "%s must be a string", member);
        return fail_detail(b, fault, "bad-member", detail);
    }
    size = json_unescape(b->json.text, b->json.size, text, sizeof text);
    if (size < 0)
        return fail_detail(b, fault, "bad-name",
                           "a name is longer than 256 bytes");
    why = is_hex ? increment_name_read_hex((const char *)text, (size_t)size,
                                           max, out)
                 : increment_name_read(&b->form, (const char *)text,
                                       (size_t)size, max, out);
    return why ? fail_line(b, fault, why) : 0;
}

/* A number without fraction or exponent, or a string of one. */
static int
take_count(struct count_body *b, int64_t *out, struct count_fault *fault)
{
    const char *text = (const char *)b->json.text;
    const size_t size = b->json.size;

    if (b->token == JSON_BAD)
        return fail_detail(b, fault, "bad-json", b->json.why);
    if (b->token != JSON_NUMBER && b->token != JSON_STRING)
        return fail_detail(b, fault, "bad-number", "n must be a whole number");
    switch (increment_number_parse(text, size, out)) {
    case 0:
        return 0;
    case -ERANGE:
        return fail_with(b, fault, "bad-number",
                         "n: not a whole number of 64 bits: ", "");
    default:
        return fail_detail(b, fault, "bad-number", "n must be a whole number");
    }
}

/* A time, as a number or as a string. */
static int
take_time(struct count_body *b, int64_t *out, struct count_fault *fault)
{
    const struct increment_fault *why;

    if (b->token == JSON_BAD)
        return fail_detail(b, fault, "bad-json", b->json.why);
    if (b->token != JSON_NUMBER && b->token != JSON_STRING)
        return fail_detail(b, fault, "bad-time",
                           "at must be a number or a string");
    why = increment_time_read(&b->form, (const char *)b->json.text,
                              b->json.size, out);
    return why ? fail_line(b, fault, why) : 0;
}

/* The bit of the member whose name is the token; 0: there is none such. */
static unsigned
find_member(const struct count_body *b)
{
    static const struct {
        const char *name;
        unsigned bit;
    } members[] = {{"keyspace", HAS_KEYSPACE},
                   {"key", HAS_KEY},
                   {"n", HAS_N},
                   {"at", HAS_AT},
                   {"keyspace_hex", HAS_KEYSPACE_HEX},
                   {"key_hex", HAS_KEY_HEX}};

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_is(&b->json, members[i].name))
            return members[i].bit;
    return 0;
}

static int
take_member(struct count_body *b, struct increment *out, unsigned *has,
            struct count_fault *fault)
{
    const unsigned member = find_member(b);
    const bool is_keyspace = (member & (HAS_KEYSPACE | HAS_KEYSPACE_HEX)) != 0;
    const bool is_hex = (member & (HAS_KEYSPACE_HEX | HAS_KEY_HEX)) != 0;

    if (member == 0)
        return fail_with(b, fault, "unknown-member", "unknown member \"",
                         "\"; there are keyspace, key, n and at");
    if ((*has & member) != 0)
        return fail_detail(b, fault, "bad-json", "a member is there twice");
    *has |= member;
    b->token = json_next(&b->json);
    if (member == HAS_N)
        return take_count(b, &out->count, fault);
    if (member == HAS_AT)
        return take_time(b, &out->at, fault);
    if (b->token == JSON_NULL && !is_hex) {
        *has |= is_keyspace ? NULL_KEYSPACE : NULL_KEY;
        return 0;
    }
    return is_keyspace
               ? take_name(b, "keyspace", is_hex, b->form.keyspace_max,
                           &out->keyspace, fault)
               : take_name(b, "key", is_hex, b->form.key_max, &out->key, fault);
}

/* Whether each name is there once, as text or in hexadecimal digits. */
static int
check_names(const struct count_body *b, unsigned has, struct count_fault *fault)
{
    const bool keyspace =
        (has & (HAS_KEYSPACE | NULL_KEYSPACE)) == HAS_KEYSPACE;
    const bool key = (has & (HAS_KEY | NULL_KEY)) == HAS_KEY;
    const bool keyspace_hex = (has & HAS_KEYSPACE_HEX) != 0;
    const bool key_hex = (has & HAS_KEY_HEX) != 0;

    if (!keyspace && !keyspace_hex)
        return fail_detail(b, fault, "bad-member", "keyspace is missing");
    if (!key && !key_hex)
        return fail_detail(b, fault, "bad-member", "key is missing");
    if ((keyspace && keyspace_hex) || (key && key_hex))
        return fail_detail(b, fault, "bad-member",
                           "a name is there as text and in hexadecimal digits");
    return 0;
}

/* From behind an object's first bracket to behind its last.  0, or -1. */
static int
take_object(struct count_body *b, struct increment *out,
            struct count_fault *fault)
{
    enum json_token token;
    unsigned has = 0;

    out->count = 1;
    out->at = b->form.at;
    while ((token = json_next(&b->json)) == JSON_MEMBER)
        if (take_member(b, out, &has, fault) < 0)
            return -1;
    if (token == JSON_BAD)
        return fail_detail(b, fault, "bad-json", b->json.why);
    return check_names(b, has, fault);
}

/* An object that `token` begins; nothing else may be there. */
static int
take_one(struct count_body *b, enum json_token token, struct increment *out,
         struct count_fault *fault)
{
    if (token == JSON_BAD)
        return fail_detail(b, fault, "bad-json", b->json.why);
    if (token != JSON_OBJECT)
        return fail_detail(b, fault, "bad-json", "an object was expected");
    return take_object(b, out, fault);
}

static int
next_of_ndjson(struct count_body *b, struct increment *out,
               struct count_fault *fault)
{
    const uint8_t *line;
    size_t size;

    if (!next_line(b, &line, &size))
        return 0;
    json_read_init(&b->json, line, size);
    if (take_one(b, json_next(&b->json), out, fault) < 0)
        return -1;
    return json_next(&b->json) == JSON_END
               ? 1
               : fail_detail(b, fault, "bad-json", b->json.why);
}

static int
next_of_json(struct count_body *b, struct increment *out,
             struct count_fault *fault)
{
    enum json_token token = json_next(&b->json);

    if (!b->has_begun && token == JSON_ARRAY) {
        b->is_array = true;
        token = json_next(&b->json);
    } else if (b->has_begun && !b->is_array)
        return token == JSON_END
                   ? 0
                   : fail_detail(b, fault, "bad-json", b->json.why);
    b->has_begun = true;
    b->line++;
    if (!b->is_array || token != JSON_ARRAY_END)
        return take_one(b, token, out, fault) < 0 ? -1 : 1;
    return json_next(&b->json) == JSON_END
               ? 0
               : fail_detail(b, fault, "bad-json", b->json.why);
}

int
count_body_next(struct count_body *b, struct increment *out,
                struct count_fault *fault)
{
    switch (b->format) {
    case COUNT_TSV:
        return next_of_tsv(b, out, fault);
    case COUNT_NDJSON:
        return next_of_ndjson(b, out, fault);
    case COUNT_JSON:
        break;
    }
    return next_of_json(b, out, fault);
}
