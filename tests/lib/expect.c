/* tests/lib/expect.c - see expect.h. */
#include "tests/lib/expect.h"

#include <string.h>

#include "tests/lib/test.h"

char text[TEXT_SIZE];

static void
drop_tmpfs_warnings(void)
{
    char *found, *begin, *end;

    while ((found = strstr(text, " is on tmpfs: nothing in it survives"))) {
        for (begin = found; begin > text && begin[-1] != '\n'; begin--)
            continue;
        end = strchr(found, '\n');
        end = end ? end + 1 : found + strlen(found);
        memmove(begin, end, (size_t)(text + TEXT_SIZE - end));
    }
}

int
expect_run(const char *program, const struct daemon_how *how)
{
    const int status = daemon_run_how(text, sizeof text, program, how);

    drop_tmpfs_warnings();
    return status;
}

void
expect(int got, int status, const char *words)
{
    if (got != status || strstr(text, words) == NULL)
        print_error("exit %d, not %d with \"%s\":\n%s\n", got, status, words,
                    text);
    assert_int_equal(got, status);
    assert_non_null(strstr(text, words));
}

void
expect_text(int got, int status, const char *whole)
{
    if (got != status || strcmp(text, whole) != 0)
        print_error("exit %d, not %d:\n%s\n", got, status, text);
    assert_int_equal(got, status);
    assert_string_equal(text, whole);
}
