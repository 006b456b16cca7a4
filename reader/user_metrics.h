/* reader/user_metrics.h - counters of users in /metrics: how many keyspaces
 * there are; and of the keyspaces that metrics.keyspaces names their keys,
 * their sums, and their metrics.top largest keys.
 *
 * A round reads all of these in steps between turns of the loop, when a scrape
 * asks; a scrape waits for its end.  Keyspaces are counted at most once a
 * minute, because that reads every one of them.
 *
 *     countd_keyspace_keys{keyspace="pages"} 3002
 *     countd_key_value{keyspace="pages",key="/index"} 52340
 *
 * Names are in text form.  The number of series is bounded: of further ones
 * only the number is shown.
 *
 * Ownership: the caller's between open and close; store and buffer are
 * borrowed.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_USER_METRICS_H
#define COUNTD_READER_USER_METRICS_H

#include "common/setup/config.h"
#include "reader/answer.h"

#define USER_METRICS_PATTERNS  64
#define USER_METRICS_KEYSPACES 100
#define USER_METRICS_TEXT      ((size_t)1 << 20) /* bytes of samples of keys */

struct user_pattern {
    uint16_t size;
    bool is_prefix;
    uint8_t name[NAME_MAX_SIZE];
};

struct user_keyspace {
    int64_t keys, value;
    bool has_value; /* both are read */
    uint16_t size;
    uint8_t name[NAME_MAX_SIZE];
};

enum user_metrics_state {
    USER_METRICS_IDLE,
    USER_METRICS_LIST,
    USER_METRICS_READ
};

struct user_metrics {
    struct store *store;
    uint8_t *binary; /* answers as the range port gives them */
    struct store_listing *listing;
    struct user_pattern patterns[USER_METRICS_PATTERNS];
    size_t pattern_count;
    int64_t top;
    uint64_t series_max;

    enum user_metrics_state state;
    bool is_counting;    /* all keyspaces are listed, for their number */
    size_t at;           /* pattern or keyspace that the round is at */
    uint64_t counted_ms; /* monotonic: end of the last count; 0: none */
    int64_t counting;    /* keyspaces so far */

    int64_t keyspaces; /* there are; -1: not known */
    size_t count;
    struct user_keyspace rows[USER_METRICS_KEYSPACES];
    uint64_t series, left_out;
    char *text; /* samples of keys; NULL: metrics.top is 0 */
    size_t text_size;
};

/* -ENOMEM */
int user_metrics_open(struct user_metrics *u, struct store *store,
                      uint8_t *binary, const struct config *config);
void user_metrics_close(struct user_metrics *u);

/* Begins a round, unless one runs. */
void user_metrics_start(struct user_metrics *u, uint64_t now_ms);

/* Goes on with it until about until_ns (clock_ns()); true: it is done. */
bool user_metrics_step(struct user_metrics *u, uint64_t until_ns,
                       uint64_t now_ms);
void user_metrics_stop(struct user_metrics *u);

/* Writes a name in text form as the value of a label has it; `text` has
 * USER_METRICS_LABEL bytes.  Returns `text`. */
#define USER_METRICS_LABEL (8 * NAME_MAX_SIZE + 1)
const char *user_metrics_label(const uint8_t *name, size_t size,
                               char text[USER_METRICS_LABEL]);

#endif
