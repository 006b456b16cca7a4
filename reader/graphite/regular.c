/* reader/graphite/regular.c - compiles regular expressions; see regular.h.
 *
 * An expression is compiled to steps with jumps that are relative, so that a
 * block of them can be moved and copied.
 *
 * Entry point: regular_compile(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/regular_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

struct compiler {
    struct regular *regular;
    const char *at, *end;
    const char *why; /* what is wrong; NULL: nothing so far */
    struct regular_step copy[REGULAR_STEPS_MAX];
};

static bool
fail_compile(struct compiler *c, const char *why)
{
    if (!c->why)
        c->why = why;
    return false;
}

static bool
take_byte(struct compiler *c, char byte)
{
    if (c->at == c->end || *c->at != byte)
        return false;
    c->at++;
    return true;
}

static bool
take_text(struct compiler *c, const char *text)
{
    const size_t size = strlen(text);

    if ((size_t)(c->end - c->at) < size || memcmp(c->at, text, size) != 0)
        return false;
    c->at += size;
    return true;
}

/* Puts `count` steps at `at`, and moves what is behind. */
static bool
insert_steps(struct compiler *c, unsigned at, const struct regular_step *steps,
             unsigned count)
{
    struct regular *r = c->regular;

    if (count > REGULAR_STEPS_MAX - r->step_count)
        return fail_compile(c, "it is too long");
    memmove(r->steps + at + count, r->steps + at,
            (r->step_count - at) * sizeof *steps);
    memcpy(r->steps + at, steps, count * sizeof *steps);
    r->step_count += count;
    return true;
}

static bool
add_step(struct compiler *c, enum step_kind kind, int x, int y,
         uint32_t character)
{
    const struct regular_step s = {(uint8_t)kind, (int16_t)x, (int16_t)y,
                                   character};

    return insert_steps(c, c->regular->step_count, &s, 1);
}

/* Puts a split at `at`, which prefers x; a lazy one y. */
static bool
insert_split(struct compiler *c, unsigned at, int x, int y, bool is_lazy)
{
    const struct regular_step s = {STEP_SPLIT, (int16_t)(is_lazy ? y : x),
                                   (int16_t)(is_lazy ? x : y), 0};

    return insert_steps(c, at, &s, 1);
}

static bool
add_range(struct compiler *c, struct regular_class *class, uint32_t low,
          uint32_t high)
{
    if (class->count == CLASS_RANGES)
        return fail_compile(c, "a class is too long");
    class->ranges[class->count].low = low;
    class->ranges[class->count++].high = high;
    return low <= high || fail_compile(c, "a range in a class ends before it "
                                          "begins");
}

/* Adds what a letter behind a backslash stands for.  False: it is none of
 * those, or there is no room. */
static bool
add_shorthand(struct compiler *c, struct regular_class *class, char letter)
{
    switch (letter) {
    case 'd':
        return add_range(c, class, '0', '9');
    case 'D':
        return add_range(c, class, 0, '0' - 1) &&
               add_range(c, class, '9' + 1, CHARACTER_MAX);
    case 'w':
        return add_range(c, class, 'a', 'z') && add_range(c, class, 'A', 'Z') &&
               add_range(c, class, '0', '9') && add_range(c, class, '_', '_') &&
               add_range(c, class, 0x80, CHARACTER_MAX);
    case 'W':
        return add_range(c, class, 0, '0' - 1) &&
               add_range(c, class, '9' + 1, 'A' - 1) &&
               add_range(c, class, 'Z' + 1, '_' - 1) &&
               add_range(c, class, '_' + 1, 'a' - 1) &&
               add_range(c, class, 'z' + 1, 0x7f);
    case 's':
        return add_range(c, class, '\t', '\r') && add_range(c, class, ' ', ' ');
    case 'S':
        return add_range(c, class, 0, '\t' - 1) &&
               add_range(c, class, '\r' + 1, ' ' - 1) &&
               add_range(c, class, ' ' + 1, CHARACTER_MAX);
    default:
        return false;
    }
}

static struct regular_class *
add_class(struct compiler *c)
{
    struct regular *r = c->regular;

    if (r->class_count == CLASSES_MAX) {
        (void)fail_compile(c, "it has too many classes");
        return NULL;
    }
    if (!add_step(c, STEP_CLASS, 0, 0, r->class_count))
        return NULL;
    return &r->classes[r->class_count++];
}

