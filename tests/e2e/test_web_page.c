/* tests/e2e/test_web_page.c - a page in a real browser, Debian's chromium, that
 * posts what each port would count or grant.
 *
 * It learns how long the browser's own head of such a request is, by one to a
 * port of the test, and makes its bodies up from there: behind that head whole
 * increments follow, 520 bytes each from the first byte of the connection. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "tests/lib/browser.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/live_client.h"

#define HEAD_MS    60000
#define PEERS_MAX  4
#define INPUT_SIZE 16384
/* The same for every request, so that its head is as long as the first. */
#define BODY_SIZE 4000u

enum { SILENT, ACK, COUNTER, SEMAPHORE, READ, LISTENERS };

static const char *const listeners[LISTENERS] = {"silent", "ack", "counter",
                                                 "semaphore", "read"};

struct site {
    struct fleet fleet;
    struct browser browser;
    uint16_t ports[LISTENERS];
};

/* ---- the page ------------------------------------------------------------ */

/* Requests to each port: by fetch() with any method, and the others that a page
 * has.  It is through when all have ended, however. */
static const char script[] =
    "(async function() {\n"
    "const ports = [%u, %u, %u, %u, %u], silent = 0, ack = 1, read = 4;\n"
    "const methods = ['POST', 'COUNT', 'A', '#$', 'PUT', 'longer-token'];\n"
    "const bytes = s => new TextEncoder().encode(s);\n"
    "function fill(body, at, one) {\n"
    "  for (; at + one.length <= body.length; at += one.length)\n"
    "    body.set(one, at);\n"
    "}\n"
    "function increment() {\n"
    "  const m = new Uint8Array(520);\n"
    "  m[0] = 1; m.set(bytes('forged'), 8); m.set(bytes('by a page'), 264);\n"
    "  return m;\n"
    "}\n"
    "function query() {\n"
    "  const q = new Uint8Array(272);\n"
    "  q[8] = 10; q.set(bytes('forged'), 16);\n"
    "  return q;\n"
    "}\n"
    "const acquire = Uint8Array.from([0x90, 2, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1,\n"
    "  0, 0, 0, 1, 0, 0, 0, 9, 0, 6, ...bytes('forged')]);\n"
    "const ask = (port, method, body, mode) =>\n"
    "  fetch('http://127.0.0.1:' + port + '/', {method, mode, body,\n"
    "    signal: AbortSignal.timeout(5000)}).catch(() => null);\n"
    "const sleep = ms => new Promise(done => setTimeout(done, ms));\n"
    "function form(url, body) {\n"
    "  const frame = document.createElement('iframe');\n"
    "  frame.name = 'f' + Math.random();\n"
    "  document.body.append(frame);\n"
    "  const f = document.createElement('form'), i =\n"
    "    document.createElement('textarea');\n"
    "  Object.assign(f, {action: url, method: 'POST', target: frame.name,\n"
    "    enctype: 'text/plain'});\n"
    "  i.name = String.fromCharCode(...body.slice(0, 1600));\n"
    "  f.append(i); document.body.append(f); f.submit();\n"
    "}\n"
    "function others(port, body) {\n"
    "  const url = 'http://127.0.0.1:' + port + '/';\n"
    "  navigator.sendBeacon(url, body);\n"
    "  form(url, body);\n"
    "  new Image().src = url + 'x'.repeat(4000);\n"
    "  for (const scheme of ['ws:', 'wss:'])\n"
    "    try { new WebSocket(scheme + url.slice(5)); } catch (e) { }\n"
    "  fetch('https:' + url.slice(5), {mode: 'no-cors'}).catch(() => 0);\n"
    "}\n"
    "function call(port) {\n"
    "  try {\n"
    "    const p = new RTCPeerConnection({iceTransportPolicy: 'relay',\n"
    "      iceServers: [{urls: 'turn:127.0.0.1:' + port + '?transport=tcp',\n"
    "        username: 'forged', credential: 'c'}]});\n"
    "    p.createDataChannel('d');\n"
    "    p.createOffer().then(o => p.setLocalDescription(o), () => 0);\n"
    "  } catch (e) { }\n"
    "}\n"
    "for (let i = 0; i < ports.length; i++) {\n"
    "  const one = i == read ? query() : i == silent || i == ack ?\n"
    "    increment() : acquire;\n"
    "  const body = new Uint8Array(%u).fill(120);\n"
    "  fill(body, (one.length - %zu %% one.length) %% one.length, one);\n"
    "  for (const method of methods) {\n"
    "    await ask(ports[i], method, body, 'no-cors');\n"
    "    await ask(ports[i], method, body, 'cors');\n"
    "  }\n"
    "  others(ports[i], body);\n"
    "  call(ports[i]);\n"
    "  await sleep(500);\n"
    "}\n"
    "return 'through';\n"
    "})()";

/* The size of the head that the page's request has, on whichever connection it
 * comes: a browser may open more than one. */
