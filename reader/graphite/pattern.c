/* reader/graphite/pattern.c - see pattern.h.
 *
 * A node is matched by the set of places in the name where the part of the
 * pattern that was read can end: each element of the pattern makes the next set
 * from the last, so nothing is tried twice.
 *
 * Entry points: pattern_parse(), pattern_matches(), pattern_escape(),
 * pattern_unescape(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hex.h"
#include "common/wire/name.h"
#include "common/wire/utf8.h"

/* Places in a name, from before its first byte to after its last. */
struct places {
    bool at[STORE_NAME_MAX + 1];
};

/* ---- bytes of paths ----------------------------------------------------- */

/* Reads the byte that a text without wildcards begins with; returns how many
 * bytes of the text it takes.  0: a malformed %HH. */
static size_t
read_byte(const char *text, size_t size, uint8_t *out)
{
    *out = (uint8_t)text[0];
    if (text[0] != '%')
        return 1;
    return size >= 3 && hex_get_any(text + 1, out, 1) && *out != 0 ? 3 : 0;
}

/* Whether an ASCII character of a name is itself in its path: a target takes it
 * as part of a word, and it has no meaning in a pattern. */
static bool
is_plain(uint8_t c)
{
    return c < 0x80 && target_is_word_byte((char)c) && !strchr("*?[]{}%.", c);
}

/* Bytes of a character of a name, which `?` matches as one. */
static size_t
character_size(const uint8_t *at, const uint8_t *end)
{
    const size_t size = *at < 0x80 ? 1 : utf8_size(at, end);

    return size > 0 ? size : 1;
}

size_t
pattern_node_size(const uint8_t *name, size_t size)
{
    size_t i = 1;

    while (i < size && (name[i] != '.' || i + 1 == size))
        i++;
    return i;
}

size_t
pattern_escape(const uint8_t *name, size_t size, char *out)
{
    static const char digits[] = "0123456789ABCDEF";
    const uint8_t *const end = name + size;
    size_t node = pattern_node_size(name, size), n = 0;

    while (name < end) {
        const size_t more = *name >= 0x80 ? utf8_size(name, end) : 0;

        if (node == 0) { /* the dot between two nodes */
            out[n++] = (char)*name++;
            node = pattern_node_size(name, (size_t)(end - name));
            continue;
        }
        if (more > 0) {
            memcpy(out + n, name, more);
            n += more;
        } else if (is_plain(*name)) {
            out[n++] = (char)*name;
        } else {
            out[n++] = '%';
            out[n++] = digits[*name >> 4];
            out[n++] = digits[*name & 15];
        }
        name += more > 0 ? more : 1;
        node -= more > 0 ? more : 1;
    }
    return n;
}

size_t
pattern_path(const uint8_t *keyspace, size_t keyspace_size, const uint8_t *key,
             size_t key_size, char *out)
{
    size_t size = pattern_escape(keyspace, keyspace_size, out);
    const size_t word = target_name_size(out, out + size);

    if (word > 0 && word < size && out[word] == '=') {
        memmove(out + word + 3, out + word + 1, size - word - 1);
        out[word] = '%';
        out[word + 1] = '3';
        out[word + 2] = 'D';
        size += 2;
    }
    if (key_size > 0) {
        out[size++] = '.';
        size += pattern_escape(key, key_size, out + size);
    }
    return size;
}

int
pattern_unescape(const char *text, size_t size, uint8_t *out, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < size;) {
        uint8_t c;
        const size_t used = read_byte(text + i, size - i, &c);

        if (used == 0 || c == 0)
            return -EINVAL;
        if (n == max)
            return -ENAMETOOLONG;
        out[n++] = c;
        i += used;
    }
    return (int)n;
}

struct target_text
pattern_show(struct scratch *scratch, struct target_text path)
{
    char *text;
    size_t n = 0;

    if (!memchr(path.at, '%', path.size))
        return path;
    text = scratch_take(scratch, path.size);
    for (size_t i = 0; text && i < path.size;) {
        uint8_t c;
        size_t used = read_byte(path.at + i, path.size - i, &c);

        if (used == 3 && (c < ' ' || c >= 0x7f))
            used = 0;
        text[n++] = used == 3 ? (char)c : path.at[i];
        i += used == 3 ? 3 : 1;
    }
    return (struct target_text){text, n};
}

