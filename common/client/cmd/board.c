/* common/client/cmd/board.c - countd board: shows boards.  Read from the end:
 * cmd_board(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/board/board_internal.h"
#include "common/client/cmd/cmd.h"

static const struct table_column slot_columns[] = {
    {"slot", "slot", true},   {"generation", "generation", true},
    {"part", "part", false},  {"owner", "owner", true},
    {"index", "index", true}, {"name", "name", false},
    {"value", "value", true},
};

/* ---- slots ------------------------------------------------------------- */

/* What rows of `count` integers have in common; each integer is a row. */
struct value_rows {
    uint32_t slot;
    const char *part;
    struct cell generation, owner;
    uint32_t name; /* number of the first value's name */
    uint32_t count;
};

static void
print_values(struct output *out, const struct countd_board *b,
             const struct value_rows *r, const int64_t *values)
{
    for (uint32_t i = 0; i < r->count; i++)
        output_row(out, (const struct cell[]){
                            cell_number(r->slot),
                            r->generation,
                            cell_text(r->part),
                            r->owner,
                            cell_number(i),
                            cell_text(countd_board_name(b, r->name + i)),
                            cell_number(values[i]),
                        });
}

static int
show_slot(struct output *out, struct countd_board *b,
          const struct countd_board_shape *shape, uint32_t slot)
{
    int64_t values[COUNTD_BOARD_VALUES_MAX];
    struct value_rows rows;
    uint64_t generation;
    char part[32];
    pid_t owner;
    int rc;

    rc = countd_board_read(b, slot, values, &generation);
    if (rc < 0)
        return rc;
    rows = (struct value_rows){.slot = slot,
                               .part = "shared",
                               .generation = cell_number((int64_t)generation),
                               .owner = cell_none(),
                               .count = shape->shared_count};
    print_values(out, b, &rows, values);
    for (uint32_t c = 0; c < shape->cells; c++) {
        rc = countd_board_read_cell(b, slot, c, values, &owner);
        if (rc < 0)
            return rc;
        (void)snprintf(part, sizeof part, "cell %" PRIu32, c);
        rows = (struct value_rows){.slot = slot,
                                   .part = part,
                                   .generation = cell_none(),
                                   .owner = owner == 0 ? cell_none()
                                                       : cell_number(owner),
                                   .name = shape->shared_count,
                                   .count = shape->private_count};
        print_values(out, b, &rows, values);
    }
    return 0;
}

static int
print_slots(const struct cmd_line *line, struct countd_board *b, uint32_t first,
            uint32_t end)
{
    struct countd_board_info info;
    struct output out;
    int rc = 0, status;

    countd_board_info(b, &info);
    output_init(&out, line, OUTPUT_COLUMNS(slot_columns));
    for (uint32_t i = first; i < end && rc == 0; i++)
        rc = show_slot(&out, b, &info.shape, i);
    output_rows_end(&out);
    status = output_fini(&out);
    if (rc == 0)
        return status;
    return cmd_failed(rc, "read the board");
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
print_info(struct cmd_line *line, struct countd_board *b,
           const struct countd_board_shape *shape)
{
    struct countd_board_info i;
    struct checked c;
    struct output out;
    int status;

    countd_board_info(b, &i);
    c = check_blocks(b, shape);
    output_init(&out, line, NULL, 0);
    print_fact(&out, "slots", cell_number(i.shape.slots));
    print_fact(&out, "shared", cell_number(i.shape.shared_count));
    print_fact(&out, "private", cell_number(i.shape.private_count));
    print_fact(&out, "cells", cell_number(i.shape.cells));
    print_fact(&out, "created_ms", cell_number((int64_t)i.created_ms));
    print_fact(&out, "master", cell_number(i.master));
    print_fact(&out, "master_alive",
               i.master_alive == COUNTD_BOARD_UNKNOWN
                   ? cell_none()
                   : cell_bool(i.master_alive == COUNTD_BOARD_ALIVE));
    print_fact(&out, "processes", cell_number(i.processes));
    print_fact(&out, "recovered", cell_number((int64_t)i.recovered));
    print_fact(&out, "busy", cell_number((int64_t)c.busy));
    print_fact(&out, "abandoned", cell_number((int64_t)c.abandoned));
    print_fact(&out, "damaged", cell_number((int64_t)c.damaged));
    status = output_fini(&out);
    return c.damaged > 0 ? CONFIG_EXIT_SYSTEM : status;
}

static int
attach_board(const char *path, unsigned flags, struct countd_board **out)
{
    char error[COUNTD_BOARD_ERROR_SIZE];
    const int rc =
        countd_board_attach(out, path, NULL, flags, error, sizeof error);

    if (rc == 0)
        return 0;
    return cmd_fail(CONFIG_EXIT_SYSTEM, "%s", error);
}

/* Attaches the board that the line names, and runs. */
static int
with_board(struct cmd_line *line, unsigned flags,
           int (*run)(struct cmd_line *line, struct countd_board *b,
                      const struct countd_board_shape *shape))
{
    struct countd_board_info info;
    struct countd_board *b;
    int status = attach_board(line->args[1], flags, &b);

    if (status != 0)
        return status;
    countd_board_info(b, &info);
    status = run(line, b, &info.shape);
    countd_board_close(b);
    return status;
}

/* ---- which ------------------------------------------------------------- */

static int
show_info(struct cmd_line *line)
{
    return with_board(line, COUNTD_BOARD_READ_ONLY | COUNTD_BOARD_ORPHAN,
                      print_info);
}

static int
print_slot(struct cmd_line *line, struct countd_board *b,
           const struct countd_board_shape *shape)
{
    const uint32_t slot = (uint32_t)cmd_number(line, line->args[2], "slot", 0,
                                               (int64_t)shape->slots - 1);

    return *line->status != 0 ? *line->status
                              : print_slots(line, b, slot, slot + 1);
}

static int
read_slot(struct cmd_line *line)
{
    return with_board(line, COUNTD_BOARD_READ_ONLY, print_slot);
}

static int
print_all(struct cmd_line *line, struct countd_board *b,
          const struct countd_board_shape *shape)
{
    return print_slots(line, b, 0, shape->slots);
}

static int
dump_slots(struct cmd_line *line)
{
    return with_board(line, COUNTD_BOARD_READ_ONLY | COUNTD_BOARD_ORPHAN,
                      print_all);
}

int
cmd_board(struct cmd_line *line)
{
    static const struct cmd_verb verbs[] = {{"info", 2, 2, show_info},
                                            {"read", 3, 3, read_slot},
                                            {"dump", 2, 2, dump_slots}};

    return cmd_run_verb(line, verbs, sizeof verbs / sizeof verbs[0]);
}
