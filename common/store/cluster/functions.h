/* common/store/cluster/functions.h - the library of functions that countd loads
 * into each master: its text, and what its functions take and answer. */
#ifndef COUNTD_COMMON_STORE_CLUSTER_FUNCTIONS_H
#define COUNTD_COMMON_STORE_CLUSTER_FUNCTIONS_H

extern const char functions_text[];

#endif
