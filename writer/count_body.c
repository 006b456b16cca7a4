/* writer/count_body.c - see count_body.h.
 *
 * count_body_next() is the entry: next_of_tsv(), next_of_json() and
 * next_of_ndjson() read one increment each. */
#include "writer/count_body.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MEMBER_SHOWN 40 /* bytes of a member's name, or a number, shown */

enum { HAS_KEYSPACE = 1, HAS_KEY = 2, HAS_N = 4 };

void
count_body_init(struct count_body *b, enum count_format format,
                const uint8_t *bytes, size_t size, size_t keyspace_max,
                size_t key_max)
{
    *b = (struct count_body){.format = format,
                             .form = {.keyspace_max = keyspace_max,
                                      .key_max = key_max,
                                      .control = format != COUNT_TSV},
                             .at = bytes,
                             .end = bytes + size};
    if (format == COUNT_JSON)
        json_read_init(&b->json, bytes, size);
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
    const size_t size =
        b->json.size < MEMBER_SHOWN ? b->json.size : MEMBER_SHOWN;
    char shown[4 * MEMBER_SHOWN + 1], detail[COUNT_DETAIL_SIZE];

    (void)name_escape(b->json.text, size, shown);
    (void)snprintf(detail, sizeof detail, "%s%s%s", text, shown, behind);
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

/* A name: JSON's escapes first, then those of the text form.  A control
 * character that came through the first is one of the name. */
static int
take_name(struct count_body *b, const char *member, size_t max,
          struct increment_name *out, struct count_fault *fault)
{
    const struct increment_fault *why;
    uint8_t text[NAME_TEXT_SIZE];
    const enum json_token token = json_next(&b->json);
    char detail[COUNT_DETAIL_SIZE];
    int size;

    (void)snprintf(detail, sizeof detail, "%s must be a string", member);
    if (token == JSON_BAD)
        return fail_detail(b, fault, "bad-json", b->json.why);
    if (token != JSON_STRING)
        return fail_detail(b, fault, "bad-member", detail);
    size = json_unescape(b->json.text, b->json.size, text, sizeof text);
    if (size < 0)
        return fail_detail(b, fault, "bad-name",
                           "a name of more than 256 bytes");
    why = increment_name_read(&b->form, (const char *)text, (size_t)size, max,
                              out);
    return why ? fail_line(b, fault, why) : 0;
}

/* A number without fraction or exponent, or a string of one. */
static int
take_count(struct count_body *b, int64_t *out, struct count_fault *fault)
{
    const enum json_token token = json_next(&b->json);
    const char *text = (const char *)b->json.text;
    const size_t size = b->json.size;

    if (token == JSON_BAD)
        return fail_detail(b, fault, "bad-json", b->json.why);
    if (token != JSON_NUMBER && token != JSON_STRING)
        return fail_detail(b, fault, "bad-number", "n must be a whole number");
    switch (increment_number_parse(text, size, out)) {
    case 0:
        return 0;
    case -ERANGE:
        return fail_with(b, fault, "bad-number",
                         "n: no whole number of 64 bits: ", "");
    default:
        return fail_detail(b, fault, "bad-number", "n must be a whole number");
    }
}

static int
take_member(struct count_body *b, struct increment *out, unsigned *has,
            struct count_fault *fault)
{
    const unsigned member = json_is(&b->json, "keyspace") ? HAS_KEYSPACE
                            : json_is(&b->json, "key")    ? HAS_KEY
                            : json_is(&b->json, "n")      ? HAS_N
                                                          : 0;

    if (member == 0)
        return fail_with(b, fault, "unknown-member", "unknown member \"",
                         "\"; there are keyspace, key and n");
    if ((*has & member) != 0)
        return fail_detail(b, fault, "bad-json", "a member is there twice");
    *has |= member;
    if (member == HAS_KEYSPACE)
        return take_name(b, "keyspace", b->form.keyspace_max, &out->keyspace,
                         fault);
    if (member == HAS_KEY)
        return take_name(b, "key", b->form.key_max, &out->key, fault);
    return take_count(b, &out->count, fault);
}

/* From behind an object's first bracket to behind its last.  0, or -1. */
static int
take_object(struct count_body *b, struct increment *out,
            struct count_fault *fault)
{
    enum json_token token;
    unsigned has = 0;

    out->count = 1;
    while ((token = json_next(&b->json)) == JSON_MEMBER)
        if (take_member(b, out, &has, fault) < 0)
            return -1;
    if (token == JSON_BAD)
        return fail_detail(b, fault, "bad-json", b->json.why);
    if ((has & HAS_KEYSPACE) == 0)
        return fail_detail(b, fault, "bad-member", "keyspace is missing");
    if ((has & HAS_KEY) == 0)
        return fail_detail(b, fault, "bad-member", "key is missing");
    return 0;
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
