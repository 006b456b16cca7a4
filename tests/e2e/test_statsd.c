/* tests/e2e/test_statsd.c - StatsD and Graphite lines sent to countd-write, the
 * built program: what its logs hold after a clean stop, after SIGKILL, under
 * floods, with a socket buffer and with logs that are full.
 *
 * Datagrams to a loopback address are in the socket's buffer, or dropped, when
 * send() returns, and a clean stop reads the buffer: no test waits for more.
 *
 *     TEST_SEED */
#include "tests/e2e/write_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/base/files.h"
#include "tests/lib/random.h"

#define OPTIONS_MAX 12

/* Starts the writer with these settings, NULL-terminated, and ports for lines.
 */
static void
begin(struct rig *r, const char *const *options)
{
    static const char *const ports[] = {
        "statsd.listen=127.0.0.1:0", "statsd.tcp_listen=127.0.0.1:0",
        "graphite.listen=127.0.0.1:0", "write.listen=127.0.0.1:0",
        "write.ack_listen=127.0.0.1:0"};
    const char *argv[2 * OPTIONS_MAX + 16] = {"-d", r->data};
    size_t count = 2;

    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        argv[count++] = "-o";
        argv[count++] = ports[i];
    }
    for (; *options; options++) {
        argv[count++] = "-o";
        argv[count++] = *options;
    }
    assert_int_equal(daemon_start_how(&r->writer, "countd-write",
                                      &(const struct daemon_how){.argv = argv}),
                     0);
}

#define BEGIN(r, ...) begin(r, (const char *const[]){__VA_ARGS__, NULL})

static int
udp(const struct rig *r)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port =
                                       htons(daemon_port(&r->writer, "statsd")),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void
say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

static int64_t
counted(const struct rig *r, const char *keyspace, const char *key)
{
    return records_sum(&r->records, keyspace, key, NULL);
}

static int64_t
told(const struct rig *r, const char *key)
{
    return counted(r, "countd.statsd", key);
}

/* ---- vectors ------------------------------------------------------------ */

struct expected {
    const char *keyspace, *key;
    int64_t count;
};

struct vector {
    const char *title;
    const char *port;     /* "statsd" (datagrams), "statsd-tcp", "graphite" */
    const char *sent[14]; /* datagrams, or pieces of one stream */
    struct expected after[9];
    int64_t lines, bad, ignored;
    const char *option; /* NULL: none */
};

#define C "statsd"
#define N "statsd.timer.count"
#define S "statsd.timer.sum"

