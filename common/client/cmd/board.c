/* common/client/cmd/board.c - countd board: boards for shells.
 *
 * read, update and add run once and end; create stays as the master of the
 * board.  Read from the end: cmd_board(). */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/board/board_internal.h"
#include "common/client/cmd/cmd_terminal.h"
#include "common/wire/increment_line.h"

#define PATH_TEXT  1024 /* of a message about a path */
#define NAMES_MAX  ((size_t)2 * COUNTD_BOARD_VALUES_MAX)
#define NAMES_SIZE (NAMES_MAX * COUNTD_BOARD_NAME_SIZE)
#define LIVE_MS    1000

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

static int
print_sum(const struct cmd_line *line, int64_t sum)
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

static int
watch_slots(struct cmd_line *line, struct countd_board *b,
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
                     info.retired            ? "replaced: start again"
                     : info.master_alive > 0 ? "alive"
                     : info.master_alive < 0 ? "unknown"
                                             : "dead");
        for (uint32_t i = 0; i < shape->slots && s.lines < s.height; i++)
            live_slot(&s, b, shape, i);
        screen_end();
    } while (screen_wait(&s, LIVE_MS));
    screen_close(&s);
    return CONFIG_EXIT_OK;
}

/* ---- errors ------------------------------------------------------------ */

/* Reports an error of an open board and returns the exit status. */
static int
report_failure(const char *what, int rc)
{
    if (rc == -ESTALE)
        return cmd_fail(CONFIG_EXIT_NEGATIVE,
                        "%s: stale: the slot has changed since that "
                        "generation",
                        what);
    if (rc == -EBUSY)
        diag(DIAG_ERROR,
             "%s: busy: a process is stopped in the middle of an update", what);
    else if (rc == -EPERM)
        diag(DIAG_ERROR, "%s: the cell is owned by another process", what);
    else if (rc == -ENOTCONN)
        diag(DIAG_ERROR, "%s: the board was replaced just now: try again",
             what);
    else if (rc == -ERANGE)
        diag(DIAG_ERROR, "%s: the sum would pass the bounds of 64 bits", what);
    else
        diag_errno(DIAG_ERROR, rc, "%s", what);
    return rc == -EINVAL || rc == -ERANGE ? CONFIG_EXIT_USAGE
                                          : CONFIG_EXIT_SYSTEM;
}

