/* common/client/cmd/lines.h - the lines of a file or pipe, plain or gzip.
 *
 *     while ((rc = lines_fill(&l)) > 0)
 *         while (lines_next(&l, &text, &size)) ...
 *
 * A byte order mark before the first line is dropped; what begins as another
 * compressed file does, or like no text, is refused.
 *
 * Gzip is recognised by its first two bytes; members may follow one another.
 * Lines end with \n or \r\n; the last one may lack it.  A line longer than
 * LINES_SIZE_MAX is given as its beginning, with `cut` set.
 *
 * Ownership: between open and close; a line is valid until the next call.
 * Errors: 0 or a negative errno; -EBADMSG for damaged gzip, -ENODATA for gzip
 * that ends too early, -EILSEQ for what is neither gzip nor text.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_LINES_H
#define COUNTD_COMMON_CLIENT_CMD_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#define LINES_SIZE_MAX 4096
#define LINES_BUFFER   ((size_t)128 << 10)

struct lines {
    int fd;
    bool gzip;
    bool started;       /* the first bytes have been looked at */
    bool ended;         /* nothing more comes */
    bool in_member;     /* gzip: inside of a member */
    bool skipping;      /* the rest of a line that was too long */
    bool cut;           /* of the line last given */
    const char *magic;  /* after -EILSEQ: what it is, such as "zstd" */
    uint64_t number;    /* of the line last given, from 1 */
    uint64_t read_size; /* bytes read from fd */
    z_stream z;
    size_t at, end; /* of the text not given yet */
    uint8_t *raw;   /* gzip: as read */
    char *text;
};

/* "-" is standard input. */
int lines_open(struct lines *l, const char *path);
void lines_close(struct lines *l);

/* True when lines_fill() would not wait (for a pipe, a person). */
bool lines_ready(const struct lines *l);

/* Returns how many bytes of the file have been returned as lines. All bytes of
 * a gzip file that were unpacked count. */
uint64_t lines_done(const struct lines *l);

/* Reads more bytes. 1: there may be lines; 0: the end of the file. */
int lines_fill(struct lines *l);

/* The next whole line without its end; false: fill first. */
bool lines_next(struct lines *l, const char **text, size_t *size);

#endif