static const struct vector vectors[] = {
    {"signs, types c and m, zero",
     "statsd",
     {"a:1|c", "a:5|c", "b:-2|c", "c:+2|c", "d:0|c", "e:1|m"},
     {{C, "a", 6}, {C, "b", -2}, {C, "c", 2}, {C, "e", 1}},
     6,
     0,
     0,
     NULL},
    {"lines of a datagram; CR LF, empty lines and a last LF are none",
     "statsd",
     {"a:1|c\nb:2|c", "a:1|c\n", "c:1|c\r\nd:1|c\r\n", "\n\n"},
     {{C, "a", 2}, {C, "b", 2}, {C, "c", 1}, {C, "d", 1}},
     5,
     0,
     0,
     NULL},
    {"rates, and thirds that make a whole",
     "statsd",
     {"a:1|c|@0.1", "b:1|c|@1", "c:3|c|@.5", "d:1|c|@1e-1",
      "e:1|c|@0.3\ne:1|c|@0.3\ne:1|c|@0.3", "f:1|c|@0.3"},
     {{C, "a", 10},
      {C, "b", 1},
      {C, "c", 6},
      {C, "d", 10},
      {C, "e", 10},
      {C, "f", 3}},
     8,
     0,
     0,
     NULL},
    {"rates that are malformed",
     "statsd",
     {"a:1|c|@0", "b:1|c|@2", "c:1|c|@-1", "d:1|c|@", "e:1|c|0.1", "f:1|c|@0x1",
      "g:1|c|@0.5|@0.1", "h:1|c|@nan", "ok:1|c"},
     {{C, "ok", 1}},
     9,
     8,
     0,
     NULL},
    {"fractions are added before they are rounded",
     "statsd",
     {"a:1.5|c\na:1.5|c", "b:0.25|c\nb:0.25|c\nb:0.25|c\nb:0.25|c", "c:2.4|c",
      "d:-0.5|c\nd:-0.5|c", "e:1e3|c", "f:1e-7|c", "g:.5|c\ng:.5|c", "h:5.|c"},
     {{C, "a", 3},
      {C, "b", 1},
      {C, "c", 2},
      {C, "d", -1},
      {C, "e", 1000},
      {C, "g", 1},
      {C, "h", 5}},
     14,
     0,
     0,
     NULL},
    {"values that are malformed",
     "statsd",
     {"a:|c", "a:x|c", "a:0x10|c", "a:Infinity|c", "a:nan|c", "a: 1|c",
      "a:1 |c", "a:1e|c", "a:9223372036854775808|c", "a:--1|c", "ok:1|c"},
     {{C, "ok", 1}},
     11,
     10,
     0,
     NULL},
    {"lines that are malformed",
     "statsd",
     {"o", "p|c", "q:1", "r:1|", "s:1|x", "t:1|C", ":1|c", "u:1|c||",
      "v:1|c |@0.5", "w:1|c|junk", "x:1|c:2|z", "ok:1|c"},
     {{C, "ok", 1}},
     12,
     11,
     0,
     NULL},
    {"groups and several values",
     "statsd",
     {"a:1|c:2|c:3|c", "b:1:2:3|c", "d:1|c|@0.1:2|c", "e:1:2|ms"},
     {{C, "a", 6}, {C, "b", 6}, {C, "d", 12}, {N, "e", 2}, {S, "e", 3}},
     4,
     0,
     0,
     NULL},
    {"names are not changed",
     "statsd",
     {"a b/c-d:1|c", "\xff\xc3\x28:1|c", "x..y:1|c", "UP:1|c\nup:2|c"},
     {{C, "a b/c-d", 1},
      {C, "\xff\xc3\x28", 1},
      {C, "x..y", 1},
      {C, "UP", 1},
      {C, "up", 2}},
     5,
     0,
     0,
     NULL},
    {"timers: their number and their sum",
     "statsd",
     {"t:12|ms", "t:3|ms|@0.1", "h:5|h", "d:7|d", "bad:-1|ms",
      "f:1.5|ms\nf:1.5|ms"},
     {{N, "t", 11},
      {S, "t", 42},
      {N, "h", 1},
      {S, "h", 5},
      {N, "d", 1},
      {S, "d", 7},
      {N, "f", 2},
      {S, "f", 3}},
     7,
     1,
     0,
     NULL},
    {"timers that are off",
     "statsd",
     {"t:12|ms", "a:1|c"},
     {{C, "a", 1}},
     2,
     0,
     1,
     "statsd.timers=off"},
    {"gauges, sets, events and checks",
     "statsd",
     {"g:3|g", "g:+2|g", "s:bob|s", "_e{5,4}:title|text", "_sc|n|0", "ok:1|c"},
     {{C, "ok", 1}},
     6,
     0,
     5,
     NULL},
    {"tags are not part of the name",
     "statsd",
     {"a:1|c|#h:x", "a:1|c|#h:y|@0.5", "a:1|c|c:id|T17|e:x|card:low"},
     {{C, "a", 4}},
     3,
     0,
     0,
     NULL},
    {"tags are part of the name, sorted",
     "statsd",
     {"a:1|c|#h:x,b:2", "a:1|c|#b:2,h:x,b:2", "a:1|c|#t"},
     {{C, "a;b=2;h=x", 2}, {C, "a;t=", 1}},
     3,
     0,
     0,
     "statsd.tags=append"},
    {"the first part of a name is the keyspace",
     "statsd",
     {"web.hits.home:1|c", "web:2|c", ".x:3|c", "web.:4|c", "web.t:5|ms"},
     {{"web", "hits.home", 1},
      {C, "web", 2},
      {C, ".x", 3},
      {C, "web.", 4},
      {"web.timer.count", "t", 1},
      {"web.timer.sum", "t", 5}},
     5,
     0,
     0,
     "statsd.split=1"},
    {"integers beyond 2^53, and the bounds",
     "statsd",
     {"a:9007199254740993|c", "b:9223372036854775807|c",
      "c:-9223372036854775808|c", "d:9223372036854775807|c\nd:1|c"},
     {{C, "a", 9007199254740993},
      {C, "b", INT64_MAX},
      {C, "c", INT64_MIN},
      {C, "d", INT64_MAX}},
     5,
     0,
     0,
     NULL},
    {"a stream in pieces, and a last line without LF",
     "statsd-tcp",
     {"a:1|c\nb", ":2|", "c\r\n\n", "bad\nc:3", "|c"},
     {{C, "a", 1}, {C, "b", 2}, {C, "c", 3}},
     4,
     1,
     0,
     NULL},
    {"a request after lines is only malformed",
     "statsd-tcp",
     {"a:1|c\nbad\nb:1|c\n", "GET / HTTP/1.1\r\n"},
     {{C, "a", 1}, {C, "b", 1}},
     4,
     2,
     0,
     NULL},
    {"a request at the beginning ends the connection",
     "statsd-tcp",
     {"POST /a:1|c HTTP/1.1\r\nHost: x\r\n\r\na:1|c\n"},
     {{NULL}},
     0,
     0,
     0,
     NULL},
    {"so does one without LF",
     "graphite",
     {"GET /stats_counts.a HTTP/1.0"},
     {{NULL}},
     0,
     0,
     0,
     NULL},
    {"so does TLS, whose session ticket a web page may choose",
     "statsd-tcp",
     {"\x16\x03\x01\x02\x01\x01\n", "a:1|c\n"},
     {{NULL}},
     0,
     0,
     0,
     NULL},
    {"white space, an exponent, a time of -1, no LF at the end",
     "graphite",
     {"stats_counts.a 1 -1\n stats_counts.b \t7 1795301760  \r\nstats_counts.c "
      "1e3 1795301760\n",
      "stats_counts.d 1 1795301760.7\nstats_counts.d 2 1795301760"},
     {{C, "a", 1}, {C, "b", 7}, {C, "c", 1000}, {C, "d", 3}},
     5,
     0,
     0,
     NULL},
    {"names of statsd's counters, old and new; all else is ignored",
     "graphite",
     {"stats_counts.web.hits 7 1\nstats.counters.s.count 3.3333333333333335 1\n"
      "stats.counters.s.rate 0.3 1\nstats.timers.t.sum 9 1\n"
      "stats.counters..count 1 1\n"},
     {{C, "web.hits", 7}, {C, "s", 3}},
     5,
     0,
     3,
     NULL},
    {"malformed lines; the connection stays",
     "graphite",
     {"stats_counts.a nan 1\nstats_counts.a inf 1\nstats_counts.a 1\n"
      "stats_counts.a 1 2 3\nstats_counts.a 1 x\nstats_counts.\xff 2 1\n"},
     {{C, "\xff", 2}},
     6,
     5,
     0,
     NULL},
};

