/* common/client/cmd/cmd_value.c - see cmd.h: names, numbers and durations of a
 * command line. */
#include "common/client/cmd/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/wire/increment_line.h"

#define SHOWN_SIZE 64 /* bytes of a bad argument that an error shows */
#define DAY_MS     ((uint64_t)24 * 3600 * 1000)

int
cmd_name(const struct cmd_line *line, const char *text, const char *what,
         struct cmd_name *out)
{
    const size_t length = strlen(text);
    int size;

    if (!line->raw) {
        size = name_unescape(text, length, out->bytes, sizeof out->bytes);
    } else if (length > sizeof out->bytes) {
        size = -ENAMETOOLONG;
    } else {
        memcpy(out->bytes, text, length);
        size = (int)length;
    }

    if (size > 0) {
        out->size = (size_t)size;
        return 0;
    }
    if (size == -ENAMETOOLONG || size == 0)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "the %s is %s; names have 1 to %d bytes", what,
                        size == 0 ? "empty" : "too long", NAME_MAX_SIZE);
    return cmd_fail(CONFIG_EXIT_USAGE,
                    "the %s has a bad escape; write a backslash as \\\\, a "
                    "byte as \\xHH (not 00)",
                    what);
}

int
cmd_run_verb(struct cmd_line *line, const struct cmd_verb *verbs, size_t count)
{
    const char *word = line->arg_count > 0 ? line->args[0] : "";

    for (const struct cmd_verb *v = verbs; v < verbs + count; v++)
        if (strcmp(word, v->word) == 0 && line->arg_count >= v->min &&
            (v->max < 0 || line->arg_count <= v->max))
            return v->run(line);
    return cmd_usage(line);
}

int
cmd_number(const char *text, const char *what, int64_t min, int64_t max,
           int64_t *out)
{
    char shown[4 * SHOWN_SIZE + 1];

    if (increment_number_parse(text, strlen(text), out) == 0 && *out >= min &&
        *out <= max)
        return 0;
    (void)name_escape((const uint8_t *)text, strnlen(text, SHOWN_SIZE), shown);
    return cmd_fail(CONFIG_EXIT_USAGE,
                    "%s: \"%s\" is wrong; give a number, %" PRId64
                    " to %" PRId64,
                    what, shown, min, max);
}

int
cmd_option_number(const struct cmd_line *line, const char *option, int64_t min,
                  int64_t max, int64_t def, int64_t *out)
{
    const char *text = cmd_value(line, option);
    char what[32];

    *out = def;
    (void)snprintf(what, sizeof what, "%s%s", option[1] == '\0' ? "-" : "--",
                   option);
    return text ? cmd_number(text, what, min, max, out) : 0;
}

int
cmd_option_ms(const struct cmd_line *line, const char *option, uint64_t def,
              uint64_t *out)
{
    const char *text = cmd_value(line, option);

    *out = def;
    if (text == NULL || (config_duration(text, out) == 0 && *out <= DAY_MS))
        return 0;
    return cmd_misuse(line, text,
                      "give a duration of at most 1d, such as 10 (seconds), "
                      "500ms or 2m");
}