/* ---- matching ----------------------------------------------------------- */

static bool
is_in_class(const struct pattern_class *class, const uint8_t *character,
            size_t size)
{
    bool is_in = false;
    uint32_t c = 0;

    for (size_t i = 0; i < size; i++)
        c = c << 8 | character[i];
    for (size_t i = 0; i < class->count && !is_in; i++)
        is_in = c >= class->ranges[i].low && c <= class->ranges[i].high;
    return is_in != class->is_negated;
}

/* Moves over one character of the name that is in the class; NULL: over any. */
static void
match_character(const uint8_t *name, size_t size,
                const struct pattern_class *class, struct places *places)
{
    struct places next = {{false}};

    for (size_t i = 0; i < size; i++) {
        const size_t n = character_size(name + i, name + size);

        if (places->at[i] && (!class || is_in_class(class, name + i, n)))
            next.at[i + n] = true;
    }
    *places = next;
}

static void
match_byte(const uint8_t *name, size_t size, uint8_t c, struct places *places)
{
    for (size_t i = size; i > 0; i--)
        places->at[i] = places->at[i - 1] && name[i - 1] == c;
    places->at[0] = false;
}

static void
add_places(struct places *to, const struct places *from, size_t size)
{
    for (size_t i = 0; i <= size; i++)
        to->at[i] |= from->at[i];
}

bool
pattern_matches(const struct pattern_node *node, const uint8_t *name,
                size_t size)
{
    const struct pattern_element *const end = node->elements + node->count;
    struct places places = {{false}}, before = places, all = places;

    if (size > STORE_NAME_MAX ||
        !bytes_begin(name, size, node->prefix, node->prefix_size))
        return false;
    places.at[node->prefix_size] = true;
    for (const struct pattern_element *e = node->elements + node->prefix_size;
         e < end; e++)
        switch (e->kind) {
        case PATTERN_BYTE:
            match_byte(name, size, e->byte, &places);
            break;
        case PATTERN_ANY:
            for (size_t i = 1; i <= size; i++)
                places.at[i] |= places.at[i - 1];
            break;
        case PATTERN_CHARACTER:
            match_character(name, size, e->class, &places);
            break;
        case PATTERN_OPEN:
            before = places;
            all = (struct places){{false}};
            break;
        case PATTERN_OR:
            add_places(&all, &places, size);
            places = before;
            break;
        case PATTERN_CLOSE:
            add_places(&all, &places, size);
            places = all;
            break;
        }
    return places.at[size];
}

/* ---- parsing ------------------------------------------------------------ */

struct parser {
    struct scratch *scratch;
    const char *at, *end; /* of a node */
    const char *wrong;    /* with -EINVAL */
    bool in_braces;
};

static int
refuse_node(struct parser *p, const char *what)
{
    p->wrong = what;
    return -EINVAL;
}

static int
parse_byte(struct parser *p, uint8_t *out)
{
    const size_t size = read_byte(p->at, (size_t)(p->end - p->at), out);

    p->at += size;
    return size > 0 ? 0 : refuse_node(p, "% without two hexadecimal digits");
}

/* Reads a character of a class, which may be %HH. */
static int
parse_class_character(struct parser *p, uint32_t *out)
{
    size_t size =
        character_size((const uint8_t *)p->at, (const uint8_t *)p->end);
    uint8_t c = 0;
    int rc;

    if (size == 1) {
        rc = parse_byte(p, &c);
        *out = c;
        return rc;
    }
    for (*out = 0; size > 0; size--)
        *out = *out << 8 | (uint8_t)*p->at++;
    return 0;
}

/* Parses a class, from after its [ on. */
static int
parse_class(struct parser *p, struct pattern_class **out)
{
    const char *close = memchr(p->at, ']', (size_t)(p->end - p->at));
    struct pattern_class *class = scratch_take(p->scratch, sizeof *class);
    int rc = 0;

    if (!close || close == p->at)
        return refuse_node(p, "[ without characters and ] in the same node");
    if (class)
        class->ranges = scratch_take(p->scratch, (size_t)(close - p->at) *
                                                     sizeof *class->ranges);
    if (!class || !class->ranges)
        return -ENOMEM;
    class->is_negated = *p->at == '!';
    p->at += class->is_negated;
    while (rc == 0 && p->at < close) {
        struct pattern_range *r = &class->ranges[class->count++];

        rc = parse_class_character(p, &r->low);
        r->high = r->low;
        if (rc == 0 && close - p->at >= 2 && *p->at == '-') {
            p->at++;
            rc = parse_class_character(p, &r->high);
        }
    }
    p->at = close + 1;
    *out = class;
    return rc;
}