/* All increments of the logs are those expected, or counts of ours. */
static void
check_after(const struct rig *r, const struct vector *v)
{
    for (const struct expected *e = v->after; e->keyspace; e++)
        if (counted(r, e->keyspace, e->key) != e->count)
            fail_msg("%s: %s has %lld, not %lld", v->title, e->key,
                     (long long)counted(r, e->keyspace, e->key),
                     (long long)e->count);
    for (size_t i = 0; i < r->records.count; i++) {
        const struct record *one = &r->records.at[i];
        bool known = strncmp(one->keyspace, "countd.", 7) == 0;

        for (const struct expected *e = v->after; e->keyspace; e++)
            known |= strcmp(one->keyspace, e->keyspace) == 0 &&
                     strcmp(one->key, e->key) == 0;
        if (!known)
            fail_msg("%s: there is %s %s", v->title, one->keyspace, one->key);
    }
}

static int64_t
sum_ignored(const struct rig *r, const char *keyspace)
{
    int64_t sum = 0;

    for (size_t i = 0; i < r->records.count; i++)
        if (strcmp(r->records.at[i].keyspace, keyspace) == 0 &&
            strncmp(r->records.at[i].key, "ignored", 7) == 0)
            sum += r->records.at[i].increment;
    return sum;
}

static void
a_vector_counts(void **state)
{
    const struct vector *v = *state;
    const char *self =
        strcmp(v->port, "graphite") == 0 ? "countd.graphite" : "countd.statsd";
    const bool datagrams = strcmp(v->port, "statsd") == 0;
    struct rig *r;
    void *rig;
    int fd;

    assert_int_equal(set_up(&rig), 0);
    r = rig;
    BEGIN(r, "log.size=1M", v->option ? v->option : "log.count=2");
    fd = datagrams ? udp(r) : client_connect(daemon_port(&r->writer, v->port));
    for (size_t i = 0; v->sent[i]; i++)
        say(fd, v->sent[i]);
    client_close(fd);
    stop(r);
    check_after(r, v);
    if (counted(r, self, "lines") != v->lines ||
        counted(r, self, "bad") != v->bad || sum_ignored(r, self) != v->ignored)
        fail_msg("%s: lines %lld, bad %lld, ignored %lld", v->title,
                 (long long)counted(r, self, "lines"),
                 (long long)counted(r, self, "bad"),
                 (long long)sum_ignored(r, self));
    assert_int_equal(tear_down(&rig), 0);
}

