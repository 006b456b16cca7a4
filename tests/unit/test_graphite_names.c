/* tests/unit/test_graphite_names.c - names of any bytes: the path that is listed
 * for a key is taken wherever a target has a path. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/random.h"
#include "tests/unit/graphite_fixture.h"

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

#define KEYS_MAX 160
#define NODES    10 /* of the longest path */

/* Keys, each with an amount of its own, and the path that each is listed by. */
struct keys {
    size_t count;
    struct {
        char keyspace[16], key[16];
        int64_t amount;
        char path[PATTERN_PATH_MAX + 1]; /* empty: it is not listed */
    } rows[KEYS_MAX];
};

static void
add_key(struct fixture *r, struct keys *keys, const char *keyspace,
        const char *key)
{
    const size_t i = keys->count;

    for (size_t n = 0; n < i; n++)
        if (strcmp(keys->rows[n].keyspace, keyspace) == 0 &&
            strcmp(keys->rows[n].key, key) == 0)
            return;
    strcpy(keys->rows[i].keyspace, keyspace);
    strcpy(keys->rows[i].key, key);
    keys->rows[i].amount = 1 + (int64_t)i * 1000003;
    add_sum(r, keyspace, key, DAY0, keys->rows[i].amount);
    keys->count++;
}

/* The path of the row that a leaf is. */
static void
set_path(struct keys *keys, const struct path_found *f)
{
    for (size_t i = 0; i < keys->count; i++)
        if (strlen(keys->rows[i].keyspace) == f->keyspace_size &&
            strlen(keys->rows[i].key) == f->key_size &&
            memcmp(keys->rows[i].keyspace, f->keyspace, f->keyspace_size) ==
                0 &&
            memcmp(keys->rows[i].key, f->key, f->key_size) == 0) {
            memcpy(keys->rows[i].path, f->path.at, f->path.size);
            keys->rows[i].path[f->path.size] = '\0';
        }
}

/* Lists all leaves, level by level, as a tree of metrics does. */
static void
list_paths(struct fixture *r, struct keys *keys)
{
    char text[2 * NODES + 2] = "*";

    for (int nodes = 1; nodes <= NODES; nodes++) {
        struct pattern p;
        int rc;

        scratch_free(&r->scratch);
        assert_rc(parse_pattern(r, text, &p), 0);
        path_search_start(&r->search, &p, PATH_SEARCH_LEAVES, KEYS_MAX);
        while ((rc = path_search_step(&r->search, UINT64_MAX)) == 0)
            continue;
        assert_rc(rc, 1);
        store_read_end(r->store);
        for (const struct path_found *f = r->search.found; f; f = f->next)
            set_path(keys, f);
        strcat(text, ".*");
    }
}

/* The increments of all series that a target gives. */
static int64_t
sum_target(struct fixture *r, const char *target, size_t *series)
{
    const struct series_list *list;
    const char *answer = render_target(r, target, DAY0 - 60, DAY0, 0);
    int64_t sum = 0;

    *series = 0;
    if (answer == r->render.why)
        fail_msg("%s: %s", target, answer);
    list = first_result(r);
    for (size_t i = 0; i < list->count; i++)
        for (size_t p = 0; p < list->items[i]->count; p++)
            sum += (int64_t)list->items[i]->points[p];
    *series = list->count;
    return sum;
}

static void
check_path(struct fixture *r, const struct keys *keys, size_t row)
{
    static const char *const forms[][2] = {
        {"", ""},          {"alias(", ", 'x')"},    {"sumSeries(", ")"},
        {"scale(", ",1)"}, {"", "|aliasByNode(0)"}, {"sum(", ", no.x)"}};
    const char *path = keys->rows[row].path;
    int64_t amount = 0;

    for (size_t i = 0; i < keys->count; i++) /* of all keys of that path */
        amount +=
            strcmp(keys->rows[i].path, path) == 0 ? keys->rows[i].amount : 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char target[PATTERN_PATH_MAX + 32];
        size_t series;
        int64_t sum;

        (void)snprintf(target, sizeof target, "%s%s%s", forms[i][0], path,
                       forms[i][1]);
        sum = sum_target(r, target, &series);
        if (series != 1 || sum != amount)
            fail_msg("%s: %zu series, %lld, not %lld", target, series,
                     (long long)sum, (long long)amount);
    }
}

static void
fill_name(struct random *random, char name[16])
{
    static const char letters[] =
        "0123456789..--++==eEktrue_v%%{}[]*?!,()'\"\\| \t\x7f\xff\xc3\xa9;&^<";
    const size_t size = 1 + random_below(random, 4);

    for (size_t i = 0; i < size; i++)
        name[i] = random_chance(random, 20)
                      ? (char)(1 + random_below(random, 255))
                      : letters[random_below(random, sizeof letters - 1)];
    name[size] = '\0';
}

