/* reader/user_metrics.h - counters of users in /metrics: how many keyspaces
 * there are; and of the keyspaces that metrics.keyspaces names their keys,
 * their sums, and their metrics.top largest keys.
 *
 * The job of a scrape reads all of these in steps between turns of the loop.
 * Keyspaces are listed for it, by name only, if metrics.keyspaces names some, else
 * once a minute.
 *
 *     countd_keyspace_keys{keyspace="pages"} 3002
 *     countd_key_value{keyspace="pages",key="/index"} 52340
 *
 * Names are in text form.  The number of series is bounded: of further ones
 * only the number is shown.
 *
 * Ownership: the caller's; what is borrowed outlives it.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_USER_METRICS_H
#define COUNTD_READER_USER_METRICS_H

#include "common/setup/config.h"
#include "common/setup/name_pattern.h"
#include "reader/answer.h"

#define USER_METRICS_KEYSPACES 100
#define USER_METRICS_TEXT      ((size_t)1 << 20) /* bytes of samples of keys */

struct user_keyspace {
    int64_t keys, value;
    size_t pattern; /* the first that it fits */
    uint16_t size;
    uint8_t name[NAME_MAX_SIZE];
};

/* What all scrapes have together. */
struct user_metrics_site {
    struct name_patterns patterns;
    int64_t top;
    uint64_t series_max;
    int64_t keyspaces;   /* as counted last */
    uint64_t counted_ms; /* clock_ms() then; 0: never */
};

struct user_metrics {
    struct user_metrics_site *site;
    int64_t keyspaces; /* so far; -1: not known */
    /* Rows of which the total, and the keys, are read next. */
    size_t at, keys_at;

    size_t count;
    struct user_keyspace rows[USER_METRICS_KEYSPACES];
    uint64_t series, left_out;
    char *text; /* samples of keys; NULL: metrics.top is 0 */
    size_t text_size;
};

void user_metrics_init(struct user_metrics_site *site,
                       const struct config *config);

struct read_request;

/* Begins the scrape of a request, in its job.  -ENOMEM */
int user_metrics_open(struct read_request *a);

/* Goes on with it until about until_ns (clock_ns()); true: it is done. */
bool user_metrics_step(struct read_request *a, uint64_t until_ns);

/* Writes a name in text form as the value of a label has it; `text` has
 * USER_METRICS_LABEL bytes.  Returns `text`. */
#define USER_METRICS_LABEL (8 * NAME_MAX_SIZE + 1)
const char *user_metrics_label(const uint8_t *name, size_t size,
                               char text[USER_METRICS_LABEL]);

#endif
