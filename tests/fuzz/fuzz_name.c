/* tests/fuzz/fuzz_name.c - any bytes as a name, as text and as a file name:
 * what is encoded comes back, what is decoded was the one way to write it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include "common/wire/name.h"

static void
try_name(const uint8_t *name, size_t size)
{
    char text[NAME_TEXT_SIZE], file[NAME_FILE_SIZE];
    uint8_t back[NAME_MAX_SIZE];
    int rc;

    assert(name_escape(name, size, text) == strlen(text));
    rc = name_unescape(text, strlen(text), back, sizeof back);
    assert(rc == (int)size && memcmp(back, name, size) == 0);

    name_to_file(name, size, file);
    assert(strlen(file) < NAME_FILE_SIZE && strchr(file, '/') == NULL);
    assert(file[0] != '.' && file[0] != '\0');
    rc = name_from_file(file, back);
    if (rc >= 0)
        assert(rc == (int)size && memcmp(back, name, size) == 0);
    else
        assert(strncmp(file, "%h", 2) == 0);
}

static void
try_text(const uint8_t *bytes, size_t size)
{
    char text[NAME_TEXT_SIZE];
    uint8_t name[NAME_MAX_SIZE], again[NAME_MAX_SIZE];
    const int rc = name_unescape((const char *)bytes, size, name, sizeof name);

    if (rc <= 0)
        return;
    assert(memchr(name, 0, (size_t)rc) == NULL);
    assert(name_unescape(text, name_escape(name, (size_t)rc, text), again,
                         sizeof again) == rc);
    assert(memcmp(name, again, (size_t)rc) == 0);
}

static void
try_file(const uint8_t *bytes, size_t size)
{
    char file[2 * NAME_FILE_SIZE], again[NAME_FILE_SIZE];
    uint8_t name[NAME_MAX_SIZE];
    int rc;

    if (size >= sizeof file)
        return;
    memcpy(file, bytes, size);
    file[size] = '\0';
    rc = name_from_file(file, name);
    if (rc < 0)
        return;
    name_to_file(name, (size_t)rc, again);
    assert(strcmp(file, again) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    try_text(bytes, size);
    try_file(bytes, size);
    if (size >= 1 && size <= NAME_MAX_SIZE && memchr(bytes, 0, size) == NULL)
        try_name(bytes, size);
    return 0;
}
