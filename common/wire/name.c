/* common/wire/name.c - see name.h: name_escape() and name_unescape() for text,
 * name_to_file() and name_from_file() for files, name_siphash128(). */
#include "common/wire/name.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/hash.h"
#include "common/base/hex.h"

#define PLAIN_SIZE_MAX 120 /* bytes of a name that is its own file name */
#define HEX_SIZE_MAX   60  /* bytes of a name spelt in hex */

/* ---- text form --------------------------------------------------------- */

/* Code points that are valid and yet not shown as they are: a terminal obeys
 * C1 controls, and direction marks make a name look like another. */
static bool
is_shown(uint32_t code)
{
    if (code >= 0x80 && code <= 0x9f)
        return false;
    if (code == 0x61c || (code >= 0x200b && code <= 0x200f))
        return false;
    if (code >= 0x2028 && code <= 0x202e)
        return false;
    return !(code >= 0x2060 && code <= 0x206f) && code != 0xfeff;
}

/* Bytes of the character of UTF-8 that starts at `at`, and its code point; 0:
 * there is none. */
static size_t
read_character(const uint8_t *at, size_t size, uint32_t *out)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t c = at[0];
    uint32_t code;
    size_t n;

    *out = c;
    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (size < n)
        return 0;
    code = c & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    /* Overlong forms, surrogates and what lies above Unicode are not valid. */
    if (code < least[n] || (code >= 0xd800 && code <= 0xdfff) ||
        code > 0x10ffff)
        return 0;
    *out = code;
    return n;
}

bool
name_is_utf8(const uint8_t *name, size_t size)
{
    uint32_t code;
    size_t n;

    for (size_t i = 0; i < size; i += n) {
        n = read_character(name + i, size - i, &code);
        if (n == 0)
            return false;
    }
    return true;
}

/* Bytes of the character that starts at `at` when it may be shown as it is,
 * else 0. */
static size_t
shown_size(const uint8_t *at, size_t size)
{
    uint32_t code;
    const size_t n = read_character(at, size, &code);

    if (n == 1)
        return code >= 0x20 && code < 0x7f && code != '\\';
    return n > 0 && is_shown(code) ? n : 0;
}

/* Writes the escape of one byte and returns its length. */
static size_t
escape_byte(uint8_t c, char *text)
{
    text[0] = '\\';
    switch (c) {
    case '\t':
        text[1] = 't';
        return 2;
    case '\n':
        text[1] = 'n';
        return 2;
    case '\r':
        text[1] = 'r';
        return 2;
    case '\\':
        text[1] = '\\';
        return 2;
    default:
        text[1] = 'x';
        (void)hex_put(text + 2, &c, 1);
        return 4;
    }
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

/* Reads what follows a backslash; returns the characters taken, 0 for a bad
 * escape. */
static size_t
unescape_byte(const char *text, size_t length, uint8_t *out)
{
    int high, low;

    if (length == 0)
        return 0;
    switch (text[0]) {
    case 't':
        *out = '\t';
        return 1;
    case 'n':
        *out = '\n';
        return 1;
    case 'r':
        *out = '\r';
        return 1;
    case '\\':
        *out = '\\';
        return 1;
    case 'x':
        if (length < 3)
            return 0;
        high = hex_value((uint8_t)text[1]);
        low = hex_value((uint8_t)text[2]);
        if (high < 0 || low < 0)
            return 0;
        *out = (uint8_t)(high << 4 | low);
        return 3;
    default:
        return 0;
    }
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

/* ---- SipHash ----------------------------------------------------------- */

static void
sip_rounds(struct hash_state *s, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        hash_round(s);
}

static void
sip_word(struct hash_state *s, uint64_t word)
{
    s->v3 ^= word;
    sip_rounds(s, 2);
    s->v0 ^= word;
}

void
name_siphash128(const uint8_t key[16], const void *bytes, size_t size,
                uint8_t out[16])
{
    const uint64_t k0 = get_le64(key);
    const uint64_t k1 = get_le64(key + 8);
    const uint8_t *at = bytes;
    struct hash_state s = {
        .v0 = k0 ^ 0x736f6d6570736575,
        .v1 = k1 ^ 0x646f72616e646f6d ^ 0xee,
        .v2 = k0 ^ 0x6c7967656e657261,
        .v3 = k1 ^ 0x7465646279746573,
    };
    uint64_t last = (uint64_t)size << 56;
    size_t left = size;

    for (; left >= 8; left -= 8, at += 8)
        sip_word(&s, get_le64(at));
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)at[i] << (8 * i);
    sip_word(&s, last);

    s.v2 ^= 0xee;
    sip_rounds(&s, 4);
    put_le64(out, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
    s.v1 ^= 0xdd;
    sip_rounds(&s, 4);
    put_le64(out + 8, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
}
