/* tests/lib/script.c - see script.h. */
#include "tests/lib/script.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

char *
script_next(char **at, unsigned *line)
{
    char *from = *at, *to;
    int open = 0;

    for (to = from; *to != '\0'; to++) {
        open += *to == '{';
        open -= *to == '}';
        if (*to != '\n')
            continue;
        ++*line;
        if (open <= 0 && (to == from || to[-1] != '\\'))
            break;
    }
    if (*to != '\0')
        *to++ = '\0';
    *at = to;
    return from;
}

void
script_add(struct script *s, const char *format, ...)
{
    va_list list;
    int size;

    va_start(list, format);
    size = vsnprintf(s->text + s->size, sizeof s->text - s->size, format, list);
    va_end(list);
    assert_true(size >= 0 && (size_t)size < sizeof s->text - s->size);
    s->size += (size_t)size;
}

void
script_add_command(struct script *s, const char *command, const char *where)
{
    const char *comment = strstr(command, " # "), *status;
    int wanted = 0;

    comment = comment ? comment + 3 : "";
    status = strstr(comment, "status ");
    if (status != NULL)
        wanted = atoi(status + 7);
    if (strstr(command, "/hold") != NULL) {
        /* The pipe is open when the command behind -- runs. */
        s->holds = true;
        script_add(s, "mkfifo hold\n%.*s & exec 8>hold\n",
                   (int)(strstr(command, "/hold") + 5 - command), command);
    } else if (*comment != '\0' &&
               strspn(comment, "0123456789") == strlen(comment)) {
        script_add(s,
                   "got=$(%s\n)\ncheck $? 0 '%s'\n[ \"$got\" = '%s' ] || "
                   "{ echo \"%s it prints '$got', not '%s'\"; exit 99; }\n",
                   command, where, comment, where, comment);
    } else {
        script_add(s, "%s\ncheck $? %d '%s'\n", command, wanted, where);
    }
}

void
script_begin(struct script *s)
{
    s->size = 0;
    s->holds = false;
    script_add(s, "check() { [ $1 = $2 ] || "
                  "{ echo \"$3 status $1, not $2\"; exit 99; }; }\n");
}

void
script_end(struct script *s, const char *where)
{
    if (s->holds)
        script_add(s,
                   "exec 8>&-\nwait $!\ncheck $? 0 '%s what holds'\nrm hold\n",
                   where);
}
