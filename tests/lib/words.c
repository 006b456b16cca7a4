/* tests/lib/words.c - see words.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/words.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/expect.h"
#include "tests/lib/test.h"

/* A text being read, and the example or paragraph that its lines are added to. */
struct reading {
    struct words *words;
    const char *path;
    char kind[16]; /* empty outside of an example */
    bool fenced;
    unsigned line, begun;
    char text[WORDS_TEXT_MAX];
};

static void
add_piece(struct words *w, const char *file, unsigned line, const char *kind,
          const char *example)
{
    struct words_piece *p = &w->pieces[w->count];

    assert_true(w->count < WORDS_MAX);
    assert_true(strlen(file) < sizeof p->file);
    assert_true(strlen(kind) < sizeof p->kind);
    strcpy(p->file, file);
    strcpy(p->kind, kind);
    p->line = line;
    p->text = test_memory(strdup(example));
    w->count++;
}

void
words_fini(struct words *w)
{
    while (w->count > 0)
        free(w->pieces[--w->count].text);
}

void
words_replace(char *whole, size_t size, const char *from, const char *to)
{
    const size_t from_size = strlen(from), to_size = strlen(to);
    char *at = whole;

    while ((at = strstr(at, from)) != NULL) {
        assert_true(strlen(whole) - from_size + to_size < size);
        memmove(at + to_size, at + from_size, strlen(at + from_size) + 1);
        memcpy(at, to, to_size);
        at += to_size;
    }
}

static void
begin_piece(struct reading *r, const char *kind)
{
    assert_true(strlen(kind) < sizeof r->kind);
    strcpy(r->kind, kind);
    r->begun = r->line;
    r->text[0] = '\0';
}

static void
add_line(struct reading *r, const char *line)
{
    const size_t size = strlen(r->text);

    assert_true(size + strlen(line) + 2 < sizeof r->text);
    if (size == 0)
        r->begun = r->line;
    (void)snprintf(r->text + size, sizeof r->text - size, "%s\n",
                   line); /* fits: asserted */
}

/* The commands in the sentences of a paragraph. */
static void
add_spans(struct reading *r)
{
    char *from, *to;

    words_replace(r->text, sizeof r->text, "\n", " ");
    for (from = r->text; (from = strchr(from, '`')) != NULL; from = to + 1) {
        to = strchr(from + 1, '`');
        if (to == NULL)
            break;
        *to = '\0';
        if (strncmp(from + 1, "countd ", 7) == 0 ||
            strncmp(from + 1, "cc ", 3) == 0)
            add_piece(r->words, r->path, r->begun, "span", from + 1);
    }
}

static void
end_piece(struct reading *r)
{
    if (strcmp(r->kind, "paragraph") == 0)
        add_spans(r);
    else if (r->text[0] != '\0')
        add_piece(r->words, r->path, r->begun, r->kind, r->text);
    begin_piece(r, "paragraph");
}

static void
take_markdown(struct reading *r, const char *line)
{
    const bool is_fence = strncmp(line, "```", 3) == 0;
    const bool is_indented = strncmp(line, "    ", 4) == 0;

    if (is_fence) {
        end_piece(r);
        r->fenced = !r->fenced;
        if (r->fenced)
            begin_piece(r, line + 3);
    } else if (r->fenced) {
        add_line(r, line);
    } else if (is_indented != (strcmp(r->kind, "indented") == 0) ||
               line[0] == '\0') {
        end_piece(r);
        if (is_indented)
            begin_piece(r, "indented");
        if (line[0] != '\0')
            add_line(r, is_indented ? line + 4 : line);
    } else {
        add_line(r, is_indented ? line + 4 : line);
    }
}

static void
take_mdoc(struct reading *r, char *line)
{
    const size_t size = strlen(line) + 1;

    words_replace(line, size, "\\e", "\\");
    words_replace(line, size, "\\&", "");
    if (strncmp(line, ".Bd -literal", 12) == 0) {
        end_piece(r);
        begin_piece(r, "literal");
    } else if (strcmp(line, ".Ed") == 0) {
        end_piece(r);
    } else if (strncmp(line, ".Ic countd ", 11) == 0) {
        char named[64];

        (void)snprintf(named, sizeof named, "countd help %.*s",
                       (int)strcspn(line + 11, " "), line + 11); /* cut */
        add_piece(r->words, r->path, r->line, "named", named);
    } else if (strncmp(line, ".Dl ", 4) == 0) {
        add_piece(r->words, r->path, r->line, "line", line + 4);
    } else if (strcmp(r->kind, "literal") == 0) {
        add_line(r, line);
    }
}

void
words_read(struct words *w, const char *path)
{
    static struct reading r;
    const size_t size = strlen(path);
    const bool markdown = size > 3 && strcmp(path + size - 3, ".md") == 0;
    FILE *f = fopen(path, "re");
    char line[1024];

    if (f == NULL)
        print_error("%s cannot be opened\n", path);
    assert_non_null(f);
    r = (struct reading){.words = w, .path = path};
    begin_piece(&r, "paragraph");
    while (fgets(line, sizeof line, f) != NULL) {
        r.line++;
        line[strcspn(line, "\n")] = '\0';
        if (markdown)
            take_markdown(&r, line);
        else
            take_mdoc(&r, line);
    }
    end_piece(&r);
    assert_false(r.fenced);
    assert_int_equal(fclose(f), 0);
}

void
words_read_help(struct words *w)
{
    static const char mark[] = "example:\n  ";
    static char list[TEXT_SIZE];
    const size_t first = w->count;
    char *line, *rest = list;

    assert_int_equal(daemon_run(list, sizeof list, "countd", NULL), 100);
    while ((line = strtok_r(rest, "\n", &rest)) != NULL) {
        char name[32], where[48];

        if (strncmp(line, "  ", 2) != 0 ||
            sscanf(line + 2, "%31[a-z] ", name) != 1)
            continue;
        snprintf(where, sizeof where, "countd %s -h", name);
        expect(daemon_run(text, sizeof text, "countd", name, "-h"), 0, mark);
        add_piece(w, where, 1, "help", strstr(text, mark) + strlen(mark));
    }
    assert_true(w->count > first + 20);
}
