/* common/store/cluster/cluster_place.h - what the cluster says of a keyspace:
 * which generation of its parts is in force, and whether another one is being
 * made.
 *
 * It is a field of {countd}p, "GENERATION PARTS", then for a keyspace whose
 * number of parts was ever changed " STATE OTHER PARTS TOKEN UNTIL":
 *
 *   s  nothing is under way; OTHER is the last number that was given
 *   m  generation OTHER is being made with PARTS parts, by the mover with the
 *      TOKEN (hex), which must say so again before UNTIL (Unix ms of the
 *      server); 0: what it made is being removed
 *   r  the parts of generation OTHER, which was before this one, are yet to be
 *      removed
 *
 * The lower half of the token is OTHER: where the place is lost, what is closed
 * with the token says what was being made.
 *
 * All changes are made by comparing with what was read: one of two movers wins.
 * cluster_move.h has the whole story. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_CLUSTER_PLACE_H
#define COUNTD_COMMON_STORE_CLUSTER_CLUSTER_PLACE_H

#include <stdbool.h>

#include "common/store/cluster/cluster.h"
#include "common/store/cluster/cluster_key.h"

#define CLUSTER_PLACE_SIZE 96 /* as text, with NUL */

enum cluster_place_state {
    CLUSTER_PLACE_STILL,
    CLUSTER_PLACE_MOVING,
    CLUSTER_PLACE_RETIRING
};

struct cluster_place {
    uint32_t generation, parts;
    enum cluster_place_state state;
    uint32_t other, other_parts;
    uint64_t token, until_ms;
};

/* Pure.  False: the text is not one. */
bool cluster_place_parse(const char *text, struct cluster_place *out);
void cluster_place_format(const struct cluster_place *p,
                          char text[CLUSTER_PLACE_SIZE]);

/* Begins the command that reads the place and, with `next`, puts that where the
 * place is `old` (NULL: none yet); and takes its reply.  -ENOENT, -EBADMSG */
void cluster_place_begin(struct cluster_command *m, const uint8_t *name,
                         size_t name_size, const struct cluster_place *old,
                         const struct cluster_place *next);
int cluster_place_take(const struct cluster_command *m,
                       struct cluster_place *out, uint64_t *now_ms);

/* Reads the place, and the server's time.  -ENOENT, -EBADMSG */
int cluster_place_read(struct cluster *c, const uint8_t *name, size_t name_size,
                       struct cluster_place *out, uint64_t *now_ms);

/* Replaces a place.  -ESTALE: it was not the old one any more. */
int cluster_place_replace(struct cluster *c, const uint8_t *name,
                          size_t name_size, const struct cluster_place *old,
                          const struct cluster_place *new_place);

#endif