/* ---- names and limits --------------------------------------------------- */

static void
lengths_have_limits(void **state)
{
    struct rig *r = *state;
    static char text[65600];
    int fd;

    BEGIN(r, "log.size=1M");
    fd = udp(r);
    memset(text, 'n', sizeof text);
    strcpy(text + 256, ":1|c"); /* the longest key */
    say(fd, text);
    memset(text, 'n', sizeof text);
    strcpy(text + 257, ":1|c");
    say(fd, text);
    /* A line of 8192 bytes, one of 8193, and a last one that counts. */
    memset(text, 't', sizeof text);
    memcpy(text, "a:1|c|#", 7);
    memcpy(text + 8192, "\nb:1|c|#", 8);
    strcpy(text + 8193 + 8193, "\nc:1|c");
    say(fd, text);
    /* The largest datagram. */
    memset(text, 't', sizeof text);
    memcpy(text, "_e{", 3);
    strcpy(text + 65501, "\nd:1|c");
    assert_int_equal(send(fd, text, 65507, 0), 65507);
    client_close(fd);
    stop(r);

    assert_int_equal(told(r, "datagrams"), 4);
    assert_int_equal(told(r, "lines"), 7);
    assert_int_equal(told(r, "bad"), 3);
    assert_int_equal(counted(r, C, "a"), 1);
    assert_int_equal(counted(r, C, "b"), 0);
    assert_int_equal(counted(r, C, "c"), 1);
    assert_int_equal(counted(r, C, "d"), 1);
}

static void
a_line_above_8192_bytes_ends_a_connection(void **state)
{
    static char text[16500];
    struct rig *r = *state;
    int fd;

    BEGIN(r, "log.size=1M");
    fd = client_connect(daemon_port(&r->writer, "statsd-tcp"));
    memset(text, 't', sizeof text);
    memcpy(text, "a:1|c|#", 7);
    memcpy(text + 8192, "\r\nb:1|c|#", 9);
    strcpy(text + 8194 + 8193, "\nc:1|c\n");
    client_send(fd, text, strlen(text));
    client_expect_end(fd);
    client_close(fd);
    stop(r);

    assert_int_equal(counted(r, C, "a"), 1);
    assert_int_equal(counted(r, C, "b"), 0);
    assert_int_equal(counted(r, C, "c"), 0);
}

static void
a_rest_before_a_reset_is_not_a_line(void **state)
{
    struct rig *r = *state;
    int fd, other;

    BEGIN(r, "log.size=1M");
    fd = client_connect(daemon_port(&r->writer, "statsd-tcp"));
    say(fd, "a:1|c\nb:1|c");
    /* The first line has been read when a gauge of a later one is there. */
    other = client_connect(daemon_port(&r->writer, "ack"));
    client_increment(other, "w", "k", 1);
    client_wins(other, 1);
    client_increment(other, "w", "k", 1);
    client_wins(other, 1);
    client_reset(fd);
    client_close(other);
    stop(r);

    assert_int_equal(counted(r, C, "b"), 0);
}

static void
figures_about_itself_can_be_off(void **state)
{
    struct rig *r = *state;
    int fd;

    BEGIN(r, "log.size=1M", "statsd.self=off");
    fd = udp(r);
    say(fd, "a:1|c\nbad");
    client_close(fd);
    stop(r);

    assert_int_equal(r->records.count, 1);
    assert_int_equal(counted(r, C, "a"), 1);
}

/* ---- the socket in the directory ---------------------------------------- */

