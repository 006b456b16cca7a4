/* common/client/cmd/seq.c - countd seq: sequence numbers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/client/cmd/cmd.h"
#include "common/wire/sequence.h"

#define COUNT_MAX 1000000000
#define AT_ONCE   4096

/* ---- explain ------------------------------------------------------------ */

static int
explain_number(const struct cmd_line *line, const char *text)
{
    static const struct table_column columns[] = {
        {"reserve", "reserve", true},
        {"server_no", "server_no", true},
        {"second", "second", true},
        {"serial", "serial", true}};
    struct sequence_parts p;
    char words[SEQUENCE_TEXT_SIZE];
    struct output out;
    size_t size = 0;

    tzset();
    if (sequence_parse(text, strlen(text), &p))
        size = sequence_explain(&p, words);
    if (size == 0)
        return cmd_fail(CONFIG_EXIT_NEGATIVE,
                        "%s is not a sequence number (16 characters, as "
                        "countd seq prints)",
                        text);
    const struct cell cells[] = {
        cell_number((int64_t)p.reserve), cell_number((int64_t)p.server_no),
        cell_number((int64_t)p.second), cell_number((int64_t)p.serial)};

    output_init(&out, line, OUTPUT_COLUMNS(columns));
    for (size_t i = 0; i < out.column_count; i++)
        output_fact(&out, columns[i].key, cells[i]);
    if (out.format == OUTPUT_TSV)
        output_row(&out, cells);
    else
        output_text(&out, "%.*s", (int)size, words);
    output_fini(&out);
    return CONFIG_EXIT_OK;
}

/* ---- numbers ------------------------------------------------------------ */

static int
print_numbers(const struct cmd_line *line, int64_t count)
{
    static const struct table_column columns[] = {{"number", "number", false}};
    static struct countd_number numbers[AT_ONCE];
    struct countd_http *h;
    struct output out;
    int rc = 0, status = cmd_http_open(line, CMD_SEQUENCE, &h);

    if (status != 0)
        return status;
    output_init(&out, line, columns, 1);
    while (rc == 0 && count > 0 && !ferror(stdout)) {
        const size_t some = count < AT_ONCE ? (size_t)count : AT_ONCE;

        rc = countd_seq(h, numbers, some);
        for (size_t i = 0; rc == 0 && i < some; i++) {
            const struct cell cell = cell_text(numbers[i].text);

            if (out.format == OUTPUT_JSON)
                output_row(&out, &cell);
            else
                (void)puts(numbers[i].text);
        }
        count -= (int64_t)some;
    }
    countd_http_close(h);
    if (rc < 0)
        return cmd_peer_failed(line, CMD_SEQUENCE, rc);
    output_fini(&out);
    return CONFIG_EXIT_OK;
}

int
cmd_seq(struct cmd_line *line)
{
    const bool explains =
        line->arg_count > 0 && strcmp(line->args[0], "explain") == 0;
    int64_t count = 1;

    if (explains && line->arg_count == 2)
        return explain_number(line, line->args[1]);
    if (explains || line->arg_count > 1)
        return cmd_usage(line);
    if (line->arg_count == 1)
        count = cmd_number(line, line->args[0], "N", 1, COUNT_MAX);
    return print_numbers(line, count);
}
