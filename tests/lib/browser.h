/* tests/lib/browser.h - a real browser, Debian's chromium, that a test drives.
 *
 * It is talked to over --remote-debugging-pipe: JSON, each message with a NUL
 * behind it, on its descriptors 3 and 4.
 *
 *     browser_or_skip();
 *     browser_start(&b, "");
 *     browser_visit(&b, "http://127.0.0.1:8080/", "");
 *     assert_string_equal(browser_run(&b, "document.title"), "countd");
 *     browser_stop(&b);
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_BROWSER_H
#define COUNTD_TESTS_LIB_BROWSER_H

#include <unistd.h>

#include "tests/lib/daemon.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

#define BROWSER            "/usr/bin/chromium"
#define BROWSER_SCRIPT_MAX 32768 /* bytes of what it evaluates */

#define browser_or_skip()                                                      \
    do {                                                                       \
        if (access(BROWSER, X_OK) != 0)                                        \
            test_skip("no " BROWSER " (Debian's package chromium)");           \
    } while (0)

struct browser {
    struct daemon daemon;
    struct tmpdir home;
    int to, from;
    unsigned id;
    char session[64];
    char reply[1 << 20]; /* the answer to the last call */
    size_t size;
};

/* With these options beside its own. */
void browser_start(struct browser *b, const char *options);
void browser_stop(struct browser *b);

/* Opens an address in a new tab; `first` is a script that runs before its
 * page's. */
void browser_visit(struct browser *b, const char *url, const char *first);

/* Calls a method of its protocol. */
void browser_call(struct browser *b, const char *method,
                  const char *parameters);

/* Evaluates what returns a text, or a promise of one; valid until the next
 * call. */
const char *browser_run(struct browser *b, const char *expression);

#endif
