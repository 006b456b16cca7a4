/* tests/lib/dialogue.c - see dialogue.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/dialogue.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "tests/lib/test.h"

#define ACTORS   4
#define ASKED    32
#define WORD_MAX 600
#define BYTES    1024

/* A request whose answer has not been heard. */
struct asked {
    uint8_t opcode;
    uint32_t opaque, amount;
    char name[64]; /* Dump, Stats: what is asked for; may be empty */
};

struct actor {
    struct live_client client;
    bool open;
    struct asked asked[ASKED];
    size_t first, count;
};

struct play {
    unsigned kind;
    struct actor actors[ACTORS];
    uint32_t serial;
};

static const struct dialogue_row *doing; /* for the messages of a failure */

/* ---- words -------------------------------------------------------------- */

/* The word after `verb`; true when the row says this verb. */
static bool
says_verb(const char *say, const char *verb, const char **rest)
{
    const size_t n = strlen(verb);

    if (strncmp(say, verb, n) != 0 || (say[n] != ' ' && say[n] != '\0'))
        return false;
    *rest = say[n] == ' ' ? say + n + 1 : say + n;
    return true;
}

/* The name at the beginning of `text`; what follows it. */
static const char *
take_name(const char *text, uint8_t *name, size_t *size)
{
    unsigned byte;

    *size = 0;
    if (strncmp(text, "''", 2) == 0)
        return text + (text[2] == ' ' ? 3 : 2);
    for (; *text && *text != ' '; text++) {
        if (*size == WORD_MAX)
            fail_msg("a name above %d bytes", WORD_MAX);
        if (*text == '%') {
            if (sscanf(text + 1, "%2x", &byte) != 1)
                fail_msg("%s is no byte", text);
            name[(*size)++] = (uint8_t)byte;
            text += 2;
        } else {
            name[(*size)++] = (uint8_t)*text;
        }
    }
    return *text == ' ' ? text + 1 : text;
}

static uint32_t
take_number(const char **text)
{
    char *end;
    const unsigned long long v = strtoull(*text, &end, 10);

    if (end == *text || v > UINT32_MAX)
        fail_msg("'%s' is no number", *text);
    *text = *end == '/' ? end + 1 : end;
    return (uint32_t)v;
}

static int
status_of(const char *word)
{
    static const struct {
        const char *word;
        int status;
    } statuses[] = {{"OK", LIVE_CLIENT_OK},
                    {"NOT_FOUND", LIVE_CLIENT_NOT_FOUND},
                    {"INVALID", LIVE_CLIENT_INVALID},
                    {"FULL", LIVE_CLIENT_FULL},
                    {"NOT_HELD", LIVE_CLIENT_NOT_HELD},
                    {"UNKNOWN", LIVE_CLIENT_UNKNOWN}};

    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (strcmp(word, statuses[i].word) == 0)
            return statuses[i].status;
    return -1;
}

/* What a Get answers when a row hears "7" or "3/10". */
static uint32_t
heard_value(const struct play *p, const char *hear)
{
    const uint32_t taken = take_number(&hear);

    if (*hear == '\0' || p->kind == COUNTERS)
        return taken;
    return take_number(&hear) - taken;
}

/* ---- say ---------------------------------------------------------------- */

static struct asked *
note_asked(struct play *p, struct actor *a, uint8_t opcode, uint32_t amount)
{
    struct asked *q = &a->asked[(a->first + a->count) % ASKED];

    if (a->count++ == ASKED)
        fail_msg("more than %d requests wait for their answers", ASKED);
    *q = (struct asked){
        .opcode = opcode, .opaque = ++p->serial, .amount = amount};
    return q;
}

/* A request with a name, and what is taken or given back of it. */
static void
say_named(struct play *p, struct actor *a, uint8_t opcode, const char *text)
{
    uint8_t name[WORD_MAX], bytes[BYTES];
    const struct asked *q;
    uint32_t amount = 0, bound = 0;
    size_t size;

    text = take_name(text, name, &size);
    if (opcode != LIVE_CLIENT_GET)
        amount = take_number(&text);
    if (opcode == LIVE_CLIENT_ACQUIRE)
        bound = take_number(&text);
    q = note_asked(p, a, opcode, amount);
    live_client_send(&a->client, bytes,
                     live_client_put_named(bytes, opcode, q->opaque, name, size,
                                           amount, bound));
}

/* A request without a name; `text` is what the answer is searched for. */
static void
say_plain(struct play *p, struct actor *a, uint8_t opcode, const char *text)
{
    struct asked *q = note_asked(p, a, opcode, 0);
    uint8_t bytes[LIVE_CLIENT_HEADER];

    if ((size_t)snprintf(q->name, sizeof q->name, "%s", text) >= sizeof q->name)
        fail_msg("'%s' is too long", text);
    live_client_send(&a->client, bytes,
                     live_client_put(bytes, opcode, q->opaque, NULL, 0));
}

