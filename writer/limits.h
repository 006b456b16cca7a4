/* writer/limits.h - how many connections the limit of open files allows.
 *
 * Some descriptors are kept for logs and the rest.  Then each setting that
 * names a number of connections gets that many, and those without a limit
 * share what is left.  When it is too little, it is shared equally, but none
 * gets more than it wants: a large number of one does not starve the others.
 */
#ifndef COUNTD_LIMITS_H
#define COUNTD_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#define LIMITS_RESERVED 128    /* descriptors for logs, threads, the rest */
#define LIMITS_LEAST    1024   /* what a setting without a limit asks for */
#define LIMITS_MOST     262144 /* what it gets at most */

struct limit {
    const char *key; /* of the setting */
    size_t wanted;   /* connections; 0: no limit */
    size_t got;
};

/* Divides `files` descriptors. */
void limits_divide(struct limit *limits, size_t count, uint64_t files);

/* Raises the limit of open files as far as it may be and is of use, divides
 * it, and says which settings get less than they want. */
void limits_take(struct limit *limits, size_t count);

#endif
