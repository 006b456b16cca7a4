/* tests/e2e/test_page.c - the page at / of countd-read: what is in it, how it
 * is served, and in a real browser, Debian's chromium, what it shows. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/answer.h"
#include "tests/lib/browser.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/service.h"

#define PAGE_MAX (60 << 10) /* bytes of the page */
#define BOSS     "a8d20c8b5f3e41f7"

/* Notes the faults of a page from its first byte on. */
#define WATCH                                                                  \
    "window.faults = [];"                                                      \
    "addEventListener('securitypolicyviolation', e => faults.push("            \
    "e.violatedDirective + ' ' + e.blockedURI));"                              \
    "addEventListener('error', e => faults.push('error ' + e.message));"       \
    "addEventListener('unhandledrejection', e => faults.push('rejected ' + "   \
    "e.reason));"

static struct browser browser;

static void
expect_checked(struct browser *b, const char *check)
{
    char expression[256];
    const char *wrong;

    (void)snprintf(expression, sizeof expression, "report(%s)", check);
    wrong = browser_run(b, expression);
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
    browser_call(b, "Emulation.setDeviceMetricsOverride", parameters);
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
    browser_call(b, "Emulation.setEmulatedMedia", words);
    browser_call(b, "Emulation.setScrollbarsHidden", "\"hidden\": true");
    set_width(b, width, 400);
    height = (unsigned)atoi(browser_run(
        b, "draw('again').then(() => String(document.body.scrollHeight))"));
    assert_true(height > 200);
    set_width(b, width, height);
    assert_string_equal(
        browser_run(b, "draw('again').then(() => String("
                       "document.documentElement.scrollWidth <= innerWidth))"),
        "true");
    browser_call(b, "Page.captureScreenshot", "\"format\": \"png\"");
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
    const char *at = text;

    assert_true(file_read("reader/page.html", text, PAGE_MAX + 1) > 0);
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (strstr(text, absent[i]))
            fail_msg("the page has %s", absent[i]);
    for (; (at = strstr(at, "http:")) != NULL; at++)
        assert_memory_equal(at, "http://www.w3.org/2000/svg'", 27);
}

/* Shows the page, with the checks in it. */
static void
open_page(struct fleet *f)
{
    static char checks[BROWSER_SCRIPT_MAX];
    char url[64];

    (void)snprintf(
        url, sizeof url, "http://127.0.0.1:%u/",
        (unsigned)daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
    browser_start(&browser, "");
    browser_visit(&browser, url, WATCH);
    (void)file_read("tests/e2e/page_checks.js", checks, sizeof checks - 16);
    strcat(checks, "'loaded'");
    assert_string_equal(browser_run(&browser, checks), "loaded");
}

CASE(peer_a_browser_shows_what_is_counted, f)
{
    browser_or_skip();
    service_start(f);
    put_counts(f);
    /* Something that needs an operator, for the page to say. */
    file_put(file_path(f->path, "log/bad-0000000900-1"), "", 0);
    open_page(f);
    expect_checked(&browser, "check_views()");
    set_width(&browser, 420, 900);
    expect_checked(&browser, "check_narrow()");
    set_width(&browser, 375, 900);
    expect_checked(&browser, "check_narrow()");
    browser_stop(&browser);
}

CASE(peer_a_browser_shows_first_steps_where_nothing_is_counted, f)
{
    char check[32];

    browser_or_skip();
    fleet_option(f, "http.listen=127.0.0.1:0");
    service_start(f);
    open_page(f);
    (void)snprintf(check, sizeof check, "check_empty(%u)",
                   (unsigned)daemon_port(fleet_daemon(f, FLEET_WRITE), "http"));
    expect_checked(&browser, check);
    take_picture(&browser, "empty", 1000, "light");
    take_picture(&browser, "empty", 375, "dark");
    browser_stop(&browser);
}

CASE(peer_a_browser_shows_no_port_where_nothing_is_taken_over_http, f)
{
    browser_or_skip();
    fleet_option(f, "http.listen=");
    service_start(f);
    open_page(f);
    expect_checked(&browser, "check_empty_without_http()");
    browser_stop(&browser);
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

    browser_or_skip();
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
    browser_stop(&browser);
}

CASE(peer_a_browser_asks_for_a_token_where_one_is_needed, f)
{
    browser_or_skip();
    service_set_tokens(f, "boss admin " BOSS "\n");
    service_start(f);
    service_add(f, "pages", "/index", 1);
    assert_int_equal(setenv("COUNTD_TOKEN", BOSS, 1), 0);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(unsetenv("COUNTD_TOKEN"), 0);
    open_page(f);
    expect_checked(&browser, "check_token('" BOSS "')");
    browser_stop(&browser);
}
