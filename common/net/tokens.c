/* common/net/tokens.c - see tokens.h.
 *
 * tokens_check() calls tokens_refresh(), which reads the file again once a second;
 * read_file() checks the file and parse_lines() its lines. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/tokens.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/wire/increment_line.h"

#define READ_MS  1000
#define WHY_SIZE 256

struct token {
    struct hash_wide hash;
    unsigned rights; /* enum tokens_right, or-ed */
};

struct token_list {
    size_t count;
    struct token rows[TOKENS_MAX];
};

struct tokens {
    struct hash_key key;
    char *path;
    bool any_user;          /* the daemon's user is not known */
    uint64_t read_ms;       /* monotonic: when the file was last read */
    struct diag_repeat bad; /* the changed file cannot be used */
    struct token_list list;
    struct token_list next; /* of the file, until it is known to be good */
    char text[TOKENS_FILE_SIZE + 1];
};

/* ---- lines -------------------------------------------------------------- */

static bool
is_printable(const char *text)
{
    while (*text > ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

/* Returns the rights that a list names; 0: a word is not one. */
static unsigned
parse_rights(char *list)
{
    static const struct {
        const char *name;
        unsigned rights; /* enum tokens_right, or-ed */
    } names[] = {{"read", TOKENS_READ},
                 {"count", TOKENS_COUNT},
                 {"quota", TOKENS_QUOTA},
                 {"admin", TOKENS_ALL}};
    const size_t count = sizeof names / sizeof names[0];
    const char *word;
    unsigned rights = 0;
    size_t i;

    while ((word = strsep(&list, ","))) {
        for (i = 0; i < count && strcmp(word, names[i].name) != 0;)
            i++;
        if (i == count)
            return 0;
        rights |= names[i].rights;
    }
    return rights;
}

static const struct token *
find_token(const struct token_list *list, struct hash_wide hash)
{
    const struct token *found = NULL;

    for (size_t i = 0; i < list->count; i++)
        if (list->rows[i].hash.low == hash.low &&
            list->rows[i].hash.high == hash.high)
            found = &list->rows[i];
    return found;
}

/* Adds the token of a line.  Returns NULL, or what is wrong, without the
 * token. */
static const char *
add_line(struct tokens *t, char *line)
{
    static const char blanks[] = " \t\r";
    char *rest;
    const char *name = strtok_r(line, blanks, &rest);
    char *rights = strtok_r(NULL, blanks, &rest);
    const char *token = strtok_r(NULL, blanks, &rest);
    struct token_list *list = &t->next;
    struct token row;

    if (!name || name[0] == '#')
        return NULL;
    if (!token || strtok_r(NULL, blanks, &rest))
        return "give NAME RIGHTS TOKEN";
    if (strlen(name) > TOKENS_NAME_MAX || !is_printable(name))
        return "the name is not 1 to 64 printable characters";
    row.rights = parse_rights(rights);
    if (row.rights == 0)
        return "the rights are not a list of read, count, quota and admin "
               "with commas between";
    if (strlen(token) < TOKENS_SIZE_MIN || strlen(token) > TOKENS_SIZE_MAX ||
        !is_printable(token))
        return "the token is not 16 to 128 printable characters";
    row.hash = tokens_hash(t, token, strlen(token));
    if (find_token(list, row.hash))
        return "a line before has the same token";
    if (list->count == TOKENS_MAX)
        return "more than 256 tokens";
    list->rows[list->count++] = row;
    return NULL;
}

/* A zero byte would hide all that follows it. */
static int
parse_lines(struct tokens *t, size_t size, char why[WHY_SIZE])
{
    char *at = t->text, *const end = t->text + size, *line;
    unsigned number = 0;

    *end = '\0';
    at += increment_text_begin(at, size); /* a byte order mark */
    t->next.count = 0;
    while ((line = strsep(&at, "\n"))) {
        const char *wrong = !at && strlen(line) < (size_t)(end - line)
                                ? "it has a zero byte"
                                : add_line(t, line);

        number++;
        if (wrong) {
            (void)snprintf(why, WHY_SIZE, "line %u: %s", number, wrong);
            return -EINVAL;
        }
    }
    return 0;
}

/* ---- the file ----------------------------------------------------------- */

/* The mode is checked first: a wrong one is wrong for any user of the daemon.
 */
static int
check_file(const struct tokens *t, const struct stat *st, char why[WHY_SIZE])
{
    if (!S_ISREG(st->st_mode))
        (void)snprintf(why, WHY_SIZE, "is not a regular file");
    else if ((st->st_mode & 0177) != 0)
        (void)snprintf(why, WHY_SIZE,
                       "has mode %04o: other users may use its tokens; set "
                       "mode 0600 and give out new tokens",
                       (unsigned)(st->st_mode & 07777));
    else if (!t->any_user && st->st_uid != geteuid() && st->st_uid != 0)
        (void)snprintf(why, WHY_SIZE,
                       "belongs to uid %lu: give it to the daemon's user, uid "
                       "%lu",
                       (unsigned long)st->st_uid, (unsigned long)geteuid());
    else if (st->st_size > TOKENS_FILE_SIZE)
        (void)snprintf(why, WHY_SIZE, "is larger than %d bytes",
                       TOKENS_FILE_SIZE);
    else
        return 0;
    return -EINVAL;
}

static int
report_call(int rc, char why[WHY_SIZE])
{
    (void)snprintf(why, WHY_SIZE, "%s", diag_text(rc));
    return rc;
}

/* Reads the file behind `fd` into t->next. */
static int
read_tokens(struct tokens *t, int fd, char why[WHY_SIZE])
{
    struct stat st;
    ssize_t size;
    int rc;

    if (fstat(fd, &st) < 0)
        return report_call(-errno, why);
    rc = check_file(t, &st, why);
    if (rc < 0)
        return rc;
    size = read_at(fd, t->text, TOKENS_FILE_SIZE, 0);
    if (size < 0)
        return report_call((int)size, why);
    rc = parse_lines(t, (size_t)size, why);
    explicit_bzero(t->text, (size_t)size);
    return rc;
}

/* Takes the tokens of the file; when it cannot be used, t->list stays. */
static int
read_file(struct tokens *t, char why[WHY_SIZE])
{
    /* Without O_NONBLOCK a FIFO would hold the loop. */
    const int fd = open(t->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    int rc;

    if (fd < 0 && errno == EACCES && t->any_user)
        return stat(t->path, &st) == 0 ? check_file(t, &st, why) : 0;
    if (fd < 0)
        return report_call(-errno, why);
    rc = read_tokens(t, fd, why);
    (void)close(fd);
    if (rc == 0)
        t->list = t->next;
    return rc;
}

static void
tokens_refresh(struct tokens *t)
{
    const uint64_t now_ms = clock_ms();
    char why[WHY_SIZE];

    if (now_ms - t->read_ms < READ_MS)
        return;
    t->read_ms = now_ms;
    if (read_file(t, why) < 0)
        diag_repeating(&t->bad, DIAG_ERROR,
                       "http.tokens: %s: %s; the tokens read before stay good",
                       t->path, why);
}

/* ---- open, check, close ------------------------------------------------- */

/* Whether a later start may succeed with the same file. */
static bool
is_of_system(int rc)
{
    return rc == -ENOMEM || rc == -EIO || rc == -EMFILE || rc == -ENFILE;
}

int
tokens_open(struct tokens **out, const char *path, bool any_user)
{
    struct tokens *t;
    char why[WHY_SIZE];
    int rc = -ENOMEM;

    *out = NULL;
    if (path[0] == '\0')
        return 0;
    t = calloc(1, sizeof *t);
    if (t)
        t->path = strdup(path);
    if (!t || !t->path) {
        diag_errno(DIAG_ERROR, rc, "http.tokens");
        goto fail;
    }
    rc = -EIO;
    if (getrandom(&t->key, sizeof t->key, 0) != (ssize_t)sizeof t->key) {
        diag_errno(DIAG_ERROR, rc, "http.tokens: random bytes");
        goto fail;
    }
    t->any_user = any_user;
    t->read_ms = clock_ms();
    rc = read_file(t, why);
    if (rc == 0) {
        *out = t;
        return 0;
    }
    diag(DIAG_ERROR, "http.tokens: %s: %s", path, why);

fail:
    tokens_close(t);
    return is_of_system(rc) ? rc : -EINVAL;
}

void
tokens_close(struct tokens *t)
{
    if (!t)
        return;
    free(t->path);
    free(t);
}

struct hash_wide
tokens_hash(const struct tokens *t, const void *token, size_t size)
{
    return hash_bytes_wide(&t->key, token, size);
}

unsigned
tokens_rights(struct tokens *t, struct hash_wide hash)
{
    const struct token *found;

    assert(t);
    tokens_refresh(t);
    found = find_token(&t->list, hash);
    return found ? found->rights : 0;
}

unsigned
tokens_check(struct tokens *t, const void *token, size_t size)
{
    if (size < TOKENS_SIZE_MIN || size > TOKENS_SIZE_MAX)
        return tokens_rights(t, (struct hash_wide){.low = 0});
    return tokens_rights(t, tokens_hash(t, token, size));
}
