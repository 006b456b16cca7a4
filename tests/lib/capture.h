/* tests/lib/capture.h - what this process says on stderr. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_CAPTURE_H
#define COUNTD_TESTS_LIB_CAPTURE_H

/* stderr goes into a file of memory between start and stop. */
struct capture {
    int saved;
    int fd;
    char text[8192];
};

void capture_start(struct capture *c);
const char *capture_stop(struct capture *c); /* `text` */

#endif
