/* tests/lib/browser.c - see browser.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"

#define CALL_MS 90000

static int
open_pipe(const struct tmpdir *d, const char *name)
{
    int fd;

    assert_int_equal(mkfifoat(d->fd, name, 0600), 0);
    fd = openat(d->fd, name, O_RDWR | O_CLOEXEC); /* waits for no peer */
    assert_true(fd >= 0);
    return fd;
}

void
browser_start(struct browser *b, const char *options)
{
    char command[1024], home[600];
    const char *const argv[] = {"-c", command, NULL};
    const char *const env[] = {home, NULL};
    const struct daemon_how how = {.argv = argv, .env = env, .not_ready = true};
    const int size =
        snprintf(command, sizeof command,
                 "exec " BROWSER " --headless --no-sandbox --disable-gpu"
                 " --disable-dev-shm-usage --disable-background-networking"
                 " --disable-component-update --disable-breakpad --no-first-run"
                 " --no-proxy-server --remote-debugging-pipe %s"
                 " --user-data-dir=\"$HOME/profile\" about:blank"
                 " 3<\"$HOME/to\" 4>\"$HOME/from\"",
                 options);

    assert_in_range(size, 1, sizeof command - 1);
    memset(b, 0, sizeof *b);
    b->daemon.output = -1;
    tmpdir_make(&b->home);
    (void)snprintf(home, sizeof home, "HOME=%s", b->home.path);
    b->to = open_pipe(&b->home, "to");
    b->from = open_pipe(&b->home, "from");
    (void)daemon_start_how(&b->daemon, "/bin/sh", &how); /* fails itself */
}

void
browser_stop(struct browser *b)
{
    daemon_kill(&b->daemon);
    daemon_fini(&b->daemon);
    (void)close(b->to);
    (void)close(b->from);
    tmpdir_remove(&b->home);
}

/* Whole messages, one or more, in b->reply: events come between answers. */
static void
hear_messages(struct browser *b)
{
    const uint64_t deadline = test_deadline(CALL_MS);
    struct pollfd p = {.fd = b->from, .events = POLLIN};
    ssize_t n;

    b->size = 0;
    do {
        if (poll(&p, 1, 1000) > 0) {
            n = read(b->from, b->reply + b->size,
                     sizeof b->reply - b->size - 1);
            assert_true(n > 0);
            b->size += (size_t)n;
        }
        if (clock_ms() > deadline || !daemon_alive(&b->daemon))
            fail_msg("the browser does not answer: %s",
                     daemon_text(&b->daemon));
    } while (b->size == 0 || b->reply[b->size - 1] != '\0');
}

void
browser_call(struct browser *b, const char *method, const char *parameters)
{
    static char message[4 * BROWSER_SCRIPT_MAX];
    char id[32];
    const int size = snprintf(
        message, sizeof message,
        "{\"id\": %u, \"method\": \"%s\", \"params\": {%s}%s%s%s}", ++b->id,
        method, parameters, b->session[0] != '\0' ? ", \"sessionId\": \"" : "",
        b->session, b->session[0] != '\0' ? "\"" : "");

    assert_in_range(size, 1, sizeof message - 1);
    (void)snprintf(id, sizeof id, "{\"id\":%u,", b->id);
    assert_int_equal(write(b->to, message, (size_t)size + 1), size + 1);
    do
        hear_messages(b);
    while (!memmem(b->reply, b->size, id, strlen(id)));
    if (memmem(b->reply, b->size, "\"error\":{", 9))
        fail_msg("%s: %s", method, b->reply);
}

/* The text of a member of the answer. */
static const char *
find_member(struct browser *b, const char *name)
{
    static char value[4096];
    char quoted[64];
    const char *at;

    (void)snprintf(quoted, sizeof quoted, "\"%s\":\"", name);
    at = memmem(b->reply, b->size, quoted, strlen(quoted));
    if (!at)
        fail_msg("no %s: %s", name, b->reply);
    at += strlen(quoted);
    (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\""), at);
    return value;
}

static size_t
quote_json(const char *from, char *to)
{
    char *at = to;

    for (; *from != '\0'; from++) {
        if (*from == '"' || *from == '\\')
            *at++ = '\\';
        *at++ = *from;
        if (*from == '\n') {
            at[-1] = '\\';
            *at++ = 'n';
        }
    }
    *at = '\0';
    return (size_t)(at - to);
}

const char *
browser_run(struct browser *b, const char *expression)
{
    static char parameters[3 * BROWSER_SCRIPT_MAX];
    const char *after = "\", \"awaitPromise\": true, \"returnByValue\": true";
    size_t size = (size_t)sprintf(parameters, "\"expression\": \"");

    assert_true(strlen(expression) < BROWSER_SCRIPT_MAX);
    size += quote_json(expression, parameters + size);
    strcpy(parameters + size, after);
    browser_call(b, "Runtime.evaluate", parameters);
    return find_member(b, "value");
}

void
browser_visit(struct browser *b, const char *url, const char *first)
{
    char parameters[1024];

    b->session[0] = '\0';
    browser_call(b, "Target.createTarget", "\"url\": \"about:blank\"");
    (void)snprintf(parameters, sizeof parameters,
                   "\"targetId\": \"%s\", \"flatten\": true",
                   find_member(b, "targetId"));
    browser_call(b, "Target.attachToTarget", parameters);
    (void)snprintf(b->session, sizeof b->session, "%s",
                   find_member(b, "sessionId"));
    browser_call(b, "Page.enable", "");
    (void)snprintf(parameters, sizeof parameters, "\"source\": \"%s\"", first);
    browser_call(b, "Page.addScriptToEvaluateOnNewDocument", parameters);
    (void)snprintf(parameters, sizeof parameters, "\"url\": \"%s\"", url);
    browser_call(b, "Page.navigate", parameters);
    while (strcmp(browser_run(b, "location.origin + document.readyState"),
                  "nullcomplete") == 0)
        ;
}