CASE(every_listed_path_is_taken_by_render_alone_and_in_calls, r)
{
    static const char *const hard[][2] = {
        {"2024", "1"},         {"-7", "3"},       {"+1", "5"},
        {"1e5", "2"},          {"1", "5e999"},    {"k=v", "x"},
        {"n=2", "1"},          {"true", "x"},     {"factor=2", "1"},
        {"func=2", "1"},       {"a=", "b"},       {"x", "k=v"},
        {"k", "=v.w"},         {"_=1", "2.3"},    {"a{b", "c,d}"},
        {"a.", ".b"},          {"newName", "=a"}, {"nodes=1", "1"},
        {"seriesList=2", "1"}, {"=", "="},        {"0", "0"}};
    struct random random = {random_seed("graphite names")};
    struct keys *keys = calloc(1, sizeof *keys);

    assert_non_null(keys);
    for (size_t i = 0; i < sizeof hard / sizeof hard[0]; i++)
        add_key(r, keys, hard[i][0], hard[i][1]);
    while (keys->count < KEYS_MAX) {
        char keyspace[16], key[16];

        fill_name(&random, keyspace);
        fill_name(&random, key);
        add_key(r, keys, keyspace, key);
    }

    list_paths(r, keys);

    for (size_t i = 0; i < keys->count; i++) {
        if (keys->rows[i].path[0] == '\0')
            fail_msg("row %zu is not listed", i);
        check_path(r, keys, i);
    }
    free(keys);
}

/* What people write themselves: a keyword that the function does not have is
 * the beginning of a path, and a parameter decides what a number is. */
CASE(a_word_is_what_its_parameter_takes, r)
{
    static const struct {
        const char *target;
        int64_t sum;
    } rows[] = {{"k=v.x", 7},
                {"sumSeries(k=v.x)", 7},
                {"scale(k=v.x, factor=2)", 14},
                {"scale(k=*.x, 2)", 14},
                {"2024.1", 5},
                {"scale(2024.1, 2.5)", 12},
                {"scale(seriesList=2024.1, factor=3.0)", 15},
                {"scale(2024.*, 2)", 10}};
    static const char *const wrong[][2] = {
        {"5", "a target is a path or a call of a function"},
        {".5", "a target is a path or a call of a function"},
        {"scale(5, 2)", "scale: seriesList is a path"},
        {"scale(5., 2)", "scale: seriesList is a path"},
        {"scale(web.a, k=v.x)", "scale: factor is a number"},
        {"scale(web.a, 1e999)", "scale: factor is a number"},
        {"scale(web.a, by=2)", "scale: there is no parameter by"},
        {"sumSeries(k='v.x')", "sumSeries: there is no parameter k"}};
    size_t series;

    add_sum(r, "k=v", "x", DAY0, 7);
    add_sum(r, "2024", "1", DAY0, 5);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t sum = sum_target(r, rows[i].target, &series);

        if (series != 1 || sum != rows[i].sum)
            fail_msg("%s: %zu series, %lld", rows[i].target, series,
                     (long long)sum);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *why = render_target(r, wrong[i][0], DAY0 - 60, DAY0, 0);

        if (!strstr(why, wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], why);
    }
}

CASE(legends_have_names_as_they_are, r)
{
    static const char *const rows[][2] = {
        {"pages.*", "pages./a b?x=1&y=(2) 100%"},
        {"pages.%2Fa%20b%3Fx=1&y=%282%29%20100%25",
         "pages./a b?x=1&y=(2) 100%"},
        {"scale(pages.*, 1)", "scale(pages./a b?x=1&y=(2) 100%,1)"},
        {"aliasByNode(pages.*, 1)", "/a b?x=1&y=(2) 100%"},
        {"aliasByMetric(scale(pages.*, 1))", "/a b?x=1&y=(2) 100%"},
        {"aliasSub(pages.*, '(^.*$)', '\\1 A')", "pages./a b?x=1&y=(2) 100% A"},
        {"groupByNode(pages.*, 1, 'sum')", "/a b?x=1&y=(2) 100%"},
        {"sumSeries(pages.%2Fa%20*)", "sumSeries(pages./a *)"},
        {"aliasByNode(sumSeries(pages.%2Fa*%28*), 1)", "/a*(*"},
        {"alias(pages.*, '100%25')", "100%25"},
        {"topKeys('pages', 1)", "pages./a b?x=1&y=(2) 100%"},
        {"k%3Dv.*", "k=v.x"},
        {"odd.*", "odd.caf\xc3\xa9%FF%09%7F%"}};

    add_sum(r, "pages", "/a b?x=1&y=(2) 100%", DAY0, 1);
    add_sum(r, "odd", "caf\xc3\xa9\xff\t\x7f%", DAY0, 1);
    add_sum(r, "k=v", "x", DAY0, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct series_list *list;
        const char *why = render_target(r, rows[i][0], DAY0 - 60, DAY0, 0);
        struct target_text name;

        if (why == r->render.why)
            fail_msg("%s: %s", rows[i][0], why);
        list = first_result(r);
        assert_int_equal(list->count, 1);
        name = list->items[0]->name;
        if (!target_text_is(name, rows[i][1]))
            fail_msg("%s: %.*s", rows[i][0], (int)name.size, name.at);
    }
    /* tags.name stays the path. */
    assert_has(render_target(r, "pages.*", DAY0 - 60, DAY0, 0),
               "{\"name\":\"pages./a%20b%3Fx=1&y=%282%29%20100%25\""
               "}");
}
