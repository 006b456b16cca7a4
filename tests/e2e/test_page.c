/* tests/e2e/test_page.c - the page at / of countd-read: what is in it, how it
 * is served, and in a real browser, Debian's chromium, what it shows.
 *
 * The browser is talked to over --remote-debugging-pipe: JSON, each message
 * with a NUL behind it, on its descriptors 3 and 4. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/answer.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define BROWSER    "/usr/bin/chromium"
#define CALL_MS    90000
#define SCRIPT_MAX 32768
#define PAGE_MAX   (60 << 10) /* bytes of the page */
#define BOSS       "a8d20c8b5f3e41f7"

/* Notes the faults of a page from its first byte on. */
#define WATCH                                                                  \
    "window.faults = [];"                                                      \
    "addEventListener('securitypolicyviolation', e => faults.push("            \
    "e.violatedDirective + ' ' + e.blockedURI));"                              \
    "addEventListener('error', e => faults.push('error ' + e.message));"       \
    "addEventListener('unhandledrejection', e => faults.push('rejected ' + "   \
    "e.reason));"

struct browser {
    struct daemon daemon;
    struct tmpdir home;
    int to, from;
    unsigned id;
    char session[64];
    char reply[1 << 20];
    size_t size;
};

static struct browser browser;

/* ---- the browser --------------------------------------------------------- */

static int
open_pipe(const struct tmpdir *d, const char *name)
{
    int fd;

    assert_int_equal(mkfifoat(d->fd, name, 0600), 0);
    fd = openat(d->fd, name, O_RDWR | O_CLOEXEC); /* waits for no peer */
    assert_true(fd >= 0);
    return fd;
}

static void
start_browser(struct browser *b)
{
    static const char command[] =
        "exec " BROWSER " --headless --no-sandbox --disable-gpu"
        " --disable-dev-shm-usage --disable-background-networking"
        " --disable-component-update --disable-breakpad --no-first-run"
        " --no-proxy-server --remote-debugging-pipe"
        " --user-data-dir=\"$HOME/profile\" about:blank"
        " 3<\"$HOME/to\" 4>\"$HOME/from\"";
    const char *const argv[] = {"-c", command, NULL};
    char home[600];
    const char *const env[] = {home, NULL};
    const struct daemon_how how = {.argv = argv, .env = env, .not_ready = true};

    memset(b, 0, sizeof *b);
    b->daemon.output = -1;
    tmpdir_make(&b->home);
    (void)snprintf(home, sizeof home, "HOME=%s", b->home.path);
    b->to = open_pipe(&b->home, "to");
    b->from = open_pipe(&b->home, "from");
    (void)daemon_start_how(&b->daemon, "/bin/sh", &how); /* fails itself */
}

static void
stop_browser(struct browser *b)
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
        if (clock_ms() > deadline || !daemon_alive(&b->daemon)) {
            (void)daemon_output(&b->daemon, text, sizeof text);
            fail_msg("the browser does not answer: %s", text);
        }
    } while (b->size == 0 || b->reply[b->size - 1] != '\0');
}

