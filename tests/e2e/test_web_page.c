/* tests/e2e/test_web_page.c - a page in a real browser, Debian's chromium, that
 * posts what each port would count or grant.
 *
 * The page is served by the test.  It learns how long the browser's own head
 * of such a request is, by one to a port of the test, and makes its body up
 * from there: behind that head whole increments follow, 520 bytes each from
 * the first byte of the connection. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/live_client.h"

#define BROWSER    "/usr/bin/chromium"
#define BROWSE_MS  60000
#define PEERS_MAX  16
#define INPUT_SIZE 16384
/* The same for every request, so that its head is as long as the first. */
#define BODY_SIZE 4000u

enum { SILENT, ACK, COUNTER, SEMAPHORE, READ, LISTENERS };

static const char *const listeners[LISTENERS] = {"silent", "ack", "counter",
                                                 "semaphore", "read"};

/* ---- the server of the page ---------------------------------------------- */

struct peer {
    int fd;
    bool measures; /* came to the port that measures */
    size_t size;
    char input[INPUT_SIZE + 1];
};

struct site {
    struct fleet fleet;
    struct daemon browser;
    struct tmpdir home;
    int page, measure; /* listening */
    uint16_t page_port, measure_port;
    uint16_t ports[LISTENERS];
    struct peer peers[PEERS_MAX];
    size_t peer_count;
    size_t head; /* bytes of the browser's head; 0: not seen */
    bool done;   /* the page has said so */
};

/* Requests to each port: by fetch() with any method, and the others that a page
 * has.  The page says so when all have ended, however. */
static const char script[] =
    "<!doctype html><body><script>\n"
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
    "async function run() {\n"
    "  await ask(%u, 'POST', new Uint8Array(%u), 'no-cors');\n"
    "  const head = Number(await (await fetch('/head')).text());\n"
    "  for (let i = 0; i < ports.length; i++) {\n"
    "    const one = i == read ? query() : i == silent || i == ack ?\n"
    "      increment() : acquire;\n"
    "    const body = new Uint8Array(%u).fill(120);\n"
    "    fill(body, (one.length - head %% one.length) %% one.length, one);\n"
    "    for (const method of methods) {\n"
    "      await ask(ports[i], method, body, 'no-cors');\n"
    "      await ask(ports[i], method, body, 'cors');\n"
    "    }\n"
    "    others(ports[i], body);\n"
    "    call(ports[i]);\n"
    "    await sleep(500);\n"
    "  }\n"
    "  await fetch('/done');\n"
    "}\n"
    "run();\n"
    "</script>\n";

static void
send_answer(const struct peer *p, const char *status, const char *type,
            const char *body)
{
    char reply[16384];
    const int size = snprintf(reply, sizeof reply,
                              "HTTP/1.1 %s\r\nContent-Type: %s\r\n"
                              "Content-Length: %zu\r\n"
                              "Cache-Control: no-store\r\n"
                              "Connection: close\r\n\r\n%s",
                              status, type, strlen(body), body);

    assert_in_range(size, 1, sizeof reply - 1);
    (void)client_try_send(p->fd, reply, (size_t)size); /* it may have gone */
}

static void
answer_page(struct site *s, const struct peer *p)
{
    char body[8192];

    if (strncmp(p->input, "GET / ", 6) == 0) {
        const int size = snprintf(
            body, sizeof body, script, s->ports[0], s->ports[1], s->ports[2],
            s->ports[3], s->ports[4], s->measure_port, BODY_SIZE, BODY_SIZE);

        assert_in_range(size, 1, sizeof body - 1);
        send_answer(p, "200 OK", "text/html", body);
    } else if (strncmp(p->input, "GET /head ", 10) == 0) {
        (void)snprintf(body, sizeof body, "%zu", s->head);
        send_answer(p, "200 OK", "text/plain", body);
    } else if (strncmp(p->input, "GET /done ", 10) == 0) {
        s->done = true;
        send_answer(p, "200 OK", "text/plain", "");
    } else
        send_answer(p, "404 Not Found", "text/plain", "");
}

