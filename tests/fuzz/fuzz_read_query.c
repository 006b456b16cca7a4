/* tests/fuzz/fuzz_read_query.c - any bytes as the query of a question over
 * HTTP: it is refused with a word and a line, or what it gives is within
 * limits. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include "reader/http_params.h"

static void
check_name(const struct increment_name *name)
{
    assert(name->size >= 1 && name->size <= NAME_MAX_SIZE);
    assert(!memchr(name->bytes, '\0', name->size));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct http_params_spec spec = {PARAM_BIT(HTTP_PARAMS) - 1,
                                                 PARAM_BIT(PARAM_KEYSPACE),
                                                 HTTP_PARAMS_KEYS, 0, 4096};
    static struct http_params p;
    struct http_params_fault fault = {NULL, ""};

    p = (struct http_params){.from_ms = 1, .to_ms = 2};
    if (!http_params_read(&p, &spec, (struct http_text){bytes, size},
                          1795366726868, &fault)) {
        assert(fault.code && fault.detail[0] != '\0');
        return 0;
    }
    check_name(&p.keyspace);
    assert(p.key_count <= HTTP_PARAMS_KEYS);
    for (size_t i = 0; i < p.key_count; i++)
        check_name(&p.keys[i]);
    assert(p.n >= 0 && p.n <= 4096 && p.length >= 0 && p.length <= 4096);
    assert(p.wait_s >= 0 && p.wait_s <= 60 && p.from_ms < p.to_ms);
    assert(p.step_ms % 60000 == 0);
    return 0;
}
