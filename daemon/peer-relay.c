/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/socket.h>

#include "dbus-auth.h"
#include "dbus-frame.h"
#include "peer-relay.h"

enum {
        OUT_SIZE = 16 * 1024, /* bytes on their way from sd-bus to the client */
        STARTUP_STEPS_MAX = 32,
};

struct PeerRelay {
        int client_fd;
        int inner_fd; /* our end of the socket pair; the other one is sd-bus's */
        sd_bus *bus;
        sd_id128_t server_id;
        peer_relay_open open;
        void *userdata;

        DBusFrame in;
        DBusAuthState auth;
        char *out; /* only while there is something in it */
        size_t out_begin, out_end;
        uint64_t progress;
        uint64_t sent;
};

int peer_relay_new(PeerRelay **ret, int fd, sd_id128_t server_id, peer_relay_open open, void *userdata) {
        _cleanup_close_ int owned_fd = fd;
        const int size = RELAY_SOCKET_BUFFER;
        PeerRelay *p;

        p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        p->client_fd = take_fd(&owned_fd);
        p->inner_fd = -EBADF;
        p->server_id = server_id;
        p->open = open;
        p->userdata = userdata;

        *ret = p;
        return 0;
}

PeerRelay *peer_relay_free(PeerRelay *p) {
        if (!p)
                return NULL;

        if (p->bus)
                sd_bus_close(p->bus);
        sd_bus_unref(p->bus);
        closep(&p->client_fd);
        closep(&p->inner_fd);
        dbus_frame_done(&p->in);
        free(p->out);
        free(p);
        return NULL;
}

bool peer_relay_blocked(const PeerRelay *p) {
        return p->out;
}

bool peer_relay_partial(const PeerRelay *p) {
        return dbus_frame_partial(&p->in);
}

uint64_t peer_relay_progress(const PeerRelay *p) {
        return p->progress;
}

uint64_t peer_relay_sent(const PeerRelay *p) {
        return p->sent;
}

sd_bus *peer_relay_bus(PeerRelay *p) {
        return p->bus;
}

/* Returns 1 if everything was sent, 0 if the client takes no more for now. */
static int send_out(PeerRelay *p) {
        while (p->out_begin < p->out_end) {
                ssize_t n = send(p->client_fd, p->out + p->out_begin, p->out_end - p->out_begin,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0)
                        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
                p->out_begin += (size_t) n;
                p->sent += (size_t) n;
        }
        free(p->out);
        p->out = NULL;
        p->out_begin = p->out_end = 0;

        return 1;
}

static int make_out(PeerRelay *p) {
        if (!p->out)
                p->out = malloc(OUT_SIZE);

        return p->out ? 0 : -ENOMEM;
}

/* Fetches what sd-bus has written. Returns 0 if there is nothing. */
static int fetch_out(PeerRelay *p) {
        char buf[OUT_SIZE];
        ssize_t n;
        int r;

        n = recv(p->inner_fd, buf, sizeof(buf), MSG_DONTWAIT);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n == 0)
                return -ECONNRESET;

        r = make_out(p);
        if (r < 0)
                return r;
        memcpy(p->out, buf, (size_t) n);
        p->out_begin = 0;
        p->out_end = (size_t) n;

        return 1;
}

/* Returns 1 if the client has everything, and sd-bus nothing left to do or to say; 0 if the client is slow. */
static int deliver(PeerRelay *p) {
        int r;

        for (;;) {
                if (p->out) {
                        r = send_out(p);
                        if (r <= 0)
                                return r;
                }
                if (!p->bus)
                        return 1;
                r = fetch_out(p);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                /* The socket pair is empty, so this also writes what sd-bus could not write before. */
                r = sd_bus_process(p->bus, NULL);
                if (r < 0)
                        return r;
                if (r == 0) {
                        r = fetch_out(p);
                        if (r < 0)
                                return r;
                        if (r == 0)
                                return 1;
                }
        }
}

int peer_relay_flush(PeerRelay *p) {
        bool was_blocked = p->out;
        uint64_t queued;
        int r;

        r = deliver(p);
        if (r < 0)
                return r;
        if (r == 0 && p->bus) {
                r = sd_bus_get_n_queued_write(p->bus, &queued);
                if (r < 0)
                        return r;
                return queued > RELAY_SIGNALS_MAX ? -ENOBUFS : 0;
        }
        if (was_blocked)
                p->progress++;

        return 0;
}

