/* tests/e2e/test_library.c - libcountd as its users meet it: linked from C++,
 * loaded by Python, and waiting for the real daemons. */
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

/* Runs a script with the ports in $1 and $2, and that of ranges in $4. */
static void
run_script(struct fleet *f, const char *script, const char *wanted)
{
    char write[64], ask[64], range[64];

    snprintf(write, sizeof write, "127.0.0.1:%u", fleet_ack_port(f));
    snprintf(ask, sizeof ask, "127.0.0.1:%u", fleet_ask_port(f));
    snprintf(range, sizeof range, "127.0.0.1:%u", fleet_read_port(f));
    expect_text(daemon_run(text, sizeof text, "/bin/sh", "-euc", script, "sh",
                           write, ask, f->path, range, NULL),
                0, wanted);
}

static bool
has(const char *program)
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

    if (!has("g++"))
        test_skip("there is no g++");
    if (SANITIZED)
        test_skip("the library needs the sanitizer's run-time");
    run_script(f, script, "/a 6\n/b 3\n");
}

CASE(the_example_of_the_manual_counts_a_million, f)
{
    static const char script[] =
        "awk '/^#include <countd.h>/ { on = 1 } /^.Ed/ { on = 0 } on' "
        "common/client/lib/libcountd.3 |\n"
        "sed 's/i < 1000;/i < 1000000;/; s/, NULL) < 0/, OPTIONS) < 0/; "
        "s/\\\\e/\\\\/g' \\\n"
        "  > \"$3/app.c\"\n"
        "grep -q 'i < 1000000;' \"$3/app.c\"\n"
        "cc -Wall -Wextra -Werror -Icommon/client/lib -o \"$3/app\" \\\n"
        "  -DOPTIONS=\"&(struct countd_options){sizeof(struct countd_options), "
        "\\\"$1\\\", \\\"$2\\\"}\" \\\n"
        "  -Wno-missing-field-initializers \"$3/app.c\" -L\"$BUILD\" "
        "-lcountd\n"
        "LD_LIBRARY_PATH=$BUILD \"$3/app\"\n";

    if (SANITIZED)
        test_skip("the library needs the sanitizer's run-time");
    run_script(f, script, "/index 666666\n/about 333334\n");
}

CASE(the_python_example_of_the_format_prints_what_it_counted, f)
{
    static const char script[] =
        "awk '/^import socket/ { on = 1 } /^```/ { on = 0 } on' "
        "data/FORMAT.md |\n"
        "sed \"s/48881/${1##*:}/; s/48880/${4##*:}/\" > \"$3/app.py\"\n"
        "python3 \"$3/app.py\"\n";

    if (!has("python3"))
        test_skip("there is no python3");
    run_script(f, script, "/index 1\n");
}

CASE(python_loads_the_library_and_counts, f)
{
    static const char script[] =
        "LD_LIBRARY_PATH=$BUILD python3 - \"$1\" \"$2\" <<'EOF'\n"
        "import ctypes, sys\n"
        "lib = ctypes.CDLL('libcountd.so.0')\n"
        "class Options(ctypes.Structure):\n"
        "    _fields_ = [('size', ctypes.c_size_t), ('write', "
        "ctypes.c_char_p),\n"
        "                ('read', ctypes.c_char_p)]\n"
        "o = Options(ctypes.sizeof(Options), *(a.encode() for a in "
        "sys.argv[1:]))\n"
        "size, n64 = ctypes.c_size_t, ctypes.c_int64\n"
        "lib.countd_incr.argtypes = [ctypes.c_void_p, ctypes.c_char_p, size,\n"
        "                            ctypes.c_char_p, size, n64]\n"
        "lib.countd_get.argtypes = lib.countd_incr.argtypes[:5] + "
        "[ctypes.POINTER(n64)]\n"
        "lib.countd_wait_readable.argtypes = [ctypes.c_void_p, "
        "ctypes.c_char_p,\n"
        "                                     size, ctypes.c_int]\n"
        "lib.countd_close.argtypes = [ctypes.c_void_p]\n"
        "lib.countd_close.restype = n64\n"
        "c, count = ctypes.c_void_p(), n64()\n"
        "assert lib.countd_open(ctypes.byref(c), ctypes.byref(o)) == 0\n"
        "for _ in range(42):\n"
        "    assert lib.countd_incr(c, b'pages', 5, b'/py', 3, 1) == 0\n"
        "assert lib.countd_wait_readable(c, b'pages', 5, 20000) == 0\n"
        "assert lib.countd_get(c, b'pages', 5, b'/py', 3, ctypes.byref(count)) "
        "== 0\n"
        "print(count.value, lib.countd_close(c))\n"
        "EOF\n";

    if (!has("python3"))
        test_skip("there is no python3");
    if (SANITIZED)
        test_skip("a sanitizer wants to be loaded before python is");
    run_script(f, script, "42 0\n");
}