/* Calls a method; its answer is in b->reply. */
static void
call_driver(struct browser *b, const char *method, const char *parameters)
{
    static char message[4 * SCRIPT_MAX];
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

/* Evaluates what returns a text, or a promise of one. */
static const char *
run_script(struct browser *b, const char *expression)
{
    static char parameters[3 * SCRIPT_MAX];
    const char *after = "\", \"awaitPromise\": true, \"returnByValue\": true";
    size_t size = (size_t)sprintf(parameters, "\"expression\": \"");

    size += quote_json(expression, parameters + size);
    strcpy(parameters + size, after);
    call_driver(b, "Runtime.evaluate", parameters);
    return find_member(b, "value");
}

/* Opens an address in a new tab of its own. */
static void
open_tab(struct browser *b, const char *url)
{
    static const char checks[] = "tests/e2e/page_checks.js";
    static char script[SCRIPT_MAX];
    char parameters[1024];
    FILE *f = fopen(checks, "re");
    size_t size;

    assert_non_null(f);
    size = fread(script, 1, sizeof script - 64, f);
    assert_int_equal(fclose(f), 0);
    assert_in_range(size, 1, sizeof script - 65);
    strcpy(script + size, "'loaded'");

    b->session[0] = '\0';
    call_driver(b, "Target.createTarget", "\"url\": \"about:blank\"");
    (void)snprintf(parameters, sizeof parameters,
                   "\"targetId\": \"%s\", \"flatten\": true",
                   find_member(b, "targetId"));
    call_driver(b, "Target.attachToTarget", parameters);
    (void)snprintf(b->session, sizeof b->session, "%s",
                   find_member(b, "sessionId"));
    call_driver(b, "Page.enable", "");
    call_driver(b, "Page.addScriptToEvaluateOnNewDocument",
                "\"source\": \"" WATCH "\"");
    (void)snprintf(parameters, sizeof parameters, "\"url\": \"%s\"", url);
    call_driver(b, "Page.navigate", parameters);
    while (strcmp(run_script(b, "location.origin + document.readyState"),
                  "nullcomplete") == 0)
        ;
    assert_string_equal(run_script(b, script), "loaded");
}

static void
expect_checked(struct browser *b, const char *check)
{
    char expression[256];
    const char *wrong;

    (void)snprintf(expression, sizeof expression, "report(%s)", check);
    wrong = run_script(b, expression);
    if (wrong[0] != '\0')
        fail_msg("%s: %s", check, wrong);
}

/* ---- pictures ------------------------------------------------------------ */

static void
set_width(struct browser *b, unsigned width, unsigned height)
{
    char parameters[128];

    (void)snprintf(parameters, sizeof parameters,
                   "\"width\": %u, \"height\": %u, \"deviceScaleFactor\": 1, "
                   "\"mobile\": false",
                   width, height);
    call_driver(b, "Emulation.setDeviceMetricsOverride", parameters);
}

/* Writes what the browser sent in base64. */
static void
write_base64(const char *base64, const char *path)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq"
                                 "rstuvwxyz0123456789+/";
    FILE *f = fopen(path, "we");
    uint32_t bits = 0;

    assert_non_null(f);
    for (unsigned i = 1; *base64 != '"' && *base64 != '='; i++) {
        const char *digit = strchr(digits, *base64++);

        assert_non_null(digit);
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4 != 1)
            assert_true(
                putc((int)(bits >> (6 - 2 * ((i - 1) % 4)) & 0xff), f) != EOF);
    }
    assert_int_equal(fclose(f), 0);
}

/* Makes $BUILD/page/NAME-WIDTH-THEME.png of the whole view. */
static void
take_picture(struct browser *b, const char *name, unsigned width,
             const char *theme)
{
    static const char data[] = "\"data\":\"";
    char words[512];
    const char *at;
    unsigned height;

    (void)snprintf(words, sizeof words,
                   "\"features\": [{\"name\": \"prefers-color-scheme\", "
                   "\"value\": \"%s\"}]",
                   theme);
    call_driver(b, "Emulation.setEmulatedMedia", words);
    call_driver(b, "Emulation.setScrollbarsHidden", "\"hidden\": true");
    set_width(b, width, 400);
    height = (unsigned)atoi(run_script(
        b, "draw('again').then(() => String(document.body.scrollHeight))"));
    assert_true(height > 200);
    set_width(b, width, height);
    assert_string_equal(
        run_script(b, "draw('again').then(() => String("
                      "document.documentElement.scrollWidth <= innerWidth))"),
        "true");
    call_driver(b, "Page.captureScreenshot", "\"format\": \"png\"");
    at = memmem(b->reply, b->size, data, sizeof data - 1);
    assert_non_null(at);
    (void)snprintf(words, sizeof words, "%s/page", getenv("BUILD"));
    (void)mkdir(words, 0777); /* it may be there */
    (void)snprintf(words, sizeof words, "%s/page/%s-%u-%s.png", getenv("BUILD"),
                   name, width, theme);
    write_base64(at + sizeof data - 1, words);
}

