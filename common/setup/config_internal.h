/* common/setup/config_internal.h - what the files of config.h share.  Internal:
 * config.c (the table, values), config_file.c, config_check.c,
 * config_daemon.c. */
#ifndef COUNTD_COMMON_SETUP_CONFIG_INTERNAL_H
#define COUNTD_COMMON_SETUP_CONFIG_INTERNAL_H

#include "common/setup/config.h"
#include "common/wire/name.h"

/* No setting has a longer name than history.NAME. */
#define CONFIG_KEY_SIZE (NAME_TEXT_SIZE + 16)

/* Bytes of a bad key or value shown in an error; and what they take escaped,
 * with "..." and NUL. */
#define CONFIG_SHOWN_SIZE 48
#define CONFIG_SHOWN_TEXT (4 * CONFIG_SHOWN_SIZE + 4)

/* Says why not; returns rc. */
int config_fail(char *why, size_t why_size, int rc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Bytes from outside as they may be shown: escaped, and cut.  Returns text. */
const char *config_show(const char *bytes, size_t size,
                        char text[CONFIG_SHOWN_TEXT]);

/* Reads a number without a unit.  -EINVAL, -ERANGE. */
int config_count(const char *text, uint64_t *count);

#endif
