/* tests/e2e/test_library.c - libcountd as its users meet it: linked from C++, and
 * waiting for the real daemons.  Its manual's examples run in test_words.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/client/lib/countd.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define WAIT_MS 20000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static int
setup(void **state)
{
    assert_int_equal(service_setup(state), 0);
    fleet_option(*state, "log.rotate_after=20ms");
    service_start(*state);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, setup, service_teardown)

static void
open_client(struct fleet *f, struct countd **out)
{
    char write[64], ask[64];
    struct countd_options o = {.size = sizeof o, .write = write, .read = ask};

    snprintf(write, sizeof write, "127.0.0.1:%u", fleet_ack_port(f));
    snprintf(ask, sizeof ask, "127.0.0.1:%u", fleet_ask_port(f));
    assert_rc(countd_open(out, &o), 0);
}

/* ---- waiting ----------------------------------------------------------- */

CASE(what_was_waited_for_is_readable, f)
{
    struct countd *c;
    int64_t count;

    open_client(f, &c);
    for (int i = 1; i <= 5; i++) {
        assert_rc(countd_incr(c, "pages", 5, "/a", 2, 1), 0);
        assert_rc(countd_wait_readable(c, "pages", 5, WAIT_MS), 0);
        assert_rc(countd_get(c, "pages", 5, "/a", 2, &count), 0);
        assert_int_equal(count, i);
    }
    assert_rc(countd_incr(c, "other", 5, "/b", 2, 1), 0);
    assert_rc(countd_wait_readable(c, NULL, 0, WAIT_MS), 0);
    assert_rc(countd_get(c, "other", 5, "/b", 2, &count), 0);
    assert_int_equal(countd_close(c), 0);
}

CASE(without_a_worker_waiting_ends_at_its_timeout, f)
{
    struct countd *c;

    open_client(f, &c);
    fleet_stop(f, FLEET_WORKER);
    assert_rc(countd_incr(c, "pages", 5, "/a", 2, 1), 0);
    assert_rc(countd_wait_readable(c, "pages", 5, 100), -ETIMEDOUT);
    fleet_start(f, FLEET_WORKER);
    assert_rc(countd_wait_readable(c, "pages", 5, WAIT_MS), 0);
    assert_int_equal(countd_close(c), 0);
}

/* ---- other languages --------------------------------------------------- */

static bool
has_program(const char *program)
{
    char script[64];

    snprintf(script, sizeof script, "command -v %s", program);
    return daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL) == 0;
}

CASE(a_cpp_program_counts_and_reads, f)
{
    static const char script[] =
        "cat > \"$3/app.cc\" <<'EOF'\n"
        "#include \"common/client/lib/countd.h\"\n"
        "#include <cstdio>\n"
        "int main(int, char **argv) {\n"
        "  countd_options o = {};\n"
        "  o.size = sizeof o; o.write = argv[1]; o.read = argv[2];\n"
        "  countd_query q = {};\n"
        "  q.keyspace = \"pages\"; q.keyspace_size = 5; q.length = 10;\n"
        "  countd *c = nullptr; countd_rows *top = nullptr;\n"
        "  if (countd_open(&c, &o) < 0) return 1;\n"
        "  for (int i = 0; i < 9; i++)\n"
        "    countd_incr(c, \"pages\", 5, i % 3 ? \"/a\" : \"/b\", 2, 1);\n"
        "  if (countd_wait_readable(c, \"pages\", 5, 20000) < 0) return 2;\n"
        "  if (countd_range(c, &q, &top) < 0) return 3;\n"
        "  for (size_t i = 0; i < top->count; i++)\n"
        "    std::printf(\"%.*s %lld\\n\", int(top->rows[i].key_size),\n"
        "      top->rows[i].key, (long long)top->rows[i].count);\n"
        "  countd_rows_free(top);\n"
        "  return countd_close(c) != 0;\n"
        "}\n"
        "EOF\n"
        "g++ -Wall -Wextra -Wpedantic -Werror -I. -o \"$3/app\" \"$3/app.cc\" "
        "\\\n"
        "  -L\"$BUILD\" -lcountd\n"
        "LD_LIBRARY_PATH=$BUILD \"$3/app\" \"$1\" \"$2\"\n";
    char write[64], ask[64];

    if (!has_program("g++"))
        test_skip("there is no g++");
    if (SANITIZED)
        test_skip("the library needs the sanitizer's run-time");
    snprintf(write, sizeof write, "127.0.0.1:%u", fleet_ack_port(f));
    snprintf(ask, sizeof ask, "127.0.0.1:%u", fleet_ask_port(f));
    expect_text(daemon_run(text, sizeof text, "/bin/sh", "-euc", script, "sh",
                           write, ask, f->path, NULL),
                0, "/a 6\n/b 3\n");
}
