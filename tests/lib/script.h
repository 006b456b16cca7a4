/* tests/lib/script.h - the commands of an example as a script that ends with
 * 99, saying which, when one does not do what its comment says.
 *
 *     script_begin(&s);
 *     while (*rest != '\0')
 *         script_add_command(&s, script_next(&rest, &line), "README.md:30:");
 *     script_end(&s, "README.md:30:");
 *     run(s.text);
 *
 * A comment with `status 1` is the exit status, which else is 0; one that is a
 * number is what is printed.  A command that reads the pipe `hold` runs until
 * the script ends, and what comes behind begins when it reads.
 */
#ifndef COUNTD_TESTS_LIB_SCRIPT_H
#define COUNTD_TESTS_LIB_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

struct script {
    char text[64 << 10];
    size_t size;
    bool holds; /* a command waits for the end */
};

void script_begin(struct script *s);

/* Lines as they are, from printf. */
void script_add(struct script *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A command with its comment; `where` begins the message of its failure. */
void script_add_command(struct script *s, const char *command,
                        const char *where);

void script_end(struct script *s, const char *where);

/* Cuts the next command from a text: a line, with those that belong to it by
 * \\ or braces.  *at moves behind it, *line counts its lines. */
char *script_next(char **at, unsigned *line);

#endif
