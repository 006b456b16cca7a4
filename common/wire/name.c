/* common/wire/name.c - see name.h: name_escape() and name_unescape() for text,
 * name_to_file() and name_from_file() for files, name_siphash128(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/name.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hash.h"
#include "common/base/hex.h"
#include "common/wire/utf8.h"

#define PLAIN_SIZE_MAX 120 /* bytes of a name that is its own file name */
#define HEX_SIZE_MAX   60  /* bytes of a name spelt in hex */

/* ---- text form --------------------------------------------------------- */

/* Code points that are valid and yet not shown as they are: a terminal obeys
 * C1 controls, and a code point that cannot be seen, such as a direction mark,
 * or is not a character makes a name look like another.  The variation
 * selectors of emoji are not among them. */
static bool
is_shown(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x80, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
        {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
        {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
        {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfdd0, 0xfdef},
        {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
        {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };

    if ((code & 0xfffe) == 0xfffe)
        return false; /* the last two of each plane */
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (code <= hidden[i].last)
            return code < hidden[i].first;
    return true;
}

/* Bytes of the character above ASCII that starts at `at` when it may be shown
 * as it is, else 0. */
static size_t
shown_size(const uint8_t *at, size_t size)
{
    const size_t n = at[0] < 0x80 ? 0 : utf8_size(at, at + size);
    uint32_t code = at[0] & (0x7fu >> n);

    for (size_t i = 1; i < n; i++)
        code = code << 6 | (at[i] & 0x3fu);
    return n > 0 && is_shown(code) ? n : 0;
}

static const char letters[4] = "tnr\\", bytes_of[4] = "\t\n\r\\";

/* Writes the escape of one byte and returns its length. */
static size_t
escape_byte(uint8_t c, char *text)
{
    const char *at = memchr(bytes_of, c, sizeof bytes_of);

    text[0] = '\\';
    text[1] = at ? letters[at - bytes_of] : 'x';
    if (!at)
        (void)hex_put(text + 2, &c, 1);
    return at ? 2 : 4;
}

size_t
name_escape(const uint8_t *name, size_t size, char *text)
{
    size_t length = 0;
    size_t i = 0;

    while (i < size) {
        const uint8_t c = name[i];
        size_t n;

        if (c >= 0x20 && c < 0x7f && c != '\\') {
            text[length++] = (char)c; /* most of them */
            i++;
            continue;
        }
        n = shown_size(name + i, size - i);
        if (n == 0) {
            length += escape_byte(c, text + length);
            i++;
            continue;
        }
        memcpy(text + length, name + i, n);
        length += n;
        i += n;
    }
    text[length] = '\0';
    return length;
}

const char *
name_show(const void *bytes, size_t size, char text[NAME_SHOWN_SIZE])
{
    const size_t shown = size < NAME_SHOWN_MAX ? size : NAME_SHOWN_MAX;
    const size_t length = name_escape(bytes, shown, text);

    if (shown < size)
        memcpy(text + length, "...", 4);
    return text;
}

/* Reads what follows a backslash; returns the characters taken, 0 for a bad
 * escape. */
static size_t
unescape_byte(const char *text, size_t length, uint8_t *out)
{
    const char *at;

    if (length == 0)
        return 0;
    at = memchr(letters, text[0], sizeof letters);
    if (at) {
        *out = (uint8_t)bytes_of[at - letters];
        return 1;
    }
    if (text[0] == 'x' && length >= 3 && hex_get_any(text + 1, out, 1))
        return 3;
    return 0;
}

int
name_unescape_any(const char *text, size_t length, uint8_t *name, size_t max)
{
    size_t size = 0;
    size_t i = 0;

    while (i < length) {
        uint8_t c = (uint8_t)text[i++];

        if (c == '\\') {
            const size_t taken = unescape_byte(text + i, length - i, &c);

            if (taken == 0)
                return -EINVAL;
            i += taken;
        }
        if (size == max)
            return -ENAMETOOLONG;
        name[size++] = c;
    }
    return (int)size;
}

int
name_unescape(const char *text, size_t length, uint8_t *name, size_t max)
{
    const int size = name_unescape_any(text, length, name, max);

    if (size > 0 && memchr(name, '\0', (size_t)size))
        return -EINVAL;
    return size;
}

bool
name_form_read(const void *word, size_t size, enum name_form *form)
{
    if (size == 3 && memcmp(word, "raw", 3) == 0)
        *form = NAMES_RAW;
    else if (size == 4 && memcmp(word, "text", 4) == 0)
        *form = NAMES_TEXT;
    else
        return false;
    return true;
}

/* ---- file names -------------------------------------------------------- */

static bool
is_plain(const uint8_t *name, size_t size)
{
    if (size == 0 || size > PLAIN_SIZE_MAX || name[0] == '.')
        return false;
    for (size_t i = 0; i < size; i++) {
        const uint8_t c = name[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' &&
            c != '.' && c != '-')
            return false;
    }
    return true;
}

void
name_to_file(const uint8_t *name, size_t size, char *file)
{
    static const char hash_key[] = "countd file name";
    uint8_t hash[16];

    assert(size >= 1 && size <= NAME_MAX_SIZE);

    if (is_plain(name, size)) {
        memcpy(file, name, size);
        file[size] = '\0';
        return;
    }
    file[0] = '%';
    if (size <= HEX_SIZE_MAX) {
        file[1] = 'x';
        *hex_put(file + 2, name, size) = '\0';
        return;
    }
    file[1] = 'h';
    name_siphash128((const uint8_t *)hash_key, name, size, hash);
    *hex_put(file + 2, hash, sizeof hash) = '\0';
}

int
name_from_file(const char *file, uint8_t name[NAME_MAX_SIZE])
{
    const size_t length = strnlen(file, NAME_FILE_SIZE);
    const size_t size = length < 2 ? 0 : (length - 2) / 2;
    uint8_t bytes[HEX_SIZE_MAX] = {0};

    if (length == 0 || length >= NAME_FILE_SIZE)
        return -EINVAL;
    if (file[0] != '%') {
        if (!is_plain((const uint8_t *)file, length))
            return -EINVAL;
        memcpy(name, file, length);
        return (int)length;
    }
    if (length < 4 || length % 2 != 0 || size > HEX_SIZE_MAX ||
        !hex_get(file + 2, bytes, size))
        return -EINVAL;
    if (file[1] == 'h')
        return size == 16 ? -ENOKEY : -EINVAL;

    /* One name, one file: hex of what has a plain file name is not ours. */
    if (file[1] != 'x' || is_plain(bytes, size) ||
        memchr(bytes, 0, size) != NULL)
        return -EINVAL;
    memcpy(name, bytes, size);
    return (int)size;
}

void
name_siphash128(const uint8_t key[16], const void *bytes, size_t size,
                uint8_t out[16])
{
    const struct hash_key k = {get_le64(key), get_le64(key + 8)};
    const struct hash_wide hash = hash_bytes_wide(&k, bytes, size);

    put_le64(out, hash.low);
    put_le64(out + 8, hash.high);
}