static int send_inner(PeerRelay *p, const void *data, size_t size) {
        ssize_t n = send(p->inner_fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0)
                return -errno;

        return (size_t) n == size ? 0 : -EIO; /* it is empty, and larger than any message */
}

/* Connects sd-bus. Its own authentication would only see that the socket pair was made by this process, so it is
 * told to let anybody in; who the client is was asked of the kernel before. */
static int open_bus(PeerRelay *p) {
        static const char hello[] = "\0AUTH ANONYMOUS 69\r\nBEGIN\r\n"; /* 69: some trace, to save a round trip */
        _cleanup_(sd_bus_unrefp) sd_bus *bus = NULL;
        const int size = RELAY_SOCKET_BUFFER;
        char answer[DBUS_LINE_MAX];
        int fds[2], r;
        ssize_t n;

        r = sd_bus_new(&bus);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return -errno;
        p->inner_fd = fds[0];
        r = sd_bus_set_fd(bus, fds[1], fds[1]);
        if (r < 0) {
                close(fds[1]);
                return r;
        }
        r = sd_bus_set_server(bus, /* b= */ true, p->server_id);
        if (r < 0)
                return r;
        r = sd_bus_set_anonymous(bus, true);
        if (r < 0)
                return r;
        r = sd_bus_negotiate_fds(bus, false);
        if (r < 0)
                return r;
        r = p->open(bus, p->userdata);
        if (r < 0)
                return r;
        r = sd_bus_start(bus);
        if (r < 0)
                return r;
        /* sd-bus has made it larger; then a client could let megabytes of signals pile up in it. */
        (void) setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));

        r = send_inner(p, hello, sizeof(hello) - 1);
        if (r < 0)
                return r;
        for (unsigned i = 0; sd_bus_is_ready(bus) == 0; i++) {
                r = i < STARTUP_STEPS_MAX ? sd_bus_process(bus, NULL) : -EPROTO;
                if (r < 0)
                        return r;
        }
        n = recv(p->inner_fd, answer, sizeof(answer), MSG_DONTWAIT);
        if (n < 0)
                return -errno;
        if (n < 3 || memcmp(answer, "OK ", 3) != 0)
                return -EPROTO;

        p->bus = TAKE_PTR(bus);
        return 0;
}

static int handle_line(PeerRelay *p) {
        char guid[SD_ID128_STRING_MAX], reply[DBUS_AUTH_REPLY_MAX];
        int r;

        r = dbus_auth_line(&p->auth, p->in.line, sd_id128_to_string(p->server_id, guid), reply);
        if (r < 0)
                return r;
        dbus_frame_next(&p->in, /* is_message= */ r > 0);
        if (r > 0)
                return open_bus(p);

        r = make_out(p);
        if (r < 0)
                return r;
        p->out_begin = 0;
        p->out_end = strlen(reply);
        memcpy(p->out, reply, p->out_end);

        return 0;
}

static int handle_message(PeerRelay *p) {
        int r = 0;

        /* Nobody here asks the client anything, so whatever else it sends has no receiver. */
        if (p->in.message[1] == DBUS_TYPE_METHOD_CALL)
                r = send_inner(p, p->in.message, p->in.size);
        dbus_frame_next(&p->in, /* is_message= */ true);

        return r;
}

/* Reads and handles one piece. Returns 1 if it was complete, 0 if the client has not sent all of it. */
static int receive(PeerRelay *p) {
        for (;;) {
                size_t size;
                void *space;
                ssize_t n;
                int r;

                dbus_frame_space(&p->in, &space, &size);
                /* Without a buffer for them, the kernel closes file descriptors that come along. */
                n = recv(p->client_fd, space, size, MSG_DONTWAIT);
                if (n < 0)
                        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
                if (n == 0)
                        return -ECONNRESET;
                r = dbus_frame_added(&p->in, (size_t) n);
                if (r == DBUS_PIECE_NONE)
                        continue;
                if (r > 0)
                        r = r == DBUS_PIECE_LINE ? handle_line(p) : handle_message(p);
                if (r < 0)
                        return r;
                p->progress++;
                return 1;
        }
}

int peer_relay_run(PeerRelay *p) {
        int r;

        r = peer_relay_flush(p);
        if (r < 0 || p->out)
                return r;
        r = receive(p);
        if (r <= 0)
                return r;

        return peer_relay_flush(p);
}