/* Reads a character that is itself, or behind a backslash. */
static bool
read_literal(struct compiler *c, uint32_t *out)
{
    const bool is_escaped = take_byte(c, '\\');

    if (c->at == c->end)
        return fail_compile(c, is_escaped ? "a backslash at the end"
                                          : "a class that does not end");
    c->at += regular_read(c->at, c->end, out);
    if (!is_escaped)
        return true;
    if (*out == 't' || *out == 'n' || *out == 'r')
        *out = *out == 't' ? '\t' : *out == 'n' ? '\n' : '\r';
    else if (*out < 0x80 && regular_is_word(*out) && *out != '_')
        return fail_compile(c, "an unknown escape");
    return true;
}

/* Reads a class behind its [. */
static bool
parse_class(struct compiler *c)
{
    struct regular_class *class = add_class(c);
    bool is_first = true;

    if (!class)
        return false;
    class->is_negated = take_byte(c, '^');
    for (; is_first || !take_byte(c, ']'); is_first = false) {
        uint32_t low, high;

        if (c->end - c->at >= 2 && *c->at == '\\' &&
            add_shorthand(c, class, c->at[1])) {
            c->at += 2;
            continue;
        }
        if (c->why || !read_literal(c, &low))
            return false;
        high = low;
        if (c->end - c->at >= 2 && *c->at == '-' && c->at[1] != ']') {
            c->at++;
            if (!read_literal(c, &high))
                return false;
        }
        if (!add_range(c, class, low, high))
            return false;
    }
    return true;
}

static bool parse_alternatives(struct compiler *c, unsigned depth);

/* Reads a group behind its parenthesis. */
static bool
parse_group(struct compiler *c, unsigned depth)
{
    const bool is_plain = take_text(c, "?:");
    const unsigned group = c->regular->group_count;

    if (c->at < c->end && *c->at == '?')
        return fail_compile(c, "of groups with ?, only (?:...) is there");
    if (!is_plain && c->regular->group_count++ == REGULAR_GROUPS)
        return fail_compile(c, "more than 9 groups");
    if (!is_plain && !add_step(c, STEP_SAVE, 2 * (int)group, 0, 0))
        return false;
    if (!parse_alternatives(c, depth + 1))
        return false;
    if (!take_byte(c, ')'))
        return fail_compile(c, "a parenthesis that does not end");
    return is_plain || add_step(c, STEP_SAVE, 2 * (int)group + 1, 0, 0);
}

/* Reads what a quantifier may be behind. */
static bool
parse_atom(struct compiler *c, unsigned depth)
{
    uint32_t character;

    if (take_byte(c, '('))
        return parse_group(c, depth);
    if (take_byte(c, '['))
        return parse_class(c);
    if (take_byte(c, '.'))
        return add_step(c, STEP_ANY, 0, 0, 0);
    if (take_byte(c, '^'))
        return add_step(c, STEP_BEGIN, 0, 0, 0);
    if (take_byte(c, '$'))
        return add_step(c, STEP_END, 0, 0, 0);
    if (take_text(c, "\\b"))
        return add_step(c, STEP_EDGE, 0, 0, 0);
    if (strchr("*+?", *c->at))
        return fail_compile(c, "nothing before a quantifier");
    if (c->end - c->at >= 2 && *c->at == '\\' && strchr("dDwWsS", c->at[1])) {
        struct regular_class *class = add_class(c);

        c->at += 2;
        return class && add_shorthand(c, class, c->at[-1]);
    }
    return read_literal(c, &character) &&
           add_step(c, STEP_CHARACTER, 0, 0,
                    c->regular->ignores_case ? regular_lower(character)
                                             : character);
}

static bool
take_number(struct compiler *c, unsigned *out)
{
    const char *const begin = c->at;

    for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (*out <= REGULAR_REPEAT_MAX)
            *out = 10 * *out + (unsigned)(*c->at - '0');
    return c->at > begin;
}

#define ANY_NUMBER UINT_MAX /* of repetitions */

/* Takes {LEAST,MOST} or {LEAST}.  False: it is none, and itself. */
static bool
take_braces(struct compiler *c, unsigned *least, unsigned *most)
{
    const char *const begin = c->at;
    bool has_least, has_comma;

    if (!take_byte(c, '{'))
        return false;
    has_least = take_number(c, least);
    has_comma = take_byte(c, ',');
    *most = *least;
    if (has_comma && !take_number(c, most))
        *most = ANY_NUMBER;
    if ((has_least || has_comma) && take_byte(c, '}'))
        return true;
    c->at = begin;
    return false;
}