static int
unix_datagrams(const struct rig *r)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char path[700];
    int fd, folder;

    (void)snprintf(path, sizeof path, "%s/socket", r->data);
    folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    (void)snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d/statsd",
                   folder);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    close(folder);
    return fd;
}

static void
datagrams_come_to_a_socket_with_a_long_path(void **state)
{
    static char longer[70000];
    struct rig *r = *state;
    const size_t size = strlen(r->data);
    int fd;

    (void)snprintf(r->data + size, sizeof r->data - size, "/%0200d", 1);
    assert_int_equal(mkdir(r->data, 0755), 0);
    BEGIN(r, "log.size=1M", "statsd.listen=socket");
    fd = unix_datagrams(r);
    say(fd, "a:1|c\nb:2|c");
    /* Cut, its last line might count something else. */
    memset(longer, '\n', sizeof longer);
    memcpy(longer + 65530, "c:12345|c", 9);
    assert_int_equal(send(fd, longer, sizeof longer, 0), sizeof longer);
    say(fd, "a:1|c");
    client_close(fd);
    stop(r);

    assert_int_equal(counted(r, C, "a"), 2);
    assert_int_equal(counted(r, C, "b"), 2);
    assert_int_equal(r->records.count > 0, 1);
    assert_int_equal(counted(r, C, "c"), 0);
    assert_int_equal(told(r, "datagrams"), 2);
    assert_int_equal(told(r, "too_long"), 1);
}

/* ---- numbered datagrams ------------------------------------------------- */

static void
gaps_and_repeats_of_a_sender_are_counted(void **state)
{
    static const int numbers[] = {7, 8, 8, 12, 10, 13};
    struct rig *r = *state;
    char text[64];
    int fd;

    BEGIN(r, "log.size=1M");
    fd = udp(r);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)snprintf(text, sizeof text, "countd.datagram.web-1:%d|g\r\na:1|c",
                       numbers[i]);
        say(fd, text);
    }
    say(fd, "a:1|c\ncountd.datagram.web-2:5|g"); /* only in the first line */
    client_close(fd);
    stop(r);

    assert_int_equal(told(r, "numbered.web-1"), 6);
    assert_int_equal(told(r, "missing.web-1"), 2); /* 9 and 11 */
    assert_int_equal(told(r, "repeated.web-1"), 1);
    assert_int_equal(told(r, "numbered.web-2"), 0);
    assert_int_equal(told(r, "ignored.gauge"), 7);
    assert_int_equal(counted(r, C, "a"), 7);
}

/* ---- a model ------------------------------------------------------------ */

#define NAMES  40
#define ROUNDS 25

/* Millionths, as the page of the protocol defines them. */
struct model_name {
    int64_t exact;
    unsigned lines;
};

/* One random line of a counter; what it adds is exact in millionths, or is
 * rounded as each quotient is. */
static void
make_line(struct random *rng, struct model_name *names, char *text, size_t size)
{
    static const struct {
        const char *text;
        int64_t per; /* value millionths are multiplied by `per` / `parts` */
        int64_t parts;
    } rates[] = {{"", 1, 1},        {"|@0.5", 2, 1},    {"|@.3", 10, 3},
                 {"|@7e-1", 10, 7}, {"|@1", 1, 1},      {"|@0.125", 8, 1},
                 {"|#t:1", 1, 1},   {"|@0.9|#x", 10, 9}};
    const size_t rate = random_below(rng, sizeof rates / sizeof rates[0]);
    const size_t name = random_below(rng, NAMES);
    const int64_t thousandths = (int64_t)random_below(rng, 20001) - 10000;
    const int64_t size_of = thousandths < 0 ? -thousandths : thousandths;
    int64_t millionths = size_of * 1000 * rates[rate].per * 2;

    millionths = (millionths + rates[rate].parts) / (2 * rates[rate].parts);
    names[name].exact += thousandths < 0 ? -millionths : millionths;
    names[name].lines++;
    (void)snprintf(text, size, "n%zu:%s%lld.%03lld|c%s", name,
                   thousandths < 0 ? "-" : "", (long long)(size_of / 1000),
                   (long long)(size_of % 1000), rates[rate].text);
}

