/* reader/graphite/pattern.c - see pattern.h.
 *
 * A node is matched by the set of places in the name that what was read of the
 * pattern can end at: each part of the pattern makes the next set of it, so
 * that nothing is tried twice.
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
    int high, low;

    *out = (uint8_t)text[0];
    if (text[0] != '%')
        return 1;
    high = size >= 3 ? hex_value((uint8_t)text[1]) : -1;
    low = size >= 3 ? hex_value((uint8_t)text[2]) : -1;
    if (high < 0 || low < 0)
        return 0;
    *out = (uint8_t)(high << 4 | low);
    return *out == 0 ? 0 : 3;
}

/* Whether an ASCII character of a name is itself in its path: a target takes it
 * as part of a word, and it has no meaning in a pattern. */
static bool
is_plain(uint8_t c)
{
    return c < 0x80 && target_is_word_byte((char)c) && !strchr("*?[]{}%.", c);
}

/* Bytes of the character of a name that is one for `?`. */
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

        if (node == 0) { /* the dot that parts two nodes */
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

/* A name, and the rest of the pattern that it is matched with. */
struct matching {
    const uint8_t *name;
    size_t size;
    const char *at, *end;
    const struct pattern_class *class; /* the next one */
};

/* Reads one character of a class, which may be %HH. */
static const char *
read_class_character(const char *at, const char *end, uint32_t *out)
{
    const size_t size =
        character_size((const uint8_t *)at, (const uint8_t *)end);
    uint8_t c;

    if (size == 1) {
        at += read_byte(at, (size_t)(end - at), &c);
        *out = c;
        return at;
    }
    *out = 0;
    for (size_t i = 0; i < size; i++)
        *out = *out << 8 | (uint8_t)at[i];
    return at + size;
}

static bool
is_in_class(const struct pattern_class *class, const uint8_t *character,
            size_t size)
{
    bool is_in = false;
    uint32_t c = 0;

    for (size_t i = 0; i < size; i++)
        c = c << 8 | character[i];
    if (c < 128)
        return ((class->ascii[c / 64] >> c % 64 & 1) != 0) != class->is_negated;
    for (size_t i = 0; i < class->count && !is_in; i++)
        is_in = c >= class->ranges[i].low && c <= class->ranges[i].high;
    return is_in != class->is_negated;
}

/* Moves over one character of the name that is in the class; NULL: any is. */
static void
match_character(const struct matching *m, const struct pattern_class *class,
                struct places *places)
{
    struct places next = {{false}};

    for (size_t i = 0; i < m->size; i++) {
        const size_t size = character_size(m->name + i, m->name + m->size);

        if (places->at[i] && (!class || is_in_class(class, m->name + i, size)))
            next.at[i + size] = true;
    }
    *places = next;
}

static void
match_byte(const struct matching *m, uint8_t c, struct places *places)
{
    for (size_t i = m->size; i > 0; i--)
        places->at[i] = places->at[i - 1] && m->name[i - 1] == c;
    places->at[0] = false;
}

static bool
is_empty(const struct matching *m, const struct places *places)
{
    return memchr(places->at, 1, m->size + 1) == NULL;
}

static void
match_any(const struct matching *m, struct places *places)
{
    for (size_t i = 1; i <= m->size; i++)
        places->at[i] |= places->at[i - 1];
}

/* Matches up to one of the bytes `until` or the end, without braces. */
static void
match_part(struct matching *m, const char *until, struct places *places)
{
    while (m->at < m->end && (*m->at == '\0' || !strchr(until, *m->at))) {
        uint8_t c;

        switch (*m->at) {
        case '*':
            match_any(m, places);
            while (m->at < m->end && *m->at == '*')
                m->at++;
            break;
        case '?':
            match_character(m, NULL, places);
            m->at++;
            break;
        case '[':
            match_character(m, m->class ++, places);
            m->at = memchr(m->at, ']', (size_t)(m->end - m->at));
            m->at++;
            break;
        default:
            m->at += read_byte(m->at, (size_t)(m->end - m->at), &c);
            match_byte(m, c, places);
        }
    }
}

/* Matches {x,y}: what any of them leads to. */
static void
match_braces(struct matching *m, struct places *places)
{
    struct places all = {{false}};

    do {
        struct places one = *places;

        m->at++;
        match_part(m, ",}", &one);
        for (size_t i = 0; i <= m->size; i++)
            all.at[i] |= one.at[i];
    } while (m->at < m->end && *m->at == ',');
    m->at += m->at < m->end ? 1 : 0;
    *places = all;
}

bool
pattern_matches(const struct pattern_node *node, const uint8_t *name,
                size_t size)
{
    struct matching m = {name, size, node->text, node->text + node->size,
                         node->classes};
    struct places places = {{true}};

    if (size > STORE_NAME_MAX ||
        !bytes_begin(name, size, node->prefix, node->prefix_size))
        return false;
    if (node->is_literal)
        return size == node->prefix_size;
    if (node->size == 1) /* a single * */
        return node->text[0] == '*' ||
               size == character_size(name, name + size);
    while (m.at < m.end && !is_empty(&m, &places)) {
        match_part(&m, "{", &places);
        if (m.at < m.end)
            match_braces(&m, &places);
    }
    return places.at[size];
}

/* ---- parsing ------------------------------------------------------------ */

static int
fail_pattern(char *why, struct target_text text, const char *what)
{
    char shown[NAME_SHOWN_SIZE];

    (void)snprintf(why, TARGET_WHY_SIZE, "path %s: %s",
                   name_show(text.at, text.size, shown), what);
    return -EINVAL;
}

/* Passes over a wildcard with an end.  NULL, or what is wrong. */
static const char *
pass_wildcard(struct target_text node, size_t *at)
{
    const char open = node.at[*at];
    const char *begin = node.at + *at + 1, *end;

    if (open == '*' || open == '?') {
        ++*at;
        return NULL;
    }
    end = memchr(begin, open == '[' ? ']' : '}',
                 node.size - (size_t)(begin - node.at));
    if (!end || end == begin)
        return open == '[' ? "[ without characters and ] in the same node"
                           : "{ without words and } in the same node";
    if (open == '{' && (memchr(begin, '{', (size_t)(end - begin)) ||
                        memchr(begin, '[', (size_t)(end - begin))))
        return "braces or brackets within braces";
    *at = (size_t)(end + 1 - node.at);
    return NULL;
}

/* Checks the text of a node and decodes its prefix.  NULL, or what is wrong. */
static const char *
read_node(struct target_text text, struct pattern_node *node)
{
    size_t at = 0;

    node->text = text.at;
    node->size = text.size;
    node->is_literal = true;
    if (text.size == 0)
        return "an empty node";
    while (at < text.size) {
        const char c = text.at[at];
        const char *wrong = NULL;
        uint8_t byte;

        if (c == '*' || c == '?' || c == '[' || c == '{') {
            node->is_literal = false;
            wrong = pass_wildcard(text, &at);
            if (wrong)
                return wrong;
            continue;
        }
        if (c == '}' || c == ']')
            return "a closing bracket without an opening one";
        at += read_byte(text.at + at, text.size - at, &byte);
        if (node->is_literal)
            node->prefix[node->prefix_size++] = byte;
    }
    return NULL;
}

/* Checks each %HH: read_byte() takes them all from then on. */
static const char *
check_escapes(struct target_text text)
{
    uint8_t byte;

    for (size_t i = 0; i < text.size; i++)
        if (text.at[i] == '%' &&
            read_byte(text.at + i, text.size - i, &byte) == 0)
            return "% without two hexadecimal digits";
    return NULL;
}

/* Compiles the class between `at` and `end`, without its brackets. */
static int
compile_class(struct scratch *scratch, const char *at, const char *end,
              struct pattern_class *out)
{
    out->is_negated = at < end && *at == '!';
    at += out->is_negated ? 1 : 0;
    out->ranges =
        scratch_take(scratch, (size_t)(end - at + 1) * sizeof *out->ranges);
    if (!out->ranges)
        return -ENOMEM;
    while (at < end) {
        struct pattern_range *r = &out->ranges[out->count];

        at = read_class_character(at, end, &r->low);
        r->high = r->low;
        if (end - at >= 2 && *at == '-')
            at = read_class_character(at + 1, end, &r->high);
        for (uint32_t c = r->low; c <= r->high && c < 128; c++)
            out->ascii[c / 64] |= (uint64_t)1 << c % 64;
        out->count += r->high >= 128 ? 1 : 0;
    }
    return 0;
}

/* Compiles the classes of a node that read_node() has checked. */
static int
compile_classes(struct scratch *scratch, struct pattern_node *node)
{
    const char *const end = node->text + node->size;
    const char *at = node->text;
    size_t count = 0;
    int rc = 0;

    for (size_t i = 0; i < node->size; i++)
        count += node->text[i] == '[' ? 1 : 0;
    if (count == 0)
        return 0;
    node->classes = scratch_take(scratch, count * sizeof *node->classes);
    if (!node->classes)
        return -ENOMEM;
    memset(node->classes, 0, count * sizeof *node->classes);
    for (size_t i = 0;
         rc == 0 && (at = memchr(at, '[', (size_t)(end - at))) != NULL; i++) {
        const char *close = memchr(at + 1, ']', (size_t)(end - at - 1));

        rc = compile_class(scratch, at + 1, close, &node->classes[i]);
        at = close + 1;
    }
    return rc;
}

int
pattern_parse(struct scratch *scratch, struct target_text text,
              struct pattern *out, char why[TARGET_WHY_SIZE])
{
    const char *const end = text.at + text.size;
    const char *at = text.at, *wrong;
    size_t count = 1;
    uint8_t *bytes;
    int rc;

    if (text.size > PATTERN_SIZE_MAX)
        return fail_pattern(why, text, "longer than 4096 bytes");
    wrong = check_escapes(text);
    for (size_t i = 0; i < text.size; i++)
        count += text.at[i] == '.' ? 1 : 0;
    *out = (struct pattern){.text = text};
    if (wrong || count > (size_t)2 * STORE_NAME_MAX)
        return fail_pattern(why, text, wrong ? wrong : "too many nodes");
    out->nodes = scratch_take(scratch, count * sizeof *out->nodes);
    bytes = scratch_take(scratch, text.size + 1);
    if (!out->nodes || !bytes)
        return -ENOMEM;
    out->literals = (unsigned)count;
    for (; out->count < count; out->count++) {
        struct pattern_node *node = &out->nodes[out->count];
        const char *dot = memchr(at, '.', (size_t)(end - at));

        node->prefix = bytes;
        wrong = read_node(
            (struct target_text){at, (size_t)((dot ? dot : end) - at)}, node);
        if (wrong)
            return fail_pattern(why, text, wrong);
        rc = compile_classes(scratch, node);
        if (rc < 0)
            return rc;
        if (!node->is_literal && out->count < out->literals)
            out->literals = out->count;
        bytes += node->prefix_size;
        at = dot ? dot + 1 : end;
    }
    return 0;
}