/* Takes a quantifier.  False: there is none, or it is wrong. */
static bool
take_quantifier(struct compiler *c, unsigned *least, unsigned *most)
{
    *least = 0;
    *most = ANY_NUMBER;
    if (take_byte(c, '*'))
        return true;
    if (take_byte(c, '+')) {
        *least = 1;
        return true;
    }
    if (take_byte(c, '?')) {
        *most = 1;
        return true;
    }
    if (!take_braces(c, least, most))
        return false;
    return (*least <= REGULAR_REPEAT_MAX && *most > 0 && *most >= *least &&
            (*most == ANY_NUMBER || *most <= REGULAR_REPEAT_MAX)) ||
           fail_compile(c, "a wrong number of repetitions");
}

/* Repeats the steps from `start` on. */
static bool
repeat_steps(struct compiler *c, unsigned start, unsigned least, unsigned most,
             bool is_lazy)
{
    struct regular *r = c->regular;
    const unsigned size = r->step_count - start;
    const int length = (int)size;

    memcpy(c->copy, r->steps + start, size * sizeof c->copy[0]);
    for (unsigned i = 1; i < least; i++)
        if (!insert_steps(c, r->step_count, c->copy, size))
            return false;
    if (most == ANY_NUMBER && least > 0) /* the last one again and again */
        return add_step(c, STEP_SPLIT, is_lazy ? 1 : -length,
                        is_lazy ? -length : 1, 0);
    if (most == ANY_NUMBER)
        return insert_split(c, start, 1, length + 2, is_lazy) &&
               add_step(c, STEP_JUMP, -(length + 1), 0, 0);
    for (unsigned i = least; i < most; i++) {
        const unsigned at = i == 0 ? start : r->step_count;

        if ((i > 0 && !insert_steps(c, at, c->copy, size)) ||
            !insert_split(c, at, 1, length + 1, is_lazy))
            return false;
    }
    return true;
}

/* Reads up to | or a closing parenthesis. */
static bool
parse_sequence(struct compiler *c, unsigned depth)
{
    while (c->at < c->end && *c->at != '|' && *c->at != ')') {
        const unsigned start = c->regular->step_count;
        unsigned least, most;

        if (!parse_atom(c, depth))
            return false;
        if (take_quantifier(c, &least, &most) &&
            !repeat_steps(c, start, least, most, take_byte(c, '?')))
            return false;
        if (c->why)
            return false;
    }
    return true;
}

static bool
parse_alternatives(struct compiler *c, unsigned depth)
{
    struct regular *r = c->regular;
    unsigned start = r->step_count, jumps[REGULAR_DEPTH_MAX], count = 0;

    if (depth > REGULAR_DEPTH_MAX)
        return fail_compile(c, "parentheses too deep in each other");
    if (!parse_sequence(c, depth))
        return false;
    while (take_byte(c, '|')) {
        if (count == REGULAR_DEPTH_MAX)
            return fail_compile(c, "more than 32 alternatives");
        if (!insert_split(c, start, 1, (int)(r->step_count - start) + 2,
                          false) ||
            !add_step(c, STEP_JUMP, 0, 0, 0))
            return false;
        jumps[count++] = r->step_count - 1;
        start = r->step_count;
        if (!parse_sequence(c, depth))
            return false;
    }
    for (unsigned i = 0; i < count; i++)
        r->steps[jumps[i]].x = (int16_t)(r->step_count - jumps[i]);
    return true;
}

int
regular_compile(struct scratch *scratch, struct target_text text,
                struct regular **out, const char **why)
{
    struct regular *r = scratch_take(scratch, sizeof *r);
    struct compiler *c = scratch_take(scratch, sizeof *c);

    if (!r || !c)
        return -ENOMEM;
    *c = (struct compiler){
        .regular = r, .at = text.at, .end = text.at + text.size};
    r->ignores_case = take_text(c, "(?i)");
    r->group_count = 1;
    (void)(add_step(c, STEP_SAVE, 0, 0, 0) && parse_alternatives(c, 1) &&
           add_step(c, STEP_SAVE, 1, 0, 0) &&
           add_step(c, STEP_MATCH, 0, 0, 0)); /* c->why says what failed */
    if (c->at < c->end)
        (void)fail_compile(c, "a closing parenthesis without an opening one");
    *why = c->why;
    *out = r;
    return c->why ? -EINVAL : 0;
}

unsigned
regular_groups(const struct regular *r)
{
    return r->group_count;
}
