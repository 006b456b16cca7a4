/* tests/e2e/test_package.c - the Debian packages: made, installed into a copy
 * of this system that is thrown away, run as the service's user, removed. */
#include "tests/lib/test.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/client/lib/countd.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* What is written goes to a tmpfs over a read-only look at the system. */
#define IN_A_COPY                                                              \
    "set -eu; d=$1; mount -t tmpfs none \"$d\"; "                              \
    "mkdir \"$d/up\" \"$d/work\" \"$d/root\"; "                                \
    "mount -t overlay overlay -o "                                             \
    "lowerdir=/,upperdir=\"$d/up\",workdir=\"$d/work\" \"$d/root\"; "          \
    "mount -t tmpfs none \"$d/root/tmp\"; "                                    \
    "mount --rbind /proc \"$d/root/proc\"; "                                   \
    "mount --rbind /dev \"$d/root/dev\"; "

static int
run(const char *script, const char *argument)
{
    return daemon_run(text, sizeof text, "/bin/sh", "-c", script, "sh",
                      argument, NULL);
}

/* Whether this machine can do what the test does. */
static bool
can(const struct tmpdir *dir)
{
    return run("command -v dpkg dpkg-shlibdeps dpkg-architecture unshare",
               NULL) == 0 &&
           run("exec unshare -m --propagation private sh -c '" IN_A_COPY
               "chroot \"$d/root\" dpkg -s adduser liblmdb0 zlib1g' sh \"$1\"",
               dir->path) == 0;
}

TEST(a_package_is_installed_runs_and_is_removed)
{
    static const char make[] =
        "unset MAKEFLAGS MAKELEVEL MFLAGS; .packaging/deb \"$BUILD\" \"$1\"";
    /* As on a fresh system: the settings are those of /etc/countd.conf, and
     * only the ports are others. */
    static const char use[] =
        "exec unshare -m --propagation private sh -c '" IN_A_COPY
        "cp \"$BUILD\"/deb/*.deb \"$d/root/tmp\"; "
        "exec chroot \"$d/root\" sh -c \"$2\"' sh \"$1\" '"
        "set -eu; cd /tmp; unset COUNTD_CONF LD_LIBRARY_PATH; "
        "dpkg -i /tmp/*.deb >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }; "
        "test -e /usr/share/bash-completion/completions/countd; "
        "mkfifo ready; "
        "countd serve -o write.listen=127.0.0.1:0 -o counter.port=0 "
        "  -o write.ack_listen=127.0.0.1:0 -o read.listen=127.0.0.1:0 "
        "  -o http.listen=127.0.0.1:0 -o read.http=127.0.0.1:0 "
        "  --ready-fd 3 3>ready 2>/tmp/log & "
        "while read -r line && [ -n \"$line\" ]; do "
        "  case $line in ack=*) ack=${line#*=} ;; read=*) read=${line#*=} ;; "
        "  esac; done <ready; "
        "c() { countd -o write.ack_listen=$ack -o read.listen=$read \"$@\"; }; "
        "c incr pages /a 3; c flush; c get pages /a; "
        "stat -c %U /var/lib/countd; kill $!; wait $! || cat /tmp/log; "
        "dpkg -r libcountd-dev libcountd0 countd >/tmp/log 2>&1 || "
        "  { cat /tmp/log; exit 1; }; "
        "test ! -e /usr/bin/countd; test -d /var/lib/countd/keyspace; "
        "echo removed'";
    struct tmpdir dir;

    if (geteuid() != 0 || SANITIZED)
        test_skip("needs root, and programs without a sanitizer");
    tmpdir_make(&dir);
    if (!can(&dir)) {
        tmpdir_remove(&dir);
        test_skip("needs dpkg-dev, and to mount a copy of the system");
    }
    expect(run(make, COUNTD_VERSION), 0, "libcountd-dev_" COUNTD_VERSION);
    expect(run(use, dir.path), 0, "3\ncountd\nremoved\n");
    tmpdir_remove(&dir);
}