static void
say_body(struct play *p, struct actor *a, const char *text)
{
    uint8_t body[BYTES], bytes[LIVE_CLIENT_HEADER + BYTES];
    const size_t size = live_client_from_hex(text, body, sizeof body);
    const struct asked *q = note_asked(p, a, body[0], 0);

    live_client_send(
        &a->client, bytes,
        live_client_put(bytes, body[0], q->opaque, body + 1, size - 1));
}

/* Bytes as they are.  The last header in them is what may be heard by a
 * status. */
static void
say_digits(struct play *p, struct actor *a, const char *text)
{
    uint8_t bytes[BYTES];
    const size_t size = live_client_from_hex(text, bytes, sizeof bytes);
    struct asked *q = note_asked(p, a, bytes[1], 0);

    if (size < LIVE_CLIENT_HEADER)
        fail_msg("'%s' is less than a header", text);
    q->opaque = get_be32(bytes + 8);
    live_client_send(&a->client, bytes, size);
}

/* Each opcode of a range, with bodies of 0 to 6 bytes; heard by itself. */
static void
say_opcodes(struct play *p, struct actor *a, const char *range)
{
    unsigned opcode, last;
    uint8_t bytes[64];

    if (sscanf(range, "%2x-%2x", &opcode, &last) != 2)
        fail_msg("'%s' is no range of opcodes", range);
    for (; opcode <= last; opcode++) {
        live_client_send(&a->client, bytes,
                         live_client_put(bytes, (uint8_t)opcode, ++p->serial,
                                         "a body", opcode % 7));
        live_client_expect(&a->client, (uint8_t)opcode, p->serial,
                           LIVE_CLIENT_UNKNOWN, NULL, 0);
    }
}

static void
say_end(struct actor *a, const char *say)
{
    const char *rest;

    a->open = false;
    a->count = 0;
    if (says_verb(say, "RESET", &rest))
        live_client_reset(&a->client);
    else
        live_client_close(&a->client);
}

/* Get or Stats until it is as heard. */
static void
say_until(struct play *p, struct actor *a, const char *say, const char *hear)
{
    const char *name = strchr(say, ' ') + 1;
    const int status = status_of(hear);

    if (strncmp(say, "AWAIT-STAT", 10) == 0)
        live_client_await_stat(&a->client, name, heard_value(p, hear));
    else
        live_client_await(&a->client, name,
                          status > 0 ? -status : (int64_t)heard_value(p, hear));
}

/* True: the row is done, nothing is to be heard. */
static bool
say_it(struct play *p, struct actor *a, const struct dialogue_row *row)
{
    const char *say = row->say, *rest = say;
    bool done = false;

    if (says_verb(say, "GET", &rest))
        say_named(p, a, LIVE_CLIENT_GET, rest);
    else if (says_verb(say, "ACQUIRE", &rest))
        say_named(p, a, LIVE_CLIENT_ACQUIRE, rest);
    else if (says_verb(say, "RELEASE", &rest))
        say_named(p, a, LIVE_CLIENT_RELEASE, rest);
    else if (says_verb(say, "NOOP", &rest))
        say_plain(p, a, LIVE_CLIENT_NOOP, "");
    else if (says_verb(say, "DUMP", &rest))
        say_plain(p, a, LIVE_CLIENT_DUMP, rest);
    else if (says_verb(say, "STATS", &rest))
        say_plain(p, a, LIVE_CLIENT_STATS, rest);
    else if (says_verb(say, "BODY", &rest))
        say_body(p, a, rest);
    else if (says_verb(say, "HALF-CLOSE", &rest))
        live_client_half_close(&a->client);
    else if (says_verb(say, "TEXT", &rest)) {
        live_client_send(&a->client, rest, strlen(rest));
        live_client_send(&a->client, "\r\n", 2);
    } else if (says_verb(say, "OPCODES", &rest)) {
        say_opcodes(p, a, rest);
        done = true;
    } else if (says_verb(say, "CLOSE", &rest) ||
               says_verb(say, "RESET", &rest)) {
        say_end(a, say);
        done = true;
    } else if (strncmp(say, "AWAIT", 5) == 0) {
        say_until(p, a, say, row->hear);
        done = true;
    } else if (!says_verb(say, "JOIN", &rest)) {
        say_digits(p, a, say);
    }
    return done || !row->hear;
}

/* ---- hear --------------------------------------------------------------- */

static void
hear_dump(struct actor *a, const struct asked *q, const char *hear)
{
    const struct live_client_record *record;
    struct live_client_dump dump;
    uint32_t current;

    live_client_read_dump(&a->client, q->opaque, &dump);
    record = live_client_dump_find(&dump, q->name);
    if (q->name[0] == '\0') {
        assert_int_equal(dump.count, take_number(&hear));
    } else if (strcmp(hear, "NONE") == 0) {
        assert_null(record);
    } else {
        assert_non_null(record);
        current = take_number(&hear);
        if (record->current != current || record->maximum != take_number(&hear))
            fail_msg("%s is %u, its peak %u", q->name, record->current,
                     record->maximum);
    }
    live_client_dump_free(&dump);
}

