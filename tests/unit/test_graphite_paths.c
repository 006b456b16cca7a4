/* tests/unit/test_graphite_paths.c - targets, paths and their search. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reader/graphite/graphite.h"
#include "tests/lib/random.h"
#include "tests/unit/graphite_fixture.h"

/* ---- targets ------------------------------------------------------------ */

/* A node as text: calls in brackets, with their arguments. */
static void
show_node(const struct target_node *n, char *out)
{
    char *at = out + strlen(out);

    if (n->keyword.size > 0)
        at += sprintf(at, "%.*s=", (int)n->keyword.size, n->keyword.at);
    switch (n->kind) {
    case TARGET_CALL:
        at += sprintf(at, "[%.*s", (int)n->text.size, n->text.at);
        for (const struct target_node *v = n->args; v; v = v->next) {
            strcat(at, " ");
            show_node(v, at);
        }
        strcat(at, "]");
        break;
    case TARGET_NUMBER:
        (void)sprintf(at, "#%Lg%s", n->number, n->is_whole ? "" : "~");
        break;
    case TARGET_STRING:
        (void)sprintf(at, "'%.*s'", (int)n->text.size, n->text.at);
        break;
    case TARGET_BOOL:
        (void)sprintf(at, "%s", n->truth ? "yes" : "no");
        break;
    case TARGET_PATH:
        (void)sprintf(at, "%.*s", (int)n->text.size, n->text.at);
    }
}

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(targets_are_parsed, r)
{
    static const char *const targets[][2] = {
        {"web.hits.*", "web.hits.*"},
        {" f( a.b , 'x' ) ", "[f a.b 'x']"},
        {"f(a,\"(^.*$)\", \"\\1 A\")", "[f a '(^.*$)' '\\1 A']"},
        {"f('it\\'s', \"\\\"\")", "[f 'it's' '\"']"},
        {"f(-1, 2.5, 1e3, .5, +7)", "[f #-1 #2.5~ #1000~ #0.5~ #7]"},
        {"f(true, False, n=3, g(x=y.z))", "[f yes no n=#3 [g x=y.z]]"},
        {"a.{b,c}.d|f()|g(1)", "[g [f a.{b,c}.d] #1]"},
        {"f(a|g(), b)", "[f [g a] b]"},
        {"a;k=v.x", "a;k=v.x"},
        {"1.2.3", "1.2.3"},
        {"f()", "[f]"},
        {"caf\xc3\xa9.[a-c]*", "caf\xc3\xa9.[a-c]*"}};

    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char why[TARGET_WHY_SIZE], shown[1024] = "";
        struct target t;

        if (target_parse(&r->scratch, targets[i][0], strlen(targets[i][0]), &t,
                         why) < 0)
            fail_msg("%s: %s", targets[i][0], why);
        show_node(t.root, shown);
        assert_string_equal(shown, targets[i][1]);
    }
}

CASE(what_is_no_target_says_where_and_why, r)
{
    static const char *const targets[][2] = {
        {"", "byte 1: a path or a function is missing"},
        {"f(a", "byte 4: a closing parenthesis is missing"},
        {"f(a,", "byte 5: a path or a function is missing"},
        {"f(a b)", "byte 5: a comma or a closing parenthesis is missing"},
        {"f(a))", "byte 5: more after the end of the expression"},
        {"f('a)", "byte 6: a string that does not end"},
        {"a.{b,c", "a closing brace is missing"},
        {"a|", "byte 3: after | a function is missing"},
        {"a|b", "byte 4: after | a function is missing"},
        {"f(\\)", "a path or a function is missing"}};
    char deep[512] = "", why[TARGET_WHY_SIZE];
    struct target t;

    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        assert_rc(target_parse(&r->scratch, targets[i][0],
                               strlen(targets[i][0]), &t, why),
                  -EINVAL);
        if (!strstr(why, targets[i][1]))
            fail_msg("%s: %s", targets[i][0], why);
    }
    for (int depth = 31; depth <= 32; depth++) { /* of calls around a path */
        deep[0] = '\0';
        for (int i = 0; i < depth; i++)
            strcat(deep, "f(");
        strcat(deep, "a");
        for (int i = 0; i < depth; i++)
            strcat(deep, ")");
        assert_rc(target_parse(&r->scratch, deep, strlen(deep), &t, why),
                  depth < 32 ? 0 : -EINVAL);
    }
    deep[0] = 'a';
    deep[1] = '\0';
    for (int i = 0; i < 32; i++)
        strcat(deep, "|f()");
    assert_rc(target_parse(&r->scratch, deep, strlen(deep), &t, why), -EINVAL);
}

/* ---- paths -------------------------------------------------------------- */

