/* tests/fuzz/replay.c - runs a fuzz target over files, where there is no
 * libFuzzer: `make test` gives it the whole corpus.
 *
 * Arguments are files or folders.  Speaks like a test program: one test per
 * file; a crash is the failure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static size_t done;

static int
replay_file(const char *path)
{
    FILE *f = fopen(path, "rbe");
    uint8_t *bytes = NULL;
    size_t size = 0;
    int rc = -1;
    char *exact;

    if (!f)
        return -1;
    /* A buffer of exactly the size lets a sanitizer see one byte too far. */
    if (fseek(f, 0, SEEK_END) == 0 && ftell(f) >= 0) {
        size = (size_t)ftell(f);
        rewind(f);
        bytes = malloc(size ? size : 1);
        if (bytes && fread(bytes, 1, size, f) == size)
            rc = 0;
    }
    (void)fclose(f); /* read only */
    if (rc == 0) {
        exact = strrchr(path, '/');
        printf("[ RUN      ] %s\n", exact ? exact + 1 : path);
        (void)fflush(stdout); /* to show the file that crashes */
        rc = LLVMFuzzerTestOneInput(bytes, size) > 0 ? -1 : 0;
    }
    free(bytes);
    done += rc == 0;
    return rc;
}

static int
replay_folder(const char *path)
{
    DIR *dir = opendir(path);
    char file[4096];
    struct dirent *e;
    int rc = 0, size;

    if (!dir)
        return replay_file(path);
    while (rc == 0 && (e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        size = snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        rc = size < (int)sizeof file ? replay_file(file) : -1;
    }
    (void)closedir(dir); /* read only */
    return rc;
}

/* Any bytes at all must be survived: nothing, zeros, ones and a pattern. */
static int
replay_plain(void)
{
    static uint8_t bytes[4096];

    (void)LLVMFuzzerTestOneInput(bytes, 0); /* may refuse; may not crash */
    (void)LLVMFuzzerTestOneInput(bytes, sizeof bytes);
    memset(bytes, 0xff, sizeof bytes);
    (void)LLVMFuzzerTestOneInput(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 131 + i / 256);
    (void)LLVMFuzzerTestOneInput(bytes, sizeof bytes);
    done++;
    return 0;
}

int
main(int argc, char **argv)
{
    int i, rc;

    if (LLVMFuzzerInitialize)
        (void)LLVMFuzzerInitialize(&argc, &argv); /* libFuzzer ignores it */
    printf("[==========] replay: Running 1 test(s).\n");
    rc = replay_plain();
    for (i = 1; i < argc && rc == 0; i++)
        rc = replay_folder(argv[i]);
    if (rc < 0) {
        fprintf(stderr, "cannot replay %s\n", argv[i - 1]);
        return 1;
    }
    printf("%zu inputs\n[  PASSED  ] 1 test(s).\n", done);
    return 0;
}