/* ---- the service --------------------------------------------------------- */

#define CASE(name, f)                                                          \
    TEST_SERVICE(name, f, "counter.enable=off", "read.http=127.0.0.1:0")

static void
put_counts(struct fleet *f)
{
    for (int i = 0; i < 120; i++) {
        char key[32];

        (void)snprintf(key, sizeof key, "/p/%d", i);
        service_add(f, "pages", key, 1000 - i);
    }
    service_add(f, "big", "max", INT64_MAX);
    service_add(f, "odd", "\"quoted\" <b>&", 30);
    service_add(f, "odd", "\xffraw\1bytes", 20);
    service_add(f, "odd", "\": 1234567890123456,", 10);
    service_add(f, "odd", "C:\\temp", 8);
    service_add(f, "odd", "less", -7);
    service_add(f, "usage", "acme/api_calls", 30);
    service_add(f, "usage", "acme/storage", 12);
    service_add(f, "usage", "acmeology", 5);
    service_add(f, "usage", "globex/api_calls", 70);
    expect_text(FLEET_RUN(f, "incr", "past", "old", "7", "--at", "-600d"), 0,
                "");
    expect_text(FLEET_RUN(f, "incr", "past", "old", "5", "--at", "-400d"), 0,
                "");
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}

/* ---- tests --------------------------------------------------------------- */

TEST(the_page_is_small_and_loads_nothing_from_elsewhere)
{
    static const char *const absent[] = {"src=",   "url(",      "@import",
                                         "https:", "innerHTML", "eval("};
    char *page = text, *at;
    struct stat st;
    FILE *f = fopen("reader/page.html", "re");

    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    assert_in_range(st.st_size, 1, PAGE_MAX);
    assert_int_equal(fread(page, 1, (size_t)st.st_size, f), st.st_size);
    page[st.st_size] = '\0';
    assert_int_equal(fclose(f), 0);

    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (strstr(page, absent[i]))
            fail_msg("the page has %s", absent[i]);
    for (at = page; (at = strstr(at, "http:")) != NULL; at++)
        assert_memory_equal(at, "http://www.w3.org/2000/svg'", 27);
}

