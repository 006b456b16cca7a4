/* common/store/tree/pager.h - where a tree keeps its values: three functions
 * over numbered values of at most BLOCK_SIZE bytes.
 *
 * The caller opens a tree with a pager, and begins and ends the transaction.  A
 * change that fails leaves the values half changed, and the caller drops the
 * transaction.
 *
 * Errors, which the tree hands on as they are: 0 or a negative errno.
 *   -EBADMSG  there is no such value (to a tree that is damage), or damage
 *   -EXFULL   no room: make some and start again
 */
#ifndef COUNTD_COMMON_STORE_TREE_PAGER_H
#define COUNTD_COMMON_STORE_TREE_PAGER_H

#include <stddef.h>
#include <stdint.h>

struct pager {
    /* Finds a value.  Its bytes are the pager's, and good until the next put
     * or remove of any value, or the end of the transaction. */
    int (*get)(void *ctx, uint64_t key, const uint8_t **bytes, size_t *size);

    /* Stores a value in place of the one that may be there.  `bytes` are not
     * the pager's own. */
    int (*put)(void *ctx, uint64_t key, const uint8_t *bytes, size_t size);

    /* Removes a value that is there. */
    int (*remove)(void *ctx, uint64_t key);

    void *ctx;
};

#endif
