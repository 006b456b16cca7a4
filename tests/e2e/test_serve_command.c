/* tests/e2e/test_serve_command.c - countd serve: the transcript
 * serve_command.txt, and what needs orphans, another host name or user. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/net.h"
#include "tests/lib/serve_fixture.h"
#include "tests/lib/transcript.h"

WITH_SITE(no_daemon_outlives_a_killed_serve, s)
{
    /* Orphans become ours, so that their end can be waited for. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    daemon_kill(&s->serve);
    for (int i = 0; i < SITE_DAEMONS; i++) {
        int status;

        serve_fixture_await_end(s->children[i]);
        assert_int_equal(waitpid(s->children[i], &status, 0), s->children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

WITH_EMPTY(a_host_name_is_one_of_an_address_for_daemons_and_clients, s)
{
    char host[256], ack[300], read[300], live[300], port[32];
    struct net_address address, bound;
    int fd;

    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(ack, sizeof ack, "%s:0", host);
    fd = net_resolve(ack, &address, 1) == 1 ? net_listen(&address, 0, &bound)
                                            : -1;
    if (fd < 0)
        test_skip("the name of this machine is not one of its addresses");
    assert_int_equal(close(fd), 0);

    snprintf(ack, sizeof ack, "write.ack_listen=%s:0", host);
    snprintf(read, sizeof read, "read.listen=%s:0", host);
    snprintf(live, sizeof live, "live.address=%s", host);
    daemon_start(&s->serve, "countd", "serve", "-d", s->data, "-o",
                 "log.size=64K", "-o", "write.listen=", "-o", ack, "-o", read,
                 "-o", live, "-o", "counter.port=0", NULL);
    snprintf(ack, sizeof ack, "write.ack_listen=%s:%u", host,
             daemon_port(&s->serve, "ack"));
    snprintf(read, sizeof read, "read.listen=%s:%u", host,
             daemon_port(&s->serve, "read"));
    snprintf(port, sizeof port, "counter.port=%u",
             daemon_port(&s->serve, "counter"));

    expect(RUN(s, "incr", "k", "a", "3", "-o", ack), 0, "");
    expect(RUN(s, "flush", "-o", read), 0, "");
    expect_text(RUN(s, "get", "k", "a", "--tsv", "-o", read), 0, "3\n");
    expect(RUN(s, "acquire", "-o", live, "-o", port, "x", "1", "1", "--",
               "echo", "held"),
           0, "held");
}

/* The lowest port that anybody may listen on. */
static int
first_free_port(void)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    int port = 1024;

    if (f == NULL)
        return port;
    if (fscanf(f, "%d", &port) != 1)
        port = 1024;
    assert_int_equal(fclose(f), 0);
    return port;
}

WITH_EMPTY(a_port_that_this_user_may_not_have_is_refused_with_100, s)
{
    static const char *const ports[][3] = {
        {"write.listen=127.0.0.1:1", "write.ack_listen=127.0.0.1:0",
         "read.listen=127.0.0.1:0"},
        {"write.listen=127.0.0.1:0", "write.ack_listen=127.0.0.1:0",
         "read.listen=127.0.0.1:1"}};
    const uid_t uid = geteuid() == 0 ? 65534 : 0;

    if (first_free_port() <= 1)
        test_skip("here anybody may listen on any port");
    if (uid != 0)
        tmpdir_chown(&s->dir, uid);
    for (size_t i = 0; i < 2; i++)
        expect(serve_fixture_run(s, uid,
                                 (const char *[]){"serve", "-o", ports[i][0],
                                                  "-o", ports[i][1], "-o",
                                                  ports[i][2], NULL}),
               100, "Permission denied");
}

int
main(int argc, char **argv)
{
    return transcript_main("tests/e2e/serve_command.txt", argc, argv);
}