static bool
is_match(struct fixture *r, const char *text, const char *name)
{
    struct pattern p;

    assert_rc(parse_pattern(r, text, &p), 0);
    assert_int_equal(p.count, 1);
    return pattern_matches(&p.nodes[0], (const uint8_t *)name, strlen(name));
}

CASE(nodes_match_patterns, r)
{
    static const struct {
        const char *pattern, *yes, *no;
    } rows[] = {{"abc", "abc", "abcd"},
                {"*", "x", NULL},
                {"a*c", "abbc", "abcd"},
                {"a*", "a", "ba"},
                {"*b*b*", "abab", "aba"},
                {"?", "\xc3\xa9", "ab"},
                {"a?c", "abc", "ac"},
                {"[ab]x", "bx", "cx"},
                {"[a-c]x", "cx", "dx"},
                {"[!a-c]x", "dx", "ax"},
                {"[\xc3\xa9-\xc3\xab]", "\xc3\xaa", "e"},
                {"[!\xc3\xa9z]", "\xc3\xaa", "\xc3\xa9"},
                {"[x-\xc3\xa9]", "~", "w"},
                {"[ab][c-e]*[!f]", "bdxg", "bdxf"},
                {"**[a]**", "xxaxx", "xx"},
                {"{ab,c*}d", "cxxd", "abcd"},
                {"x{a,}y", "xy", "xby"},
                {"{a,b}{c,d}", "bd", "ba"},
                {"a%2Eb", "a.b", "axb"},
                {"%2a", "*", "a"},
                {"[%2D%2E]", ".", "x"},
                {"*a*a*a*a*a*a*a*a*b", "aaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaa"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!is_match(r, rows[i].pattern, rows[i].yes))
            fail_msg("%s does not match %s", rows[i].pattern, rows[i].yes);
        if (rows[i].no && is_match(r, rows[i].pattern, rows[i].no))
            fail_msg("%s matches %s", rows[i].pattern, rows[i].no);
    }
}

CASE(what_is_no_pattern_is_refused, r)
{
    static const char *const texts[] = {
        "",      ".",     "a.",     ".a",    "a..b",    "a%",  "a%2",
        "%00",   "[a",    "[]",     "{a",    "{}",      "a]",  "a}",
        "{a.b}", "[a.b]", "{a{b}}", "{[a]}", "{[a}[b]", "%zz", "[%2]"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct pattern p;

        if (parse_pattern(r, texts[i], &p) != -EINVAL)
            fail_msg("%s is a pattern", texts[i]);
    }
}

CASE(a_pattern_has_at_most_4096_bytes, r)
{
    static char text[PATTERN_SIZE_MAX + 2];
    struct pattern p;

    memset(text, '?', PATTERN_SIZE_MAX + 1);
    assert_rc(parse_pattern(r, text, &p), -EINVAL);
    assert_has(r->render.why, "longer than 4096 bytes");
    assert_rc(parse_pattern(r, text + 1, &p), 0);
    assert_false(pattern_matches(&p.nodes[0], (const uint8_t *)"abcdefgh", 8));
}

CASE(every_name_is_read_back_from_its_path, r)
{
    static const char *const names[][2] = {
        {"a.b", "a.b"},
        {".", "%2E"},
        {"..", "%2E%2E"},
        {"...", "%2E.%2E"},
        {"a..b", "a.%2Eb"},
        {"a.", "a%2E"},
        {".a", "%2Ea"},
        {"a b%", "a%20b%25"},
        {"\xff\xc3\xa9", "%FF\xc3\xa9"},
        {"a,(b)*?", "a%2C%28b%29%2A%3F"},
        {"/x:y@z$1#~+;k=v-", "/x:y@z$1#~+;k=v-"}};
    struct random random = {random_seed("graphite paths")};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATTERN_ESCAPED_MAX + 1];
        const size_t size = pattern_escape((const uint8_t *)names[i][0],
                                           strlen(names[i][0]), path);

        path[size] = '\0';
        assert_string_equal(path, names[i][1]);
    }
    for (int i = 0; i < 20000; i++) {
        static const char letters[] = ".....ab%*\xff\xc3\xa9\x01";
        uint8_t name[12], back[12];
        char path[PATTERN_ESCAPED_MAX];
        const size_t size = 1 + random_below(&random, sizeof name);
        size_t path_size, nodes = 1, parts = 0;

        for (size_t n = 0; n < size; n++)
            name[n] =
                (uint8_t)letters[random_below(&random, sizeof letters - 1)];
        path_size = pattern_escape(name, size, path);
        assert_int_equal(pattern_unescape(path, path_size, back, size), size);
        assert_memory_equal(back, name, size);
        assert_true(path[0] != '.' && path[path_size - 1] != '.');
        for (size_t n = 1; n < path_size; n++) {
            nodes += path[n] == '.' ? 1 : 0;
            assert_false(path[n] == '.' && path[n - 1] == '.');
        }
        for (size_t at = 0; at < size; parts++)
            at += pattern_node_size(name + at, size - at) + 1;
        assert_int_equal(parts, nodes);
    }
}