static void
rests_stay_with_their_names_over_many_flushes(void **state)
{
    struct random rng = {random_seed("test_statsd")};
    struct model_name names[NAMES] = {{0}};
    struct rig *r = *state;
    size_t slots = 0;
    char text[1024], key[16];
    int fd, turn;

    BEGIN(r, "log.size=256K", "log.count=40", "log.rotate_after=1h",
          "statsd.flush=60s");
    fd = udp(r);
    turn = ack(r);
    for (size_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = random_below(&rng, 30) + 1; i > 0; i--) {
            size_t used = 0;

            for (size_t j = random_below(&rng, 10) + 1; j > 0; j--) {
                make_line(&rng, names, text + used, sizeof text - used);
                used += strlen(text + used);
                text[used++] = '\n';
            }
            assert_int_equal(send(fd, text, used, 0), used);
        }
        /* Flushes what has been read, and hands the log on. */
        client_increment(turn, "turn", "k", 1);
        client_wins(turn, 1);
        daemon_signal(&r->writer, SIGUSR2);
        await_logs(r, LOG_MODE_FULL, round);
    }
    client_close(turn);
    client_close(fd);
    stop(r);
    for (size_t i = 0; i < NAMES; i++) {
        int64_t off;
        size_t count;

        (void)snprintf(key, sizeof key, "n%zu", i);
        off = (int64_t)records_sum(&r->records, C, key, &count) * 1000000 -
              names[i].exact;
        slots += count;
        if (off > 500000 || off < -500000)
            fail_msg("%s is off by %lld millionths after %u lines", key,
                     (long long)off, names[i].lines);
    }
    assert_true(slots > 2 * NAMES); /* of several flushes */
    assert_int_equal(told(r, "bad"), 0);
}

/* ---- loss --------------------------------------------------------------- */

static void
drops_of_the_kernel_are_told_to_the_number(void **state)
{
    enum { SENT = 3000 };
    struct rig *r = *state;
    int fd, status;

    BEGIN(r, "log.size=1M", "statsd.rcvbuf=64K");
    fd = udp(r);
    daemon_signal(&r->writer, SIGSTOP);
    assert_int_equal(waitpid(r->writer.pid, &status, WUNTRACED), r->writer.pid);
    assert_true(WIFSTOPPED(status));
    for (int i = 0; i < SENT; i++)
        say(fd, "a:1|c\na:1|c");
    daemon_signal(&r->writer, SIGCONT);
    client_close(fd);
    stop(r);

    assert_true(told(r, "dropped") > 0);
    assert_int_equal(told(r, "dropped") + told(r, "datagrams"), SENT);
    assert_int_equal(counted(r, C, "a"), 2 * told(r, "datagrams"));
}

/* Sends until the port is closed.  In a process of its own. */
static pid_t
flood(const struct rig *r)
{
    const pid_t pid = fork();
    char text[1024];
    size_t used = 0;
    int fd;

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    fd = udp(r);
    for (int i = 0; i < 20; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "flood.%d:1|c\n", i);
    while (send(fd, text, used, 0) == (ssize_t)used)
        continue;
    _exit(0);
}

static void
sigterm_under_a_flood_loses_nothing_received(void **state)
{
    struct rig *r = *state;
    int64_t sum = 0;
    pid_t pid;
    int fd;

    BEGIN(r, "log.size=4M", "write.drain=200ms", "statsd.flush=20ms");
    pid = flood(r);
    /* Other ports are served meanwhile. */
    fd = ack(r);
    for (int i = 0; i < 200; i++) {
        client_increment(fd, "other", "k", 1);
        client_wins(fd, 1);
    }
    client_close(fd);
    stop(r);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    assert_int_equal(counted(r, "other", "k"), 200);
    assert_true(told(r, "datagrams") > 200);
    assert_int_equal(told(r, "lines"), 20 * told(r, "datagrams"));
    for (size_t i = 0; i < r->records.count; i++)
        if (strcmp(r->records.at[i].keyspace, C) == 0)
            sum += r->records.at[i].increment;
    assert_int_equal(sum, told(r, "lines"));
}

