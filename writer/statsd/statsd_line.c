/* writer/statsd/statsd_line.c - see statsd_line.h.  Read from the end:
 * statsd_line() walks the groups twice, first to check, then to add. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/statsd/statsd_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/carbon_line.h"
#include "common/wire/increment_line.h"
#include "common/wire/message.h"

#define TAGS_MAX (MESSAGE_NAME_MAX / 2) /* ";=" is the shortest in a key */

struct span {
    const uint8_t *at;
    size_t size;
};

struct statsd_group {
    struct span values; /* with the colons between them */
    struct span tags;   /* without "#"; size 0: none */
    struct decimal rate;
    int kind; /* enum statsd_kind */
    bool is_total;
};

struct parser {
    const struct config *config;
    const struct statsd_sink *sink;
    bool adding; /* else the line is checked */
    struct span name;
    const char *why;
    int kinds;
    uint8_t *key; /* of the group, with tags: MESSAGE_NAME_MAX bytes */
    size_t key_size;
    int64_t at; /* of the line; 0: it has no time */
};

static int
refuse_line(struct parser *p, const char *why)
{
    p->why = why;
    return -EBADMSG;
}

/* Takes the bytes before the first `stop` or `other`, or all. */
static struct span
take_until(struct span *rest, uint8_t stop, uint8_t other)
{
    struct span taken = {rest->at, 0};

    while (taken.size < rest->size && rest->at[taken.size] != stop &&
           rest->at[taken.size] != other)
        taken.size++;
    rest->at += taken.size;
    rest->size -= taken.size;
    return taken;
}

/* Skips the byte that take_until() stopped at.  False: there was none. */
static bool
skip_stop(struct span *rest)
{
    if (rest->size == 0)
        return false;
    rest->at++;
    rest->size--;
    return true;
}

static bool
is_text(struct span s, const char *text)
{
    return bytes_equal(s.at, s.size, text, strlen(text));
}

static bool
begins_with(struct span s, const char *text)
{
    return bytes_begin(s.at, s.size, text, strlen(text));
}

/* ---- tags --------------------------------------------------------------- */

struct tag {
    uint8_t text[MESSAGE_NAME_MAX];
    size_t size;
};

static int
compare_tags(const void *a, const void *b)
{
    const struct tag *x = a, *y = b;

    return bytes_compare(x->text, x->size, y->text, y->size);
}

/* "k:v" becomes "k=v", "k" becomes "k="; a semicolon, which separates tags in
 * the key, becomes "_". */
static int
format_tag(struct span from, struct tag *tag)
{
    const uint8_t *colon = memchr(from.at, ':', from.size);

    tag->size = from.size + (colon ? 0 : 1);
    if (tag->size > sizeof tag->text || memchr(from.at, '\0', from.size))
        return -EBADMSG;
    for (size_t i = 0; i < from.size; i++)
        tag->text[i] = from.at[i] == ';' ? (uint8_t)'_' : from.at[i];
    tag->text[colon ? (size_t)(colon - from.at) : from.size] = '=';
    return 0;
}

static int
collect_tags(struct span from, struct tag *tags, size_t *count)
{
    bool more = true;

    for (*count = 0; more;) {
        const struct span one = take_until(&from, ',', ',');

        more = skip_stop(&from);
        if (one.size == 0)
            continue;
        if (*count == TAGS_MAX || format_tag(one, &tags[*count]) < 0)
            return -EBADMSG;
        ++*count;
    }
    return 0;
}

