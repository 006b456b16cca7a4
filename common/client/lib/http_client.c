/* common/client/lib/http_client.c - libcountd: HTTP; see http_client.h:
 * http_ask(), countd_http_open(), countd_http_close(). */
#include "common/client/lib/http_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "common/client/lib/handle.h"

#define ADDRESS    "127.0.0.1:9527"
#define TIMEOUT_MS 5000
#define LENGTH     "Content-length:"

static int
connect_now(struct countd_http *h, uint64_t deadline_ms)
{
    int rc;

    while ((rc = link_connect(&h->link)) == -EINPROGRESS) {
        rc = link_wait(h->link.fd, POLLOUT, -1,
                       h->link.deadline_ms < deadline_ms ? h->link.deadline_ms
                                                         : deadline_ms);
        if (rc < 0 && link_passed(deadline_ms))
            return rc;
    }
    return rc;
}

static int
send_all(struct countd_http *h, const char *bytes, size_t size,
         uint64_t deadline_ms)
{
    while (size > 0) {
        const ssize_t n =
            send(h->link.fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        int rc = n < 0 ? -errno : 0;

        if (rc == -EAGAIN) {
            rc = link_wait(h->link.fd, POLLOUT, -1, deadline_ms);
            if (rc < 0)
                return rc;
        } else if (rc < 0 && rc != -EINTR) {
            return -ENOTCONN;
        }
        if (n > 0) {
            bytes += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

/* One more piece of the answer.  0 at the end of the connection. */
static ssize_t
receive_some(struct countd_http *h, size_t have, uint64_t deadline_ms)
{
    for (;;) {
        const ssize_t n = recv(h->link.fd, h->answer + have,
                               HTTP_ANSWER_MAX - have, MSG_DONTWAIT);
        int rc;

        if (n >= 0)
            return n;
        rc = -errno;
        if (rc == -EAGAIN)
            rc = link_wait(h->link.fd, POLLIN, -1, deadline_ms);
        else if (rc != -EINTR)
            return -ENOTCONN;
        if (rc < 0 && rc != -EINTR)
            return rc;
    }
}

/* The value of a header of a head that ends with NUL; NULL: it is not there. */
static const char *
find_header(const char *head, const char *name)
{
    const char *line = head;

    while ((line = strchr(line, '\n')) != NULL) {
        line++;
        if (strncasecmp(line, name, strlen(name)) == 0)
            return line + strlen(name);
    }
    return NULL;
}

/* 1 when the answer is whole, 0 when it is not yet. */
static int
parse_answer(struct countd_http *h, size_t have, struct http_answer *out,
             bool *kept)
{
    const char *length;
    unsigned long size;
    char *end;

    h->answer[have] = '\0';
    if (strncmp(h->answer, "HTTP/1.", have < 7 ? have : 7) != 0)
        return -EPROTO;
    end = strstr(h->answer, "\r\n\r\n");
    if (!end)
        return have < HTTP_ANSWER_MAX ? 0 : -EPROTO;
    *end = '\0';
    length = find_header(h->answer, LENGTH);
    size = length ? strtoul(length, NULL, 10) : 0;
    out->status = (int)strtoul(h->answer + strcspn(h->answer, " "), NULL, 10);
    *kept = find_header(h->answer, "Connection: keep-alive") != NULL;
    *end = '\r';
    out->body = end + 4;
    out->size = size;
    if (!length || size > HTTP_ANSWER_MAX ||
        (size_t)(out->body - h->answer) + size > HTTP_ANSWER_MAX ||
        (size_t)(out->body - h->answer) + size < have)
        return -EPROTO;
    return (size_t)(out->body - h->answer) + size == have;
}

/* *begun: something of an answer has come. */
static int
ask_once(struct countd_http *h, const char *request, struct http_answer *out,
         bool *begun)
{
    const uint64_t deadline_ms = link_deadline(h->timeout_ms);
    size_t have = 0;
    bool kept = false;
    ssize_t n;
    int rc;

    *begun = false;
    rc = connect_now(h, deadline_ms);
    if (rc == 0)
        rc = send_all(h, request, strlen(request), deadline_ms);
    while (rc == 0) {
        n = receive_some(h, have, deadline_ms);
        if (n <= 0) {
            rc = n < 0 ? (int)n : -ENOTCONN;
            break;
        }
        *begun = true;
        have += (size_t)n;
        rc = parse_answer(h, have, out, &kept);
    }
    if (rc < 0 || !kept)
        link_drop(&h->link);
    return rc < 0 ? rc : 0;
}

/* A kept connection that the server has closed meanwhile shows its end. */
static void
drop_if_ended(struct countd_http *h)
{
    char byte;

    if (h->link.fd >= 0 && !h->link.connecting &&
        recv(h->link.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
        link_drop(&h->link);
}

int
http_ask(struct countd_http *h, const char *request, bool again,
         struct http_answer *out)
{
    bool was_kept, begun;
    int rc;

    drop_if_ended(h);
    was_kept = h->link.fd >= 0;
    rc = ask_once(h, request, out, &begun);
    if (rc == -ENOTCONN && was_kept && again && !begun)
        rc = ask_once(h, request, out, &begun);
    return rc;
}

/* ---- open and close ----------------------------------------------------- */

PUBLIC int
countd_http_open(struct countd_http **out,
                 const struct countd_http_options *options)
{
    struct countd_http_options o;
    struct countd_http *h;
    int rc;

    rc = handle_take_options(&o, sizeof o, options);
    if (rc < 0)
        return rc;
    h = calloc(1, sizeof *h);
    if (!h)
        return -ENOMEM;
    h->timeout_ms = o.timeout_ms > 0 ? (int)o.timeout_ms : TIMEOUT_MS;
    h->answer = malloc(HTTP_ANSWER_MAX + 1);
    rc = h->answer ? 0 : -ENOMEM;
    if (rc == 0 && o.directory && !o.address)
        rc = link_init_socket(&h->link, o.directory, LOCAL_HTTP,
                              (unsigned)h->timeout_ms);
    else if (rc == 0)
        rc = link_init(&h->link, o.address ? o.address : ADDRESS,
                       (unsigned)h->timeout_ms);
    if (rc == 0)
        rc = -pthread_mutex_init(&h->lock, NULL);
    if (rc < 0) {
        free(h->answer);
        free(h);
        return rc;
    }
    *out = h;
    return 0;
}

PUBLIC void
countd_http_close(struct countd_http *h)
{
    if (!h)
        return;
    link_drop(&h->link);
    (void)pthread_mutex_destroy(&h->lock); /* the caller's last use */
    free(h->answer);
    free(h);
}
