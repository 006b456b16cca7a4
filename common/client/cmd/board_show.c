/* common/client/cmd/board_show.c - see cmd_terminal.h: board_show_slots(),
 * board_show_sum() and board_show_info() print once, board_show_live() until it
 * is stopped. */
#include "common/client/cmd/cmd_terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/board/board_internal.h"

#define LIVE_MS 1000

static const struct table_column slot_columns[] = {
    {"slot", "slot", true},   {"generation", "generation", true},
    {"part", "part", false},  {"owner", "owner", true},
    {"index", "index", true}, {"name", "name", false},
    {"value", "value", true},
};

/* ---- slots ------------------------------------------------------------- */

/* A row for each of `count` integers, the first of which has the name `name`.
 */
static void
print_values(struct output *out, const struct countd_board *b, uint32_t slot,
             struct cell generation, const char *part, struct cell owner,
             uint32_t name, const int64_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        output_row(out, (const struct cell[]){
                            cell_number(slot),
                            generation,
                            cell_text(part),
                            owner,
                            cell_number(i),
                            cell_text(countd_board_name(b, name + i)),
                            cell_number(values[i]),
                        });
}

static int
show_slot(struct output *out, struct countd_board *b,
          const struct countd_board_shape *shape, uint32_t slot)
{
    int64_t values[COUNTD_BOARD_VALUES_MAX];
    uint64_t generation;
    char part[32];
    pid_t owner;
    int rc;

    rc = countd_board_read(b, slot, values, &generation);
    if (rc < 0)
        return rc;
    print_values(out, b, slot, cell_number((int64_t)generation), "shared",
                 cell_none(), 0, values, shape->shared_count);
    for (uint32_t c = 0; c < shape->cells; c++) {
        rc = countd_board_read_cell(b, slot, c, values, &owner);
        if (rc < 0)
            return rc;
        (void)snprintf(part, sizeof part, "cell %" PRIu32, c);
        print_values(out, b, slot, cell_none(), part,
                     owner == 0 ? cell_none() : cell_number(owner),
                     shape->shared_count, values, shape->private_count);
    }
    return 0;
}

int
board_show_slots(const struct cmd_line *line, struct countd_board *b,
                 uint32_t first, uint32_t end)
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

int
board_show_sum(const struct cmd_line *line, int64_t sum)
{
    struct output out;

    output_init(&out, line, NULL, 0);
    output_fact(&out, "sum", cell_number(sum));
    output_text(&out, "%" PRId64 "\n", sum);
    return output_fini(&out);
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
    else if (board_is_busy(word) && !board_process_alive(b, writer))
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
    if (value.kind == CELL_BOOL)
        output_text(out, "%s\t%s\n", name, value.number ? "yes" : "no");
    else
        output_text(out, "%s\t%" PRId64 "\n", name, value.number);
}

int
board_show_info(struct cmd_line *line, struct countd_board *b,
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
    print_fact(&out, "master_alive", cell_bool(i.master_alive != 0));
    print_fact(&out, "processes", cell_number(i.processes));
    print_fact(&out, "recovered", cell_number((int64_t)i.recovered));
    print_fact(&out, "busy", cell_number((int64_t)c.busy));
    print_fact(&out, "abandoned", cell_number((int64_t)c.abandoned));
    print_fact(&out, "damaged", cell_number((int64_t)c.damaged));
    status = output_fini(&out);
    return c.damaged > 0 ? CONFIG_EXIT_SYSTEM : status;
}

/* ---- live -------------------------------------------------------------- */

static void
live_values(struct screen *s, const char *what, const int64_t *values,
            uint32_t count)
{
    char text[SCREEN_WIDTH_MAX];
    bool any = false;
    size_t at = 0;

    for (uint32_t i = 0; i < count && at < sizeof text; i++) {
        any |= values[i] != 0;
        at += (size_t)snprintf(text + at, sizeof text - at, " %" PRId64,
                               values[i]);
    }
    if (any)
        screen_line(s, "%-16s%s", what, text);
}

static void
live_slot(struct screen *s, struct countd_board *b,
          const struct countd_board_shape *shape, uint32_t slot)
{
    int64_t values[COUNTD_BOARD_VALUES_MAX];
    uint64_t generation;
    char what[64];
    pid_t owner;

    (void)snprintf(what, sizeof what, "%" PRIu32, slot);
    if (countd_board_read(b, slot, values, &generation) == 0)
        live_values(s, what, values, shape->shared_count);
    for (uint32_t c = 0; c < shape->cells; c++) {
        (void)snprintf(what, sizeof what, "%" PRIu32 " cell %" PRIu32, slot, c);
        if (countd_board_read_cell(b, slot, c, values, &owner) == 0)
            live_values(s, what, values, shape->private_count);
    }
}

int
board_show_live(struct cmd_line *line, struct countd_board *b,
                const struct countd_board_shape *shape)
{
    struct countd_board_info info;
    struct screen s;
    const int status = screen_open(&s);

    (void)line; /* it has no options */
    if (status != 0)
        return status;
    do {
        countd_board_info(b, &info);
        screen_begin(&s);
        screen_title(&s, "%" PRIu32 " slots, %u writing, master %ld %s",
                     shape->slots, info.processes, (long)info.master,
                     info.retired        ? "replaced: start again"
                     : info.master_alive ? "alive"
                                         : "dead");
        for (uint32_t i = 0; i < shape->slots && s.lines < s.height; i++)
            live_slot(&s, b, shape, i);
        screen_end();
    } while (screen_wait(&s, LIVE_MS));
    screen_close(&s);
    return CONFIG_EXIT_OK;
}