/* Shows the page. */
static void
open_page(struct fleet *f)
{
    char url[64];

    (void)snprintf(
        url, sizeof url, "http://127.0.0.1:%u/",
        (unsigned)daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
    start_browser(&browser);
    open_tab(&browser, url);
}

/* Something that needs an operator, for the page to say. */
static void
put_damaged_log(const struct fleet *f)
{
    char path[600];
    int fd;

    (void)snprintf(path, sizeof path, "%s/log/bad-0000000900-1", f->path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
}

CASE(peer_a_browser_shows_what_is_counted, f)
{
    if (access(BROWSER, X_OK) != 0)
        test_skip("no chromium (Debian's package chromium)");
    service_start(f);
    put_counts(f);
    put_damaged_log(f);
    open_page(f);
    expect_checked(&browser, "check_views()");
    set_width(&browser, 420, 900);
    expect_checked(&browser, "check_narrow()");
    set_width(&browser, 375, 900);
    expect_checked(&browser, "check_narrow()");
    stop_browser(&browser);
}

CASE(peer_a_browser_shows_first_steps_where_nothing_is_counted, f)
{
    char check[32];

    if (access(BROWSER, X_OK) != 0)
        test_skip("no chromium (Debian's package chromium)");
    fleet_option(f, "http.listen=127.0.0.1:0");
    service_start(f);
    open_page(f);
    (void)snprintf(check, sizeof check, "check_empty(%u)",
                   (unsigned)daemon_port(fleet_daemon(f, FLEET_WRITE), "http"));
    expect_checked(&browser, check);
    take_picture(&browser, "empty", 1000, "light");
    take_picture(&browser, "empty", 375, "dark");
    stop_browser(&browser);
}

CASE(peer_a_browser_shows_no_port_where_nothing_is_taken_over_http, f)
{
    if (access(BROWSER, X_OK) != 0)
        test_skip("no chromium (Debian's package chromium)");
    fleet_option(f, "http.listen=");
    service_start(f);
    open_page(f);
    expect_checked(&browser, "check_empty_without_http()");
    stop_browser(&browser);
}

/* Three years of usage by customer, growing and falling with the seasons. */
static void
put_usage(struct fleet *f)
{
    static const char usage[] =
        "awk -v now=$(date +%%s) 'BEGIN { srand(7); day = now - now %% 86400;"
        " n = split(\"acme 10 globex 6 initech 3 hooli 2 umbrella 1\", c);"
        " split(\"9 -1 -4 12 2\", growth);"
        " split(\"api_calls 100 storage_gb 14 seats 4 exports 1\", m);"
        " for (d = 1095; d > 0; d--) for (i = 1; i < n; i += 2)"
        " for (k = 1; k < 8; k += 2) {"
        " v = c[i + 1] * m[k + 1] * (1 + growth[(i + 1) / 2] * (1095 - d) / "
        "8000) * (1 + sin(d / 58) / 4) * (0.85 + 0.3 * rand());"
        " printf \"usage\\t%%s/%%s\\t%%d\\t%%d\\n\", c[i], m[k], v + 1,"
        " day - 86400 * d } }' >%s/usage";
    char command[sizeof usage + sizeof f->path], path[sizeof f->path + 8];

    (void)snprintf(command, sizeof command, usage, f->path);
    (void)snprintf(path, sizeof path, "%s/usage", f->path);
    answer_shell(f, command);
    expect(FLEET_RUN(f, "load", path), 0, "increments acknowledged");
    service_add(f, "pages", "/index", 27);
    service_add(f, "pages", "/about", 9);
}

/* For a reader to look at: README's data/page.png is usage-1000-light.png. */
CASE(peer_pictures_are_made_of_every_view_at_three_widths, f)
{
    static const struct {
        const char *name, *hash, *words;
    } views[] = {
        {"keyspaces", "#/", "usage"},
        {"usage",
         "#/ks/usage?group=%2F&by=span&with=acme%2F*&from=' + Math.floor("
         "Date.now() / 1000 - 450 * 86400) + '",
         "acme/"},
        {"prefix", "#/ks/usage?prefix=acme%2F&span=all", "acme/seats"},
        {"key", "#/key/usage/acme%2Fapi_calls?span=all&with=acme%2F*",
         "Neighbours"},
        {"status", "#/status", "alive"},
    };
    static const unsigned widths[] = {1000, 420, 375};

    if (access(BROWSER, X_OK) != 0)
        test_skip("no chromium (Debian's package chromium)");
    service_start(f);
    put_usage(f);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    open_page(f);
    for (size_t i = 0; i < 6 * sizeof views / sizeof views[0]; i++) {
        const char *theme = i % 2 == 0 ? "light" : "dark";
        char check[320];

        set_width(&browser, widths[i / 2 % 3], 900);
        (void)snprintf(check, sizeof check, "visit('%s', '%s')",
                       views[i / 6].hash, views[i / 6].words);
        expect_checked(&browser, check);
        take_picture(&browser, views[i / 6].name, widths[i / 2 % 3], theme);
    }
    stop_browser(&browser);
}

CASE(peer_a_browser_asks_for_a_token_where_one_is_needed, f)
{
    if (access(BROWSER, X_OK) != 0)
        test_skip("no chromium (Debian's package chromium)");
    service_set_tokens(f, "boss admin " BOSS "\n");
    service_start(f);
    service_add(f, "pages", "/index", 1);
    assert_int_equal(setenv("COUNTD_TOKEN", BOSS, 1), 0);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(unsetenv("COUNTD_TOKEN"), 0);
    open_page(f);
    expect_checked(&browser, "check_token('" BOSS "')");
    stop_browser(&browser);
}