static int
report_misuse(const char *text)
{
    return cmd_fail(CONFIG_EXIT_USAGE, "%s; see countd board -h", text);
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

/* ---- lists ------------------------------------------------------------- */

/* "1,-2,3": the number of values, or -1 and has said why. */
static int
parse_list(const char *text, int64_t *out, size_t max)
{
    size_t count = 0;

    for (;;) {
        const size_t size = strcspn(text, ",");

        if (count == max ||
            increment_number_parse(text, size, &out[count]) < 0) {
            (void)report_misuse(
                "--shared: give as many numbers as the shared part "
                "has, with commas between them");
            return -1;
        }
        count++;
        if (text[size] == '\0')
            return (int)count;
        text += size + 1;
    }
}

/* "0=6,1=8". */
static int
parse_pairs(const char *text, struct countd_board_value *out, size_t max)
{
    size_t count = 0;

    for (;;) {
        const size_t size = strcspn(text, ","), at = strcspn(text, "=");
        int64_t index;

        if (count == max || at >= size ||
            increment_number_parse(text, at, &index) < 0 || index < 0 ||
            index >= COUNTD_BOARD_VALUES_MAX ||
            increment_number_parse(text + at + 1, size - at - 1,
                                   &out[count].value) < 0) {
            (void)report_misuse(
                "--private: give INDEX=VALUE, with commas between "
                "them");
            return -1;
        }
        out[count++].index = (uint32_t)index;
        if (text[size] == '\0')
            return (int)count;
        text += size + 1;
    }
}

/* Cuts "a,b,c" into names; how many, or -1. */
static int
parse_names(const char *text, char *buffer, const char **names)
{
    size_t count = 0;
    char *save, *name;

    if (strlen(text) >= NAMES_SIZE)
        return -1;
    memcpy(buffer, text, strlen(text) + 1);
    for (name = strtok_r(buffer, ",", &save); name && count < NAMES_MAX;
         name = strtok_r(NULL, ",", &save))
        names[count++] = name;
    return name ? -1 : (int)count;
}

/* ---- create ------------------------------------------------------------ */

static int
parse_shape(const struct cmd_line *line, struct countd_board_shape *shape)
{
    int64_t values;

    if (!cmd_value(line, "n") || !cmd_value(line, "s"))
        return report_misuse("create: give -n SLOTS and -s SHARED");
    *shape = (struct countd_board_shape){.size = sizeof *shape};
    shape->slots =
        (uint32_t)cmd_option_number(line, "n", 1, COUNTD_BOARD_SLOTS_MAX, 0);
    shape->shared_count =
        (uint32_t)cmd_option_number(line, "s", 1, COUNTD_BOARD_VALUES_MAX, 0);
    values = cmd_option_number(line, "p", 0, COUNTD_BOARD_VALUES_MAX, 0);
    shape->private_count = (uint32_t)values;
    shape->cells = (uint32_t)cmd_option_number(
        line, "c", 0, COUNTD_BOARD_CELLS_MAX, values > 0);
    return *line->status;
}

static int
name_columns(const struct cmd_line *line, struct countd_board_shape *shape)
{
    static const char *names[NAMES_MAX];
    static char buffer[NAMES_SIZE];
    const char *text = cmd_value(line, "names");
    int count;

    if (!text)
        return 0;
    count = parse_names(text, buffer, names);
    if (count != (int)(shape->shared_count + shape->private_count))
        return report_misuse(
            "--names: give one for each shared and each private "
            "integer, with commas between them");
    shape->names = names;
    return 0;
}

static int
run_create(struct cmd_line *line)
{
    char error[COUNTD_BOARD_ERROR_SIZE];
    struct countd_board_shape shape;
    struct countd_board *b;
    struct interrupt stop;
    int64_t ready_fd;
    int rc, status;

    status = parse_shape(line, &shape);
    if (status == 0)
        status = name_columns(line, &shape);
    ready_fd = cmd_option_number(line, "ready-fd", 0, INT32_MAX, -1);
    if (status == 0)
        status = *line->status;
    if (status != 0)
        return status;
    rc = interrupt_init(&stop);
    if (rc < 0)
        return report_failure("signals", rc);
    rc = countd_board_create(&b, line->args[1], &shape, error, sizeof error);
    if (rc < 0) {
        diag(DIAG_ERROR, "%s", error);
        interrupt_fini(&stop);
        return rc == -EINVAL ? CONFIG_EXIT_USAGE : CONFIG_EXIT_SYSTEM;
    }
    config_ready((int)ready_fd, NULL, 0);
    while (!interrupt_asked(&stop))
        (void)poll(&(struct pollfd){.fd = stop.fd, .events = POLLIN}, 1,
                   -1); /* interrupt_asked() looks */
    countd_board_close(b);
    return CONFIG_EXIT_OK;
}

/* ---- update, add ------------------------------------------------------- */

/* A slot or another index of the command line. */
static uint32_t
parse_index(const struct cmd_line *line, int arg, const char *what,
            uint32_t end)
{
    return (uint32_t)cmd_number(line, line->args[arg], what, 0,
                                (int64_t)end - 1);
}

static uint32_t
parse_cell(const struct cmd_line *line)
{
    return (uint32_t)cmd_option_number(line, "cell", 0,
                                       COUNTD_BOARD_CELLS_MAX - 1, 0);
}

struct board_update {
    uint32_t slot, cell;
    int64_t generation;
    int64_t shared[COUNTD_BOARD_VALUES_MAX];
    struct countd_board_value values[COUNTD_BOARD_VALUES_MAX];
    int shared_count, value_count;
};

static int
parse_update(const struct cmd_line *line, struct board_update *u)
{
    const char *shared = cmd_value(line, "shared");
    const char *values = cmd_value(line, "private");

    if (!shared && !values)
        return report_misuse("update: give --shared or --private");
    if (shared && !cmd_value(line, "gen"))
        return report_misuse(
            "update: --shared needs --gen, the generation that was "
            "read");
    u->generation = cmd_option_number(line, "gen", 0, INT64_MAX, 0);
    u->cell = parse_cell(line);
    if (*line->status != 0)
        return *line->status;
    if (shared)
        u->shared_count =
            parse_list(shared, u->shared, COUNTD_BOARD_VALUES_MAX);
    if (values)
        u->value_count =
            parse_pairs(values, u->values, COUNTD_BOARD_VALUES_MAX);
    return u->shared_count < 0 || u->value_count < 0 ? CONFIG_EXIT_USAGE : 0;
}

static int
run_update(struct cmd_line *line, struct countd_board *b,
           const struct countd_board_shape *shape)
{
    struct board_update u = {.shared_count = 0};
    int rc, cell_rc, status;

    u.slot = parse_index(line, 2, "slot", shape->slots);
    status = *line->status != 0 ? *line->status : parse_update(line, &u);
    if (status != 0)
        return status;
    if (u.shared_count > 0 && u.shared_count != (int)shape->shared_count)
        return report_misuse("update: values size mismatch slot size");
    rc = countd_board_update(b, u.slot, (uint64_t)u.generation,
                             u.shared_count > 0 ? u.shared : NULL, u.cell,
                             u.values, (size_t)u.value_count, &cell_rc);
    if (rc == -EINVAL)
        return report_misuse("update: wrong private index, or no such cell");
    if (cell_rc < 0)
        status = report_failure("private", cell_rc);
    if (u.shared_count > 0 && rc < 0)
        status = report_failure("shared", rc);
    return status;
}

static int
run_add(struct cmd_line *line, struct countd_board *b,
        const struct countd_board_shape *shape)
{
    uint32_t slot, index, cell;
    int64_t delta, sum;
    int rc;

    if (shape->cells == 0)
        return report_misuse("add: this board has no private integers");
    slot = parse_index(line, 2, "slot", shape->slots);
    index = parse_index(line, 3, "index", shape->private_count);
    delta = cmd_number(line, line->args[4], "amount", INT64_MIN, INT64_MAX);
    cell = parse_cell(line);
    if (*line->status != 0)
        return *line->status;
    rc = countd_board_add(b, slot, cell, index, delta, &sum);
    return rc < 0 ? report_failure("add", rc) : print_sum(line, sum);
}

/* ---- the rest ---------------------------------------------------------- */

static int
run_read(struct cmd_line *line, struct countd_board *b,
         const struct countd_board_shape *shape)
{
    const uint32_t slot = parse_index(line, 2, "slot", shape->slots);

    return *line->status != 0 ? *line->status
                              : print_slots(line, b, slot, slot + 1);
}

static int
run_dump(struct cmd_line *line, struct countd_board *b,
         const struct countd_board_shape *shape)
{
    return print_slots(line, b, 0, shape->slots);
}

static const struct verb {
    const char *name;
    int arguments; /* behind it */
    unsigned flags;
    int (*run)(struct cmd_line *line, struct countd_board *b,
               const struct countd_board_shape *shape);
} verbs[] = {
    {"info", 1, COUNTD_BOARD_READ_ONLY | COUNTD_BOARD_ORPHAN, print_info},
    {"read", 2, COUNTD_BOARD_READ_ONLY, run_read},
    {"update", 2, 0, run_update},
    {"add", 4, 0, run_add},
    {"watch", 1, COUNTD_BOARD_READ_ONLY, watch_slots},
    {"dump", 1, COUNTD_BOARD_READ_ONLY | COUNTD_BOARD_ORPHAN, run_dump},
};

/* ---- a file that is cut short while it is mapped ------------------------- */

static char truncated[PATH_TEXT];

static void
end_truncated(int signo)
{
    (void)signo;
    if (write(STDERR_FILENO, truncated, strlen(truncated)) < 0)
        _exit(CONFIG_EXIT_SYSTEM);
    _exit(CONFIG_EXIT_SYSTEM);
}

/* From now on an access behind the end of the file ends the process with an
 * error, instead of by SIGBUS: nothing else can be mapped that is cut short. */
static void
catch_truncation(const char *path)
{
    struct sigaction act = {.sa_handler = end_truncated};

    (void)snprintf(truncated, sizeof truncated,
                   "countd: error: board (%.*s) was cut short while it was "
                   "open; what it held is lost: create it again\n",
                   PATH_TEXT - 128, path);
    (void)sigaction(SIGBUS, &act, NULL);
}

int
cmd_board(struct cmd_line *line)
{
    struct countd_board_info info;
    struct countd_board *b;
    int status;

    if (strcmp(line->args[0], "create") == 0 && line->arg_count == 2)
        return run_create(line);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(line->args[0], verbs[i].name) != 0 ||
            line->arg_count != verbs[i].arguments + 1)
            continue;
        status = attach_board(line->args[1], verbs[i].flags, &b);
        if (status != 0)
            return status;
        catch_truncation(line->args[1]);
        countd_board_info(b, &info);
        status = verbs[i].run(line, b, &info.shape);
        countd_board_close(b);
        return status;
    }
    return cmd_usage(line);
}
