/* common/store/cluster/cluster_replicas.c - see cluster_replicas.h. */
#include "common/store/cluster/cluster_replicas.h"

#include <stdlib.h>
#include <string.h>

uint64_t
cluster_replicas_offset(const char *text)
{
    static const char name[] = "master_repl_offset:";
    const char *at = strstr(text, name);

    return at ? strtoull(at + sizeof name - 1, NULL, 10) : 0;
}

uint64_t
cluster_replicas_count(const char *text, uint64_t offset)
{
    static const char name[] = "state=online,offset=";
    uint64_t count = 0;

    /* slave0:ip=10.0.0.2,port=6379,state=online,offset=1234,lag=0 */
    while ((text = strstr(text, name)) != NULL) {
        text += sizeof name - 1;
        count += strtoull(text, NULL, 10) >= offset;
    }
    return count;
}