static int
parse_element(struct parser *p, struct pattern_element *e)
{
    const char c = *p->at++;
    const char *close;

    switch (c) {
    case '*':
        e->kind = PATTERN_ANY;
        return 0;
    case '?':
        e->kind = PATTERN_CHARACTER;
        return 0;
    case '[':
        e->kind = PATTERN_CHARACTER;
        return p->in_braces ? refuse_node(p, "braces or brackets within braces")
                            : parse_class(p, &e->class);
    case '{':
        e->kind = PATTERN_OPEN;
        close = memchr(p->at, '}', (size_t)(p->end - p->at));
        if (p->in_braces)
            return refuse_node(p, "braces or brackets within braces");
        p->in_braces = true;
        return close && close > p->at
                   ? 0
                   : refuse_node(p, "{ without words and } in the same node");
    case ']':
    case '}':
        if (!p->in_braces)
            return refuse_node(p, "a closing bracket without an opening one");
        p->in_braces = c == ']';
        e->kind = c == '}' ? PATTERN_CLOSE : PATTERN_BYTE;
        e->byte = (uint8_t)c;
        return 0;
    default:
        p->at--;
        e->kind = c == ',' && p->in_braces ? PATTERN_OR : PATTERN_BYTE;
        return parse_byte(p, &e->byte);
    }
}

/* Parses a node up to p->end. */
static int
parse_node(struct parser *p, struct pattern_node *node)
{
    int rc = p->at < p->end ? 0 : refuse_node(p, "an empty node");

    while (rc == 0 && p->at < p->end) {
        struct pattern_element *e = &node->elements[node->count];

        rc = parse_element(p, e);
        if (e->kind == PATTERN_BYTE && node->prefix_size == node->count)
            node->prefix[node->prefix_size++] = e->byte;
        node->count++;
    }
    node->is_literal = node->prefix_size == node->count;
    return rc;
}

static int
fail_pattern(char *why, struct target_text text, const char *what)
{
    char shown[NAME_SHOWN_SIZE];

    (void)snprintf(why, TARGET_WHY_SIZE, "path %s: %s",
                   name_show(text.at, text.size, shown), what);
    return -EINVAL;
}

int
pattern_parse(struct scratch *scratch, struct target_text text,
              struct pattern *out, char why[TARGET_WHY_SIZE])
{
    const char *const end = text.at + text.size;
    struct parser p = {.scratch = scratch, .at = text.at};
    struct pattern_element *elements;
    size_t count = 1;
    uint8_t *bytes;
    int rc = 0;

    if (text.size > PATTERN_SIZE_MAX)
        return fail_pattern(why, text, "longer than 4096 bytes");
    for (size_t i = 0; i < text.size; i++)
        count += text.at[i] == '.' ? 1 : 0;
    if (count > (size_t)2 * STORE_NAME_MAX)
        return fail_pattern(why, text, "too many nodes");
    *out = (struct pattern){.literals = (unsigned)count};
    out->nodes = scratch_take(scratch, count * sizeof *out->nodes);
    elements = scratch_take(scratch, (text.size + 1) * sizeof *elements);
    bytes = scratch_take(scratch, text.size + 1);
    if (!out->nodes || !elements || !bytes)
        return -ENOMEM;
    for (; rc == 0 && out->count < count; out->count++) {
        struct pattern_node *node = &out->nodes[out->count];
        const char *dot = memchr(p.at, '.', (size_t)(end - p.at));

        p.end = dot ? dot : end;
        node->elements = elements;
        node->prefix = bytes;
        rc = parse_node(&p, node);
        elements += node->count;
        bytes += node->prefix_size;
        if (!node->is_literal && out->count < out->literals)
            out->literals = out->count;
        p.at = dot ? dot + 1 : end;
    }
    return rc == -EINVAL ? fail_pattern(why, text, p.wrong) : rc;
}