/* ---- search ------------------------------------------------------------- */

/* The paths and nodes that there are, by looking at all of them. */
struct world {
    struct fixture *fixture;
    size_t count;
    struct {
        char keyspace[8], key[12];
    } keys[400];
};

static void
make_world(struct world *w, struct fixture *r, struct random *random)
{
    static const char letters[] = "ab..-0";

    w->fixture = r;
    w->count = 60 + random_below(random, 300);
    for (size_t i = 0; i < w->count; i++) {
        char *const texts[] = {w->keys[i].keyspace, w->keys[i].key};
        const size_t sizes[] = {1 + random_below(random, 3),
                                1 + random_below(random, 7)};

        for (int t = 0; t < 2; t++) {
            for (size_t n = 0; n < sizes[t]; n++)
                texts[t][n] = letters[random_below(random, 6)];
            texts[t][sizes[t]] = '\0';
        }
        assert_rc(stored_add(r->store, texts[0], NULL, texts[1], 1), 0);
    }
}

/* The path of a key, cut after `nodes` nodes; returns how many it has. */
static unsigned
path_of(const char *keyspace, const char *key, unsigned nodes, char *path)
{
    size_t size =
        pattern_escape((const uint8_t *)keyspace, strlen(keyspace), path);
    unsigned count = 1;
    bool is_cut = false;

    path[size++] = '.';
    size += pattern_escape((const uint8_t *)key, strlen(key), path + size);
    path[size] = '\0';
    for (size_t i = 0; i < size; i++)
        if (path[i] == '.' && count++ == nodes && !is_cut) {
            path[i] = '\0';
            is_cut = true;
        }
    return count;
}

/* Whether a path of as many nodes as the pattern matches it. */
static bool
path_matches(const struct pattern *p, const char *path)
{
    for (unsigned i = 0; i < p->count; i++) {
        const size_t size = strcspn(path, ".");
        uint8_t name[64];
        const int n = pattern_unescape(path, size, name, sizeof name);

        assert_true(n > 0);
        if (!pattern_matches(&p->nodes[i], name, (size_t)n))
            return false;
        path += size + (path[size] == '.' ? 1 : 0);
    }
    return true;
}

static int
compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* What a search is to find: paths, with " leaf" or " node" after them. */
static size_t
look_everywhere(const struct world *w, const struct pattern *p,
                bool only_leaves, char (*out)[96])
{
    size_t count = 0, kept = 0;

    for (size_t i = 0; i < w->count; i++) {
        char path[96];
        const unsigned nodes =
            path_of(w->keys[i].keyspace, w->keys[i].key, p->count, path);

        if (nodes < p->count || (only_leaves && nodes > p->count) ||
            !path_matches(p, path))
            continue;
        /* 'l' is before 'n', and a blank before all that a path has. */
        (void)snprintf(out[count++], 96, "%.80s %s", path,
                       nodes == p->count ? "leaf" : "node");
    }
    qsort(out, count, sizeof out[0], compare_texts);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(out[kept - 1], out[i]) != 0)
            memmove(out[kept++], out[i], sizeof out[0]);
    return kept;
}

static void
check_search(const struct world *w, const char *text, const struct pattern *p,
             bool only_leaves)
{
    static char expected[400][96];
    struct fixture *r = w->fixture;
    const size_t count = look_everywhere(w, p, only_leaves, expected);
    size_t i = 0;
    int rc;

    path_search_start(&r->search, p,
                      only_leaves ? PATH_SEARCH_LEAVES : PATH_SEARCH_NODES,
                      1000);
    do {
        rc = path_search_step(&r->search, 0); /* as little as it can */
        store_read_end(r->store);
    } while (rc == 0);
    assert_rc(rc, 1);
    for (const struct path_found *f = r->search.found; f; f = f->next) {
        char shown[128];

        if (f->next && f->is_leaf == f->next->is_leaf &&
            target_text_equals(f->path, f->next->path))
            continue; /* another keyspace has it, too */
        (void)snprintf(shown, sizeof shown, "%.*s %s", (int)f->path.size,
                       f->path.at, f->is_leaf ? "leaf" : "node");
        if (i == count || strcmp(shown, expected[i]) != 0)
            fail_msg("%s: %s, not %s", text, shown,
                     i < count ? expected[i] : "the end");
        i++;
    }
    if (i < count)
        fail_msg("%s: %s is missing", text, expected[i]);
}