static size_t
hear_head(int listener)
{
    static char inputs[PEERS_MAX][INPUT_SIZE + 1];
    const uint64_t deadline = test_deadline(HEAD_MS);
    struct pollfd p[1 + PEERS_MAX] = {{.fd = listener, .events = POLLIN}};
    size_t sizes[PEERS_MAX] = {0}, count = 0, head = 0;

    while (head == 0) {
        assert_true(clock_ms() < deadline);
        (void)poll(p, (nfds_t)(1 + count), 1000); /* EINTR: go on */
        for (size_t i = 0; i < count; i++) {
            const ssize_t n = recv(p[1 + i].fd, inputs[i] + sizes[i],
                                   INPUT_SIZE - sizes[i], MSG_DONTWAIT);
            const char *end;

            sizes[i] += n > 0 ? (size_t)n : 0;
            end = strstr(inputs[i], "\r\n\r\n");
            if (end && sizes[i] >= (size_t)(end + 4 - inputs[i]) + BODY_SIZE)
                head = (size_t)(end + 4 - inputs[i]);
            if (n == 0) { /* it has gone again */
                client_close(p[1 + i].fd);
                p[1 + i].fd = -1;
            }
        }
        if (p[0].revents == 0)
            continue;
        assert_true(count < PEERS_MAX);
        p[++count] =
            (struct pollfd){.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC),
                            .events = POLLIN};
    }
    for (; count > 0; count--)
        if (p[count].fd >= 0)
            client_close(p[count].fd);
    return head;
}

/* The page is one without a policy of its own. */
static void
browse_page(struct site *s)
{
    char words[BROWSER_SCRIPT_MAX];
    uint16_t port;
    const int listener = client_listen(&port);
    size_t head;
    int size;

    (void)snprintf(words, sizeof words, "http://127.0.0.1:%u/healthz",
                   fleet_ask_port(&s->fleet));
    /* A rebound name makes a page same-origin. */
    browser_start(&s->browser, "--disable-web-security");
    browser_visit(&s->browser, words, "");
    (void)snprintf(words, sizeof words,
                   "fetch('http://127.0.0.1:%u/', {method: 'POST', mode: "
                   "'no-cors', body: new Uint8Array(%u)}).catch(() => 0); "
                   "'sent'",
                   port, BODY_SIZE);
    assert_string_equal(browser_run(&s->browser, words), "sent");
    head = hear_head(listener);
    client_close(listener);

    size = snprintf(words, sizeof words, script, s->ports[0], s->ports[1],
                    s->ports[2], s->ports[3], s->ports[4], BODY_SIZE, head);
    assert_in_range(size, 1, sizeof words - 1);
    assert_string_equal(browser_run(&s->browser, words), "through");
    browser_stop(&s->browser);
}

/* ---- the site ------------------------------------------------------------ */

static struct daemon *
daemon_of(struct site *s, size_t listener)
{
    return fleet_daemon(&s->fleet, listener == READ ? FLEET_READ : FLEET_WRITE);
}

static void
set_up(struct site *site)
{
    fleet_init(&site->fleet);
    fleet_start_with(&site->fleet, FLEET_WRITE, "counter.port=0",
                     "semaphore.enable=true", "semaphore.port=0");
    fleet_start(&site->fleet, FLEET_WORKER);
    fleet_start(&site->fleet, FLEET_READ);
    for (size_t i = 0; i < LISTENERS; i++)
        site->ports[i] = daemon_port(daemon_of(site, i), listeners[i]);
}

static void
tear_down(struct site *s)
{
    fleet_fini(&s->fleet);
}

#define CASE(name, s) TEST_WITH(name, struct site, s, set_up, tear_down)

/* ---- tests --------------------------------------------------------------- */

/* How often these words are in what a daemon has printed. */
static unsigned
times_said(const struct daemon *d, const char *words)
{
    unsigned count = 0;

    (void)daemon_output(d, text, sizeof text);
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        count++;
    return count;
}

/* Who else comes is counted and granted what it asks for. */
static void
expect_only_ours(struct site *s)
{
    const int fd = client_connect(fleet_ack_port(&s->fleet));

    client_increment(fd, "ours", "key", 1);
    client_wins(fd, 1);
    client_close(fd);
    expect(FLEET_RUN(&s->fleet, "flush"), 0, "");
    expect_text(FLEET_RUN(&s->fleet, "total", "ours", "--tsv"), 0, "1\n");
    expect_text(FLEET_RUN(&s->fleet, "export"), 0, "ours\tkey\t1\n");
}

static void
expect_nothing_held(uint16_t port)
{
    struct live_client t;

    live_client_open(&t, port);
    assert_int_equal(live_client_get(&t, "forged"), -LIVE_CLIENT_NOT_FOUND);
    live_client_close(&t);
}

CASE(peer_page_of_a_browser_can_forge_nothing_and_is_told_of_once, s)
{
    char words[128];

    browser_or_skip();
    browse_page(s);

    expect_nothing_held(s->ports[COUNTER]);
    expect_nothing_held(s->ports[SEMAPHORE]);
    expect_only_ours(s);
    for (size_t i = 0; i < LISTENERS; i++) {
        (void)snprintf(words, sizeof words,
                       "%s: a connection from 127.0.0.1:", listeners[i]);
        if (times_said(daemon_of(s, i), words) != 1)
            fail_msg("%s is not said once: %s", listeners[i], text);
    }
}