static void
hear_stats(struct actor *a, const struct asked *q, const char *hear)
{
    static char names[LIVE_CLIENT_STATS_MAX * 65];
    struct live_client_stats s;
    size_t n = 0;

    live_client_read_stats(&a->client, q->opaque, &s);
    if (q->name[0] != '\0') {
        if (strcmp(hear, "SOME") == 0)
            assert_true(live_client_stat(&s, q->name) > 0);
        else
            assert_int_equal(live_client_stat(&s, q->name), take_number(&hear));
        return;
    }
    names[0] = '\0';
    for (size_t i = 0; i < s.count; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, i ? " %s" : "%s",
                              s.name[i]);
    assert_string_equal(names, hear);
}

/* The answer to the oldest request that waits for one. */
static void
hear_answer(struct play *p, struct actor *a, const char *hear)
{
    const struct asked *q = &a->asked[a->first];
    const int status = status_of(hear);

    if (a->count == 0)
        fail_msg("nothing was asked");
    a->first = (a->first + 1) % ASKED;
    a->count--;
    if (status > 0)
        live_client_expect(&a->client, q->opcode, q->opaque, (uint8_t)status,
                           NULL, 0);
    else if (status == 0 && q->opcode == LIVE_CLIENT_ACQUIRE)
        live_client_expect_u32(&a->client, q->opcode, q->opaque, q->amount);
    else if (status == 0)
        live_client_expect(&a->client, q->opcode, q->opaque, LIVE_CLIENT_OK,
                           NULL, 0);
    else if (q->opcode == LIVE_CLIENT_DUMP)
        hear_dump(a, q, hear);
    else if (q->opcode == LIVE_CLIENT_STATS)
        hear_stats(a, q, hear);
    else
        live_client_expect_u32(&a->client, q->opcode, q->opaque,
                               heard_value(p, hear));
}

static void
hear_it(struct play *p, struct actor *a, const char *hear)
{
    if (strcmp(hear, "SILENCE") == 0) {
        live_client_expect_nothing(&a->client, 20);
    } else if (strcmp(hear, "END") == 0) {
        live_client_expect_end(&a->client);
        live_client_drop(&a->client);
        a->open = false;
        a->count = 0;
    } else if (strncmp(hear, "91 ", 3) == 0) {
        live_client_expect_digits(&a->client, hear);
        a->count = 0;
    } else {
        hear_answer(p, a, hear);
    }
}

/* ---- all of it ---------------------------------------------------------- */

void
dialogue_tell(void)
{
    if (doing)
        print_error("in the row: %s, says: %s, hears: %s\n", doing->who,
                    doing->say ? doing->say : "",
                    doing->hear ? doing->hear : "");
    doing = NULL;
}

void
dialogue_run(const struct dialogue_case *c,
             void (*open)(void *ctx, struct live_client *t), void *ctx)
{
    struct play p = {.kind = c->kind};
    const struct dialogue_row *row;
    struct actor *a;

    for (row = c->dialogue->rows; row->who; row++) {
        a = &p.actors[row->who[0] - 'a'];
        doing = row;
        if (!a->open)
            open(ctx, &a->client);
        a->open = true;
        if (row->say && say_it(&p, a, row))
            continue;
        hear_it(&p, a, row->hear);
    }
    for (size_t i = 0; i < ACTORS; i++)
        if (p.actors[i].open)
            live_client_close(
                &p.actors[i].client); /* nothing is left unheard */
    doing = NULL;
}

static struct dialogue_case *
cases_of(unsigned kind, struct dialogue_case *at)
{
    const struct dialogue *d = live_talk, *end = d + live_talk_count;

    for (; d < end; d++) {
        if (!(d->kinds & kind))
            continue;
        *at = (struct dialogue_case){.dialogue = d, .kind = kind};
        (void)snprintf(at->name, sizeof at->name, "%s: %s",
                       kind == COUNTERS ? "counter" : "semaphore", d->name);
        at++;
    }
    return at;
}

int
dialogue_main(const struct CMUnitTest *play, int argc, char **argv)
{
    struct dialogue_case *cases =
        test_memory(calloc(2 * live_talk_count, sizeof *cases));
    struct dialogue_case *end;
    struct CMUnitTest test = *play;
    int rc;

    end = cases_of(SEMAPHORES, cases_of(COUNTERS, cases));
    for (struct dialogue_case *c = cases; c < end; c++) {
        test.name = c->name;
        test.initial_state = c;
        test_add(INT_MAX, test);
    }
    rc = test_main(argc, argv);
    free(cases);
    return rc;
}
