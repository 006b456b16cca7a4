/* common/base/version.h - what -V prints.  The library's own number is in
 * common/client/lib/countd.h, which stands alone; a test holds the two
 * together. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_VERSION_H
#define COUNTD_COMMON_BASE_VERSION_H

#define VERSION "0.1.0"

#endif