static void
sigkill_loses_a_flush_at_most(void **state)
{
    struct rig *r = *state;
    int fd;

    BEGIN(r, "log.size=1M", "log.rotate_after=50ms", "statsd.flush=20ms");
    fd = udp(r);
    for (int i = 0; i < 100; i++)
        say(fd, "a:1|c");
    /* A flush has put them into the log, which is handed on by its age. */
    await_logs(r, LOG_MODE_FULL, 1);
    for (int i = 0; i < 100; i++)
        say(fd, "b:1|c");
    daemon_kill(&r->writer);
    client_close(fd);
    read_logs(r);

    assert_int_equal(counted(r, C, "a"), 100);
    assert_in_range(counted(r, C, "b"), 0, 100);
}

/* ---- all logs are full -------------------------------------------------- */

#define NAME_LINE 185

/* Sends lines of different names over TCP, from byte `at` of all such lines on,
 * until the writer does not read any more, or to byte `end`.  Returns where the
 * next byte is. */
static size_t
send_names(int fd, size_t at, size_t end)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    while (at < end && poll(&p, 1, 500) > 0) {
        char line[NAME_LINE + 1];
        ssize_t n;

        (void)snprintf(line, sizeof line, "%0180zu:1|c\n", at / NAME_LINE);
        n = send(fd, line + at % NAME_LINE, NAME_LINE - at % NAME_LINE,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(n > 0 || errno == EAGAIN);
        at += n > 0 ? (size_t)n : 0;
    }
    return at;
}

static void
full_logs_push_back_and_nothing_is_lost(void **state)
{
    size_t most = (size_t)400000 * NAME_LINE;
    struct rig *r = *state;
    struct daemon worker, reader;
    size_t sent;
    int fd;

    BEGIN(r, "log.size=2M", "log.count=2", "log.max=2", "statsd.memory=16M",
          "statsd.flush=20ms", "keyspace.max=100");
    fd = client_connect(daemon_port(&r->writer, "statsd-tcp"));
    sent = send_names(fd, 0, most);
    assert_true(sent < most);
    /* Other ports are served, and countd-write ends the wait of nobody. */
    assert_true(daemon_alive(&r->writer));
    daemon_start(&worker, "countd-worker", "-d", r->data, NULL);
    most = (sent / NAME_LINE + 1000) * NAME_LINE;
    sent = send_names(fd, sent, most);
    assert_int_equal(sent, most);
    client_close(fd);
    assert_int_equal(daemon_stop(&r->writer), 0);
    daemon_start(&reader, "countd-read", "-d", r->data, "-o",
                 "read.listen=127.0.0.1:0", NULL);
    fd = client_connect(daemon_port(&reader, "read"));
    client_await_merge(fd, C, (int64_t)clock_unix_ms(), LIMIT_MS);
    assert_int_equal(client_total(fd, C), sent / NAME_LINE);
    assert_true(client_total(fd, "countd.statsd") > 0);
    client_close(fd);
    assert_int_equal(daemon_stop(&reader), 0);
    assert_int_equal(daemon_stop(&worker), 0);
    daemon_fini(&reader);
    daemon_fini(&worker);
}

int
main(int argc, char **argv)
{
    static const struct CMUnitTest others[] = {
        ON_RIG(lengths_have_limits),
        ON_RIG(a_line_above_8192_bytes_ends_a_connection),
        ON_RIG(a_rest_before_a_reset_is_not_a_line),
        ON_RIG(figures_about_itself_can_be_off),
        ON_RIG(datagrams_come_to_a_socket_with_a_long_path),
        ON_RIG(gaps_and_repeats_of_a_sender_are_counted),
        ON_RIG(rests_stay_with_their_names_over_many_flushes),
        ON_RIG(drops_of_the_kernel_are_told_to_the_number),
        ON_RIG(sigterm_under_a_flood_loses_nothing_received),
        ON_RIG(sigkill_loses_a_flush_at_most),
        ON_RIG(full_logs_push_back_and_nothing_is_lost),
    };
    enum {
        VECTORS = sizeof vectors / sizeof vectors[0],
        OTHERS = sizeof others / sizeof others[0]
    };
    struct CMUnitTest tests[VECTORS + OTHERS];

    for (size_t i = 0; i < VECTORS; i++)
        tests[i] = (struct CMUnitTest){.name = vectors[i].title,
                                       .test_func = a_vector_counts,
                                       .initial_state =
                                           (void *)(uintptr_t)&vectors[i]};
    memcpy(tests + VECTORS, others, sizeof others);
    return test_main(__FILE__, tests, VECTORS + OTHERS, argc, argv);
}
