/* common/client/cmd/time_range.c - see time_range.h. */
#include "common/client/cmd/time_range.h"

#include <errno.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/time_text.h"

#define DAY_MS  ((uint64_t)86400000)
#define HOUR    3600
#define LAST_MS ((uint64_t)UINT32_MAX * 60000) /* of what a store can keep */

int
time_range_read(const struct cmd_line *line, struct time_range *out)
{
    const uint64_t now = clock_unix_ms();
    uint64_t from, to;
    int status;

    status = time_text_option(line, "from", now, now - DAY_MS, &from);
    if (status == 0)
        status = time_text_option(line, "to", now, now, &to);
    if (status != 0)
        return status;
    if (to <= from)
        return cmd_misuse(line, "--from --to",
                          "the end is not after the start");
    if (to >= LAST_MS)
        return cmd_misuse(line, "--to", "there is no time so late");
    /* Include the current second. */
    *out = (struct time_range){(int64_t)(from / 1000),
                               (int64_t)((to + 999) / 1000)};
    return 0;
}

struct cell
time_range_cell(const struct output *o, int64_t seconds, bool utc, char *text)
{
    if (o->format != OUTPUT_PEOPLE)
        return cell_number(seconds);
    time_text_format((uint64_t)seconds * 1000, utc, text);
    return cell_text(text);
}

void
time_range_report_since(const struct output *o, int64_t since, int64_t from,
                        bool utc)
{
    char text[TIME_TEXT_SIZE];

    if (since <= from || o->format != OUTPUT_PEOPLE)
        return;
    time_text_format((uint64_t)since * 1000, utc, text);
    diag(DIAG_INFO,
         "history before %s may be incomplete: steps this short are not "
         "retained longer",
         text);
}

int
time_range_failed(const struct cmd_line *line, int rc)
{
    switch (rc) {
    case -ENOENT:
        diag(DIAG_INFO, "no such keyspace");
        return CONFIG_EXIT_NEGATIVE;
    case -ENODATA:
        diag(DIAG_INFO, "the keyspace has no history; the setting history says "
                        "what is kept");
        return CONFIG_EXIT_NEGATIVE;
    case -EINVAL:
        diag(DIAG_ERROR,
             "the keyspace has no history of such steps: a step is a multiple "
             "of one in the setting history");
        return CONFIG_EXIT_USAGE;
    case -E2BIG:
        diag(DIAG_ERROR, "more than 4096 steps; give a longer --step or a "
                         "shorter time");
        return CONFIG_EXIT_USAGE;
    default:
        return cmd_peer_failed(line, CMD_READER, rc);
    }
}
