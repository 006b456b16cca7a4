/* worker/fate.c - see fate.h. */
#include "worker/fate.h"

#include <errno.h>
#include <string.h>

enum fate
fate_of(int error)
{
    switch (error < 0 ? -error : error) {
    case EBADMSG:
    case EDQUOT:
    case EPROTONOSUPPORT:
    case EPROTO:
    case EPERM:
    case EACCES:
    case ELOOP:
    case EISDIR:
    case ENOTDIR:
        return FATE_HOLD;
    case ENOSPC:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EROFS:
        return FATE_WAIT;
    default:
        return FATE_TRY;
    }
}

bool
fate_key_above(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

    return order > 0 || (order == 0 && a_size > b_size);
}
