/* common/client/cmd/board.c - countd board: shows boards.  Read from the end:
 * cmd_board(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/board/board_internal.h"
#include "common/client/cmd/cmd.h"

/* Positions of these columns. */
enum { SLOT, GENERATION, PART, OWNER, INDEX, NAME, VALUE, COLUMNS };

static const struct table_column slot_columns[COLUMNS] = {
    {"slot", "slot", true},   {"generation", "generation", true},
    {"part", "part", false},  {"owner", "owner", true},
    {"index", "index", true}, {"name", "name", false},
    {"value", "value", true},
};

/* ---- slots ------------------------------------------------------------- */

/* Prints a value; `cells` have what it shares with others. */
static void
print_value(struct output *out, struct cell *cells, uint32_t index,
            const char *name, int64_t value)
{
    cells[INDEX] = cell_number(index);
    cells[NAME] = cell_text(name);
    cells[VALUE] = cell_number(value);
    output_row(out, cells);
}

static int
show_slot(struct output *out, struct countd_board *b,
          const struct countd_board_shape *shape, uint32_t slot)
{
    int64_t values[COUNTD_BOARD_VALUES_MAX];
    struct cell cells[COLUMNS] = {[SLOT] = cell_number(slot)};
    uint64_t generation;
    char part[32];
    pid_t owner;
    int rc;

    rc = countd_board_read(b, slot, values, &generation);
    if (rc < 0)
        return rc;
    cells[GENERATION] = cell_number((int64_t)generation);
    cells[PART] = cell_text("shared");
    for (uint32_t i = 0; i < shape->shared_count; i++)
        print_value(out, cells, i, countd_board_name(b, i), values[i]);
    cells[GENERATION] = cell_none();
    for (uint32_t c = 0; c < shape->cells; c++) {
        rc = countd_board_read_cell(b, slot, c, values, &owner);
        if (rc < 0)
            return rc;
        (void)snprintf(part, sizeof part, "cell %" PRIu32, c);
        cells[PART] = cell_text(part);
        cells[OWNER] = owner == 0 ? cell_none() : cell_number(owner);
        for (uint32_t i = 0; i < shape->private_count; i++)
            print_value(out, cells, i,
                        countd_board_name(b, shape->shared_count + i),
                        values[i]);
    }
    return 0;
}

static int
print_slots(const struct cmd_line *line, struct countd_board *b,
            const struct countd_board_shape *shape, uint32_t first,
            uint32_t end)
{
    struct output out;
    int rc = 0;

    output_init(&out, line, OUTPUT_COLUMNS(slot_columns));
    for (uint32_t i = first; i < end && rc == 0; i++)
        rc = show_slot(&out, b, shape, i);
    output_fini(&out);
    return rc < 0 ? cmd_failed(rc, "read the board") : CONFIG_EXIT_OK;
}

/* ---- info -------------------------------------------------------------- */

struct checked {
    uint64_t busy, abandoned, damaged;
};

static void
check_block(struct countd_board *b, struct board_block k, bool is_cell,
            struct checked *c)
{
    const uint64_t word = atomic_load(k.word);
    const uint32_t writer = board_writer(word);
    const int64_t owner =
        is_cell ? board_load(board_copy(k, board_generation(word))) : 0;

    if (board_is_busy(word) != (writer != 0) || writer > BOARD_PROCESSES ||
        owner < 0 || owner > (int64_t)BOARD_PROCESSES)
        c->damaged++;
    else if (board_is_busy(word) &&
             board_process_life(b, writer) == COUNTD_BOARD_DEAD)
        c->abandoned++;
    else if (board_is_busy(word))
        c->busy++;
}

static struct checked
check_blocks(struct countd_board *b, const struct countd_board_shape *shape)
{
    struct checked c = {0};

    for (uint32_t s = 0; s < shape->slots; s++) {
        check_block(b, board_shared(b, s), false, &c);
        for (uint32_t i = 0; i < shape->cells; i++)
            check_block(b, board_cell(b, s, i), true, &c);
    }
    return c;
}

/* A fact is a line with a tab. */
static void
print_fact(struct output *out, const char *name, struct cell value)
{
    output_fact(out, name, value);
    if (value.kind == CELL_NONE)
        output_text(out, "%s\tunknown\n", name);
    else if (value.kind == CELL_BOOL)
        output_text(out, "%s\t%s\n", name, value.number ? "yes" : "no");
    else
        output_text(out, "%s\t%" PRId64 "\n", name, value.number);
}

static int
print_info(const struct cmd_line *line, struct countd_board *b,
           const struct countd_board_info *i)
{
    const struct checked c = check_blocks(b, &i->shape);
    struct output out;

    output_init(&out, line, NULL, 0);
    print_fact(&out, "slots", cell_number(i->shape.slots));
    print_fact(&out, "shared", cell_number(i->shape.shared_count));
    print_fact(&out, "private", cell_number(i->shape.private_count));
    print_fact(&out, "cells", cell_number(i->shape.cells));
    print_fact(&out, "created_ms", cell_number((int64_t)i->created_ms));
    print_fact(&out, "master", cell_number(i->master));
    print_fact(&out, "master_alive",
               i->master_alive == COUNTD_BOARD_UNKNOWN
                   ? cell_none()
                   : cell_bool(i->master_alive == COUNTD_BOARD_ALIVE));
    print_fact(&out, "processes", cell_number(i->processes));
    print_fact(&out, "recovered", cell_number((int64_t)i->recovered));
    print_fact(&out, "busy", cell_number((int64_t)c.busy));
    print_fact(&out, "abandoned", cell_number((int64_t)c.abandoned));
    print_fact(&out, "damaged", cell_number((int64_t)c.damaged));
    output_fini(&out);
    return c.damaged > 0 ? CONFIG_EXIT_SYSTEM : CONFIG_EXIT_OK;
}

/* ---- which ------------------------------------------------------------- */

/* Attaches the board that the line names, and prints what the verb wants; `read`
 * wants a board whose master lives. */
static int
show_board(struct cmd_line *line)
{
    const bool is_one = strcmp(line->args[0], "read") == 0;
    char error[COUNTD_BOARD_ERROR_SIZE];
    struct countd_board_info info;
    struct countd_board *b;
    uint32_t first = 0;
    int status;

    if (countd_board_attach(&b, line->args[1], NULL,
                            COUNTD_BOARD_READ_ONLY |
                                (is_one ? 0 : COUNTD_BOARD_ORPHAN),
                            error) < 0)
        return cmd_fail(CONFIG_EXIT_SYSTEM, "%s", error);
    countd_board_info(b, &info);
    if (is_one)
        first = (uint32_t)cmd_number(line, line->args[2], "slot", 0,
                                     (int64_t)info.shape.slots - 1);
    status = *line->status;
    if (status == 0)
        status = strcmp(line->args[0], "info") == 0
                     ? print_info(line, b, &info)
                     : print_slots(line, b, &info.shape, first,
                                   is_one ? first + 1 : info.shape.slots);
    countd_board_close(b);
    return status;
}

int
cmd_board(struct cmd_line *line)
{
    static const struct cmd_verb verbs[] = {{"info", 2, 2, show_board},
                                            {"read", 3, 3, show_board},
                                            {"dump", 2, 2, show_board}};

    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