/* The key of a group: the name and, if asked for, its tags. */
static int
format_key(struct parser *p, const struct statsd_group *g)
{
    const bool has_tags = p->config->statsd_tags && g->tags.size > 0;
    struct tag tags[TAGS_MAX];
    size_t count;

    if (!has_tags && p->key_size == p->name.size)
        return 0; /* as of the group before */
    memcpy(p->key, p->name.at, p->name.size);
    p->key_size = p->name.size;
    if (!has_tags)
        return 0;
    if (collect_tags(g->tags, tags, &count) < 0)
        return refuse_line(p, "tags do not fit into a key");
    qsort(tags, count, sizeof tags[0], compare_tags);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && compare_tags(&tags[i - 1], &tags[i]) == 0)
            continue;
        if (p->key_size + 1 + tags[i].size > p->config->key_size)
            return refuse_line(
                p, "a name with its tags is longer than message.key_size");
        p->key[p->key_size++] = ';';
        memcpy(p->key + p->key_size, tags[i].text, tags[i].size);
        p->key_size += tags[i].size;
    }
    return 0;
}

/* ---- groups ------------------------------------------------------------- */

static int
parse_type(struct span type)
{
    if (is_text(type, "c") || is_text(type, "m"))
        return STATSD_COUNTER;
    if (is_text(type, "ms") || is_text(type, "h") || is_text(type, "d"))
        return STATSD_TIMER;
    if (is_text(type, "g"))
        return STATSD_GAUGE;
    return is_text(type, "s") ? STATSD_SET : 0;
}

static int
parse_rate(struct parser *p, struct span text, struct decimal *rate)
{
    if (decimal_parse(text.at, text.size, rate) < 0)
        return refuse_line(p, "a rate is not a number");
    if (!decimal_is_share(rate))
        return refuse_line(p, "a rate is not above 0 and at most 1");
    return 0;
}

static void
take_time(struct parser *p, struct span field)
{
    int64_t at;

    if (field.size > 1 && field.at[1] >= '0' && field.at[1] <= '9' &&
        increment_number_parse((const char *)field.at + 1, field.size - 1,
                               &at) == 0)
        p->at = at;
}

static int
parse_field(struct parser *p, struct span *rest, struct statsd_group *g,
            bool *has_rate)
{
    struct span field;

    if (rest->size > 0 && rest->at[0] == '@') {
        (void)skip_stop(rest);
        if (*has_rate)
            return refuse_line(p, "a second rate");
        *has_rate = true;
        return parse_rate(p, take_until(rest, '|', ':'), &g->rate);
    }
    field = take_until(rest, '|', '|');
    if (begins_with(field, "#")) {
        g->tags = (struct span){field.at + 1, field.size - 1};
        return 0;
    }
    if (begins_with(field, "T")) {
        take_time(p, field);
        return 0;
    }
    if (begins_with(field, "c:") || begins_with(field, "e:") ||
        begins_with(field, "card:"))
        return 0;
    return refuse_line(p,
                       "a field that is not @rate, #tags, c:, T, e: or card:");
}

/* Reads a group up to its end: the end of the line, or the colon before the
 * next group. */
static int
parse_group(struct parser *p, struct span *rest, struct statsd_group *g)
{
    bool has_rate = false;
    int rc = 0;

    *g = (struct statsd_group){.rate = {.digits = 1}};
    g->values = take_until(rest, '|', '|');
    if (!skip_stop(rest))
        return refuse_line(p, "no | and type after the value");
    g->kind = parse_type(take_until(rest, '|', ':'));
    if (g->kind == 0)
        return refuse_line(p, "a type that is not c, m, ms, h, d, g or s");
    g->is_total =
        g->kind == STATSD_GAUGE &&
        carbon_is_match(p->config->statsd_total, p->name.at, p->name.size);
    while (rc == 0 && rest->size > 0 && rest->at[0] == '|') {
        (void)skip_stop(rest);
        rc = parse_field(p, rest, g, &has_rate);
    }
    return rc;
}

/* ---- values ------------------------------------------------------------- */

static void
add_increment(struct parser *p, enum statsd_part part, int128 millionths)
{
    if (p->adding)
        p->sink->add(p->sink->ctx,
                     &(struct statsd_sum){part, p->key, p->key_size, p->at},
                     millionths);
}

static const struct decimal one = {.digits = 1};