CASE(a_search_finds_what_matches_and_nothing_else, r)
{
    static const char *const parts[] = {"a",    "b",      "*",   "a*",
                                        "?",    "0",      "*-*", "%2E",
                                        "[!a]", "{a,b*}", "a-0", "ab"};
    struct random random = {random_seed("graphite search")};
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    make_world(w, r, &random);
    for (int i = 0; i < 2000; i++) {
        char text[64] = "";
        const unsigned nodes = 1 + (unsigned)random_below(&random, 5);
        struct pattern p;

        for (unsigned n = 0; n < nodes; n++) {
            strcat(text, n > 0 ? "." : "");
            strcat(
                text,
                parts[random_below(&random, sizeof parts / sizeof parts[0])]);
        }
        scratch_free(&r->scratch);
        assert_rc(parse_pattern(r, text, &p), 0);
        check_search(w, text, &p, i % 2 == 0);
    }
    free(w);
}

/* Each key is a step when the time is always up, and then each node that is put.
 */
CASE(a_search_gives_way_after_each_key, r)
{
    static struct graphite_job g;
    static char keys[100][16];
    int keys_seen = 0, nodes_put = 0, rc;

    for (int i = 0; i < 100; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%c%03d", i % 2 ? 'a' : 'd', i);
        assert_rc(stored_add(r->store, "web", NULL, keys[i], 1), 0);
    }
    g = (struct graphite_job){.kind = GRAPHITE_EXPAND, .search = r->search};
    assert_rc(parse_pattern(r, "web.*[c-z]*", &g.pattern), 0);
    chunks_init(&g.answer, &r->scratch, SHOWN);
    path_search_start(&g.search, &g.pattern, PATH_SEARCH_LEAVES, 100);
    while ((rc = graphite_lookup_step(&g, 0)) == 0) {
        store_read_end(r->store);
        keys_seen += !g.answer.last;
        nodes_put += g.answer.last != NULL;
    }
    assert_rc(rc, 1);
    assert_int_equal(g.search.count, 50);
    assert_in_range(keys_seen, 99, 110);
    assert_int_equal(nodes_put, 50);
    chunks_copy(&g.answer, (uint8_t *)r->text);
    r->text[32] = '\0';
    assert_string_equal(r->text, "{\"results\":[\"web.d000\",\"web.d002");
}

/* So does the sort of what several keyspaces have: step by step, path by path. */
CASE(a_search_gives_way_while_it_sorts, r)
{
    char key[16];
    const struct path_found *before = NULL;
    struct pattern p;
    int steps = 0;

    for (int i = 0; i < 100; i++) {
        (void)snprintf(key, sizeof key, "%s%03d", i % 2 ? "a." : "", i);
        assert_rc(stored_add(r->store, i % 2 ? "web" : "web.a", NULL, key, 1),
                  0);
    }
    assert_rc(parse_pattern(r, "web.*.*", &p), 0);
    path_search_start(&r->search, &p, PATH_SEARCH_LEAVES, 100);
    for (; path_search_step(&r->search, 0) == 0; steps++)
        store_read_end(r->store);
    for (const struct path_found *f = r->search.found; f; f = f->next) {
        assert_true(!before || memcmp(before->path.at, f->path.at, 9) < 0);
        before = f;
    }
    assert_int_equal(r->search.count, 100);
    assert_in_range(steps, 200, 220);
}

static const struct store_engine *plain_engine;
static size_t reads;

static int
read_counting(struct store *s, struct store_query *q, size_t size_max)
{
    reads++;
    return plain_engine->read(s, q, size_max);
}

CASE(keys_below_a_node_are_jumped_over, r)
{
    static struct store_delta deltas[2000];
    static char keys[2000][16];
    struct store_engine counting = *r->store->engine;
    struct pattern p;

    for (int i = 0; i < 2000; i++)
        deltas[i] = (struct store_delta){
            .key = (const uint8_t *)keys[i],
            .key_size = (uint16_t)snprintf(keys[i], sizeof keys[i], "%c.%05d",
                                           i < 1000 ? 'a' : 'b', i),
            .minute = NOW / 60,
            .sum = 1};
    assert_rc(stored_apply(r->store, "web", NULL, deltas, 2000), 0);
    assert_rc(parse_pattern(r, "web.*", &p), 0);
    plain_engine = r->store->engine;
    counting.read = read_counting;
    r->store->engine = &counting;
    reads = 0;
    path_search_start(&r->search, &p, PATH_SEARCH_NODES, 10);
    assert_rc(path_search_step(&r->search, UINT64_MAX), 1);
    r->store->engine = plain_engine;
    assert_int_equal(r->search.count, 2);
    assert_true(reads <= 3); /* a, b, and that there is no more */
}
