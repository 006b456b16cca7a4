/* tests/lib/serve_fixture.c - see serve_fixture.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/serve_fixture.h"

#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/file.h"

#define WORDS_MAX 24

void
serve_fixture_find_children(struct serve_fixture *s)
{
    char path[64], line[256];
    FILE *f;
    int n;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", s->serve.pid,
             s->serve.pid);
    f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    n = sscanf(line, "%d %d %d", &s->children[0], &s->children[1],
               &s->children[2]);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(n, SITE_DAEMONS);
}

void
serve_fixture_serve(struct serve_fixture *s, const char *option)
{
    daemon_start(&s->serve, "countd", "serve", "-d", s->data, "-o",
                 "log.size=64K", "-o", "log.rotate_after=1h", "-o",
                 "log.merge_share=0", "-o", "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o",
                 "read.listen=127.0.0.1:0", "-o", "read.http=127.0.0.1:0",
                 option ? "-o" : NULL, option);
    snprintf(s->silent, sizeof s->silent, "write.listen=127.0.0.1:%u",
             daemon_port(&s->serve, "silent"));
    snprintf(s->ack, sizeof s->ack, "write.ack_listen=127.0.0.1:%u",
             daemon_port(&s->serve, "ack"));
    snprintf(s->read, sizeof s->read, "read.http=127.0.0.1:%u",
             daemon_port(&s->serve, "read-http"));
    serve_fixture_find_children(s);
}

int
serve_fixture_setup_empty(void **state)
{
    static struct serve_fixture site;

    memset(&site, 0, sizeof site);
    site.serve.output = -1;
    tmpdir_make(&site.dir);
    snprintf(site.data, sizeof site.data, "%s/data", site.dir.path);
    snprintf(site.silent, sizeof site.silent, "write.listen=127.0.0.1:1");
    snprintf(site.ack, sizeof site.ack, "write.ack_listen=127.0.0.1:2");
    snprintf(site.read, sizeof site.read, "read.http=127.0.0.1:3");
    *state = &site;
    return 0;
}

int
serve_fixture_setup(void **state)
{
    (void)serve_fixture_setup_empty(state); /* fails the test by itself */
    serve_fixture_serve(*state, NULL);
    return 0;
}

int
serve_fixture_teardown(void **state)
{
    struct serve_fixture *s = *state;

    daemon_fini(&s->serve);
    tmpdir_remove(&s->dir);
    return 0;
}

int
serve_fixture_run(const struct serve_fixture *s, const char *const *words)
{
    char data[sizeof s->data + 16];
    /* Not -d, which does not go with -H. */
    const char *argv[8 + WORDS_MAX + 1] = {"-o", data,   "-o", s->silent,
                                           "-o", s->ack, "-o", s->read};
    const struct daemon_how how = {.argv = argv};

    snprintf(data, sizeof data, "data_dir=%s", s->data);
    for (size_t i = 0; words[i] != NULL; i++) {
        assert_true(i < WORDS_MAX);
        argv[8 + i] = words[i];
    }
    return expect_run("countd", &how);
}

const char *
serve_fixture_put(struct serve_fixture *s, const char *name, const char *bytes)
{
    tmpdir_put(&s->dir, name, bytes, strlen(bytes), 0600);
    return file_path(s->dir.path, "%s", name);
}