/* A sign belongs to a change of a gauge, which is not a total. */
static int
take_total(struct parser *p, struct span text, const struct decimal *value)
{
    int128 sum;

    if (text.at[0] == '+' || text.at[0] == '-')
        return refuse_line(p, "a total of statsd.total has a sign");
    if (decimal_millionths(value, &one, &sum) < 0)
        return refuse_line(p, "a value does not fit into 64 bits");
    add_increment(p, STATSD_PART_TOTAL, sum);
    return 0;
}

static int
take_value(struct parser *p, const struct statsd_group *g, struct span text)
{
    struct decimal value;
    int128 sum, count;

    if (text.size == 0)
        return refuse_line(p, "an empty value");
    if (g->kind == STATSD_SET)
        return 0;
    if (decimal_parse(text.at, text.size, &value) < 0)
        return refuse_line(p, "a value is not a number");
    if (g->is_total)
        return take_total(p, text, &value);
    if (g->kind == STATSD_GAUGE)
        return 0;
    if (g->kind == STATSD_TIMER && value.negative)
        return refuse_line(p, "a timer is below 0");
    if (decimal_millionths(&value, &g->rate, &sum) < 0)
        return refuse_line(p, "a value does not fit into 64 bits");
    if (g->kind == STATSD_COUNTER) {
        add_increment(p, STATSD_PART_COUNTER, sum);
        return 0;
    }
    if (decimal_millionths(&one, &g->rate, &count) < 0)
        return refuse_line(p, "a rate is too small");
    if (p->config->statsd_timers) {
        add_increment(p, STATSD_PART_TIMER_COUNT, count);
        add_increment(p, STATSD_PART_TIMER_SUM, sum);
    }
    return 0;
}

static int
take_group(struct parser *p, const struct statsd_group *g)
{
    struct span rest = g->values;
    bool more = true;
    int rc = format_key(p, g);

    p->kinds |= g->is_total ? STATSD_COUNTER : g->kind;
    while (rc == 0 && more) {
        const struct span value = take_until(&rest, ':', ':');

        more = skip_stop(&rest);
        rc = take_value(p, g, value);
    }
    return rc;
}

static int
take_groups(struct parser *p, struct span rest)
{
    struct statsd_group g;
    int rc;

    do {
        rc = parse_group(p, &rest, &g);
        if (rc == 0)
            rc = take_group(p, &g);
    } while (rc == 0 && skip_stop(&rest));
    return rc;
}

/* ---- lines --------------------------------------------------------------- */

/* NULL, or why a line of `size` bytes has no name that can be counted. */
static const char *
check_name(const struct config *config, size_t size, struct span name,
           bool has_colon)
{
    if (size > STATSD_LINE_MAX)
        return "a line above 8192 bytes";
    if (!has_colon)
        return "no colon after the name";
    if (name.size == 0)
        return "an empty name";
    if (name.size > config->key_size)
        return "a name is longer than message.key_size";
    if (memchr(name.at, '\0', name.size))
        return "a name with a NUL byte";
    return NULL;
}

/* All groups are checked, then all are added. */
int
statsd_line(const struct config *config, const uint8_t *line, size_t size,
            const struct statsd_sink *sink, const char **why)
{
    const uint8_t *colon = memchr(line, ':', size);
    const struct span all = {line, size};
    uint8_t key[MESSAGE_NAME_MAX];
    struct parser p = {.config = config, .sink = sink, .key = key};
    struct span rest;
    int rc;

    if (size <= STATSD_LINE_MAX && begins_with(all, "_e{"))
        return STATSD_EVENT;
    if (size <= STATSD_LINE_MAX && begins_with(all, "_sc|"))
        return STATSD_CHECK;
    p.name = (struct span){line, colon ? (size_t)(colon - line) : size};
    *why = check_name(config, size, p.name, colon != NULL);
    if (*why)
        return -EBADMSG;
    rest = (struct span){colon + 1, size - p.name.size - 1};
    rc = take_groups(&p, rest);
    p.adding = true;
    if (rc == 0)
        rc = take_groups(&p, rest); /* as before: it cannot fail now */
    *why = p.why;
    return rc < 0 ? rc : p.kinds;
}
