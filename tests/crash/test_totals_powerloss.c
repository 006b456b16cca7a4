/* tests/crash/test_totals_powerloss.c - the power goes after a start that took the
 * last samples of totals: a disk that still had them would have what they grow
 * by counted twice.
 *
 *     TEST_SEED  repeats the choice of states
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>
#include <sys/stat.h>

#include "tests/lib/client.h"
#include "tests/lib/file.h"
#include "tests/lib/powercut.h"

#define DISKS 50

static off_t
totals_size(const char *path)
{
    struct stat st;

    assert_rc(stat(file_path(path, "live/statsd-totals"), &st), 0);
    return st.st_size;
}

TEST(samples_that_a_start_took_do_not_come_back)
{
    static const char line[] = "up.t 10 1\n";
    struct powercut cut;
    struct tmpdir disk;
    struct fleet f;
    int fd;

    fleet_init_in_memory(&f);
    fleet_start_with(&f, FLEET_WRITE, "counter.enable=off",
                     "graphite.listen=127.0.0.1:0", "graphite.total=up.*");
    fd = client_connect(fleet_writer_port(&f, "graphite"));
    client_send(fd, line, strlen(line));
    client_close(fd);
    fleet_stop(&f, FLEET_WRITE);
    assert_true(totals_size(f.path) > 0);

    powercut_begin(&cut, f.path, random_seed("totals power"));
    powercut_record(&cut, &f, "calls");
    fleet_start(&f, FLEET_WRITE);
    powercut_kill(&cut, fleet_daemon(&f, FLEET_WRITE));
    powercut_load(&cut);

    for (int i = 0; i < DISKS; i++) {
        tmpdir_make_in_memory(&disk);
        disk_build(cut.disk, disk_last(cut.disk) + 1, random_next(&cut.random),
                   disk.path);
        assert_int_equal(totals_size(disk.path), 0);
        tmpdir_remove(&disk);
    }
    powercut_end(&cut);
    fleet_fini(&f);
}