/* False when it is served. */
static bool
serve_peer(struct site *s, struct peer *p)
{
    const ssize_t n =
        recv(p->fd, p->input + p->size, INPUT_SIZE - p->size, MSG_DONTWAIT);
    const char *end;
    size_t head;

    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0)
        return false;
    p->size += (size_t)n;
    p->input[p->size] = '\0';
    end = strstr(p->input, "\r\n\r\n");
    if (end == NULL)
        return true;
    head = (size_t)(end + 4 - p->input);
    if (!p->measures)
        answer_page(s, p);
    else if (p->size < head + BODY_SIZE)
        return true;
    else {
        assert_memory_equal(p->input, "POST / ", 7);
        s->head = head;
        send_answer(p, "200 OK", "text/plain", "");
    }
    return false;
}

static void
welcome_peer(struct site *s, int listener)
{
    struct peer *p = &s->peers[s->peer_count];
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return; /* it has gone again */
    assert_true(s->peer_count < PEERS_MAX);
    *p = (struct peer){.fd = fd, .measures = listener == s->measure};
    s->peer_count++;
}

/* Serves until the page is through. */
static void
serve_page(struct site *s)
{
    const uint64_t deadline = test_deadline(BROWSE_MS);
    struct pollfd p[2 + PEERS_MAX];

    while (!s->done) {
        if (clock_ms() > deadline || !daemon_alive(&s->browser)) {
            (void)daemon_output(&s->browser, text, sizeof text);
            fail_msg("the page did not get through: %s", text);
        }
        p[0] = (struct pollfd){.fd = s->page, .events = POLLIN};
        p[1] = (struct pollfd){.fd = s->measure, .events = POLLIN};
        for (size_t i = 0; i < s->peer_count; i++)
            p[2 + i] = (struct pollfd){.fd = s->peers[i].fd, .events = POLLIN};
        (void)poll(p, (nfds_t)(2 + s->peer_count), 1000); /* EINTR: go on */
        for (size_t i = s->peer_count; i-- > 0;)
            if (p[2 + i].revents != 0 && !serve_peer(s, &s->peers[i])) {
                client_close(s->peers[i].fd);
                s->peers[i] = s->peers[--s->peer_count];
            }
        if (p[0].revents != 0)
            welcome_peer(s, s->page);
        if (p[1].revents != 0)
            welcome_peer(s, s->measure);
    }
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
    site->browser.output = -1;
    site->page = client_listen(&site->page_port);
    site->measure = client_listen(&site->measure_port);
    tmpdir_make(&site->home);
    fleet_init(&site->fleet);
    fleet_start_with(&site->fleet, FLEET_WRITE, "counter.port=0",
                     "semaphore.enable=true", "semaphore.port=0", NULL);
    fleet_start(&site->fleet, FLEET_WORKER);
    fleet_start(&site->fleet, FLEET_READ);
    for (size_t i = 0; i < LISTENERS; i++)
        site->ports[i] = daemon_port(daemon_of(site, i), listeners[i]);
}

static void
tear_down(struct site *s)
{
    if (s->browser.output >= 0)
        daemon_fini(&s->browser);
    while (s->peer_count > 0)
        client_close(s->peers[--s->peer_count].fd);
    client_close(s->page);
    client_close(s->measure);
    fleet_fini(&s->fleet);
    tmpdir_remove(&s->home);
}

#define CASE(name, s) TEST_WITH(name, struct site, s, set_up, tear_down)

/* Opens the page in a browser of its own home, until the page is through. */
static void
browse_page(struct site *s)
{
    char url[64], profile[600], home[600];
    const char *const argv[] = {
        "--headless", "--no-sandbox", "--disable-gpu",
        "--disable-dev-shm-usage",
        /* A rebound name makes a page same-origin. */
        "--disable-web-security", "--disable-background-networking",
        "--disable-component-update", "--disable-breakpad", "--no-first-run",
        "--no-proxy-server", profile, url, NULL};
    const char *const env[] = {home, NULL};
    const struct daemon_how how = {.argv = argv, .env = env, .not_ready = true};

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/", s->page_port);
    (void)snprintf(profile, sizeof profile, "--user-data-dir=%s/profile",
                   s->home.path);
    (void)snprintf(home, sizeof home, "HOME=%s", s->home.path);
    (void)daemon_start_how(&s->browser, BROWSER, &how); /* fails itself */
    serve_page(s);
    (void)daemon_stop(&s->browser); /* its status is its own affair */
}

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

    if (access(BROWSER, X_OK) != 0)
        test_skip("no " BROWSER " (Debian's package chromium)");
    browse_page(s);

    assert_in_range(s->head, 1, INPUT_SIZE - BODY_SIZE);
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
