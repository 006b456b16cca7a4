/* tests/fuzz/fuzz_resp.c - any bytes as requests of Redis clients: arguments
 * stay within the bytes, a request is the same however many follow it, and a
 * partial one is partial at every shorter length that has its beginning. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include "reader/resp/resp.h"

/* A name that matches begins as the pattern says. */
static void
check_pattern(const struct resp_arg *text, const struct resp_arg *name)
{
    static struct resp_pattern p;

    if (!resp_pattern_compile(&p, text->at, text->size)) {
        assert(text->size > RESP_PATTERN_MAX);
        return;
    }
    assert(p.count <= text->size && p.prefix_size <= p.count);
    if (resp_pattern_matches(&p, name->at, name->size)) {
        assert(name->size >= p.prefix_size);
        assert(memcmp(name->at, p.prefix, p.prefix_size) == 0);
    }
}

static void
check_request(const uint8_t *at, size_t size, const struct resp_request *r)
{
    static struct resp_request alone;
    int64_t value;

    assert(r->size > 0 && r->size <= size && r->count <= RESP_ARGS_MAX);
    for (size_t i = 0; i < r->count; i++) {
        const uint8_t *word = r->args[i].at;
        const bool is_quoted =
            word >= r->unquoted && word <= r->unquoted + RESP_INLINE_MAX;

        assert(is_quoted || word >= at);
        assert(word + r->args[i].size <=
               (is_quoted ? r->unquoted + RESP_INLINE_MAX : at + r->size));
        assert(r->args[i].size <= RESP_BULK_MAX);
        if (resp_integer(&r->args[i], &value)) {
            uint8_t out[RESP_NUMBER_SIZE];
            const size_t n = resp_put_number(out, ':', value);

            assert(n == r->args[i].size + 3);
            assert(memcmp(out + 1, r->args[i].at, r->args[i].size) == 0);
        }
    }
    if (r->count > 1)
        check_pattern(&r->args[0], &r->args[1]);
    assert(resp_parse(at, r->size, &alone) == RESP_WHOLE);
    assert(alone.size == r->size && alone.count == r->count);
    assert(resp_parse(at, r->size - 1, &alone) != RESP_WHOLE);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct resp_request r;
    uint8_t *copy = fuzz_copy(bytes, size);
    enum resp_parsed parsed = RESP_WHOLE;
    size_t at = 0;

    while (at < size && parsed == RESP_WHOLE) {
        parsed = resp_parse(copy + at, size - at, &r);
        if (parsed == RESP_WHOLE) {
            check_request(copy + at, size - at, &r);
            at += r.size;
        } else if (parsed == RESP_PARTIAL) {
            assert(r.need > size - at);
        } else if (parsed == RESP_BAD) {
            assert(memchr(r.why, '\0', sizeof r.why) && r.why[0] != '\0');
        }
    }
    free(copy);
    return 0;
}
