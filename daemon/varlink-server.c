/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Accepts clients and moves their messages. sd-varlink could do that by itself, but it would read on while a client
 * does not take its replies, and collect 16 MiB for each, of requests as well as of replies. So it gets one request at
 * a time, through a socket pair, and no other one before the client has taken the whole reply. */

#include <sys/epoll.h>
#include <sys/socket.h>

#include "log.h"
#include "varlink-client.h"
#include "varlink-idl.h"
#include "varlink-listen.h"
#include "varlink-methods.h"
#include "varlink.h"

/* As with the socket of the bus: after what the kernel has to say, and root before others who may be many. */
#define ROOT_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 10)
#define CLIENT_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 11)

#define REQUEST_USEC (5 * USEC_PER_SEC) /* to finish a message once begun */
#define REPLY_USEC (30 * USEC_PER_SEC)  /* to take some of a reply */
#define TIMER_ACCURACY_USEC (USEC_PER_SEC / 2)

enum {
        CONNECTIONS_MAX = 64,     /* at once; the longest idle one makes room for a new one */
        CONNECTIONS_PER_UID = 16, /* the share of one user */
        REQUEST_MAX = 64 * 1024,  /* bytes */
        STEPS_MAX = 16,           /* of sd-varlink for one request, which takes 4 */
};

typedef enum Lateness { LATE_NEVER, LATE_MESSAGE, LATE_REPLY } Lateness;

typedef struct Connection Connection;

struct Connection {
        VarlinkClient client;
        VarlinkServer *server;
        Connection *prev, *next;
        sd_varlink *link;
        sd_event_source *io;
        sd_event_source *timer;
        int fd;   /* of the client; sd-varlink writes to it, and closes it */
        int feed; /* where sd-varlink reads from the other end */
        char *buf; /* what the client has sent and sd-varlink was not given yet: REQUEST_MAX bytes, NULL if nothing */
        size_t size;
        bool eof; /* the client sends no more */
        uint64_t last_active_usec; /* CLOCK_MONOTONIC */
        Lateness lateness;
        bool wrote; /* since the timer was set */
};

struct VarlinkServer {
        Manager *manager;
        sd_event *event;
        sd_varlink_server *server;
        VarlinkListen listen;
        Connection *connections;
};

static Connection *connection_free(Connection *c) {
        if (!c)
                return NULL;

        if (c->prev)
                c->prev->next = c->next;
        else if (c->server->connections == c)
                c->server->connections = c->next;
        if (c->next)
                c->next->prev = c->prev;

        sd_event_source_disable_unref(c->io);
        sd_event_source_disable_unref(c->timer);
        varlink_stream_free(c->client.stream);
        sd_varlink_close_unref(c->link);
        closep(&c->feed);
        free(c->buf);
        free(c);
        return NULL;
}
DEFINE_CLEANUP_FUNC(Connection, connection_free)

/* The client has not taken all of what it was sent. */
static bool is_blocked(const Connection *c) {
        int events = sd_varlink_get_events(c->link);

        return events >= 0 && (events & EPOLLOUT);
}

static bool has_more(const Connection *c) {
        return c->client.stream && !c->client.stream->waiting;
}

/* Lets sd-varlink work until it has nothing to do, or has to wait for the client. */
static int connection_process(Connection *c) {
        int r = 1;

        for (unsigned i = 0; i < STEPS_MAX && r > 0; i++) {
                r = sd_varlink_process(c->link);
                if (r < 0)
                        return r;
                if (sd_varlink_get_events(c->link) < 0)
                        return -ECONNRESET; /* it has closed the connection */
                if (c->client.stream)
                        break;
        }

        return 0;
}

/* Where the first request ends, NULL if it is not complete. */
static char *request_end(const Connection *c) {
        return c->size > 0 ? memchr(c->buf, 0, c->size) : NULL;
}

static int connection_read(Connection *c) {
        ssize_t n;

        if (!c->buf)
                c->buf = malloc(REQUEST_MAX);
        if (!c->buf)
                return -ENOMEM;
        n = recv(c->fd, c->buf + c->size, REQUEST_MAX - c->size, MSG_DONTWAIT);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        c->eof = n == 0;
        c->size += (size_t) n;

        return 0;
}

/* Hands one request over, if there is one. */
static int connection_take_request(Connection *c) {
        char *end = request_end(c);
        size_t size;
        int r;

        if (!end && !c->eof) {
                r = connection_read(c);
                if (r < 0)
                        return r;
                end = request_end(c);
        }
        if (!end) {
                if (c->size == 0) {
                        free(c->buf);
                        c->buf = NULL;
                }
                return c->eof ? -ECONNRESET : c->size >= REQUEST_MAX ? -EMSGSIZE : 0;
        }

        size = (size_t) (end + 1 - c->buf);
        if (send(c->feed, c->buf, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t) size)
                return -EIO;
        c->size -= size;
        memmove(c->buf, end + 1, c->size);
        c->lateness = LATE_NEVER; /* the next one has its own time */

        return connection_process(c);
}

static int connection_run_stream(Connection *c) {
        int r;

        r = varlink_stream_run(c->client.stream);
        if (r <= 0)
                c->client.stream = varlink_stream_free(c->client.stream);
        if (r == 0 && sd_varlink_is_idle(c->link) <= 0)
                r = -EIO; /* not even the error could be sent */
        if (r < 0)
                return r;

        return connection_process(c); /* writes */
}

static int connection_set_timer(Connection *c) {
        bool partial = c->size > 0 && !request_end(c);
        Lateness lateness = is_blocked(c)                 ? LATE_REPLY :
                            partial && !c->client.stream ? LATE_MESSAGE :
                                                           LATE_NEVER;
        int r;

        if (lateness == LATE_NEVER) {
                c->lateness = lateness;
                return sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        }
        if (lateness == c->lateness && !(lateness == LATE_REPLY && c->wrote))
                return 0;

        c->lateness = lateness;
        c->wrote = false;
        r = sd_event_source_set_time_relative(c->timer, lateness == LATE_REPLY ? REPLY_USEC : REQUEST_USEC);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT);
}

/* After anything was done with the connection: sees to it that it is called again, or closes it. */
static void connection_settle(Connection *c, int r) {
        if (r >= 0)
                r = sd_event_source_set_io_events(c->io,
                                                  is_blocked(c) || has_more(c) ? EPOLLOUT :
                                                  c->client.stream             ? 0 :
                                                  request_end(c) || c->eof     ? EPOLLOUT :
                                                                                 EPOLLIN);
        if (r >= 0)
                r = connection_set_timer(c);
        if (r < 0) {
                if (r != -ECONNRESET && r != -EPIPE)
                        log_debug_errno(r, "Closing a varlink connection of uid %u: %m", c->client.uid);
                connection_free(c);
        }
}

static int on_connection_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Connection *c = userdata;
        int r = 0;

        (void) sd_event_now(c->server->event, CLOCK_MONOTONIC, &c->last_active_usec);

        if (revents & (EPOLLHUP | EPOLLERR))
                r = -ECONNRESET; /* nobody would get the reply */
        else if (is_blocked(c)) {
                c->wrote = true;
                r = connection_process(c);
        } else if (has_more(c))
                r = connection_run_stream(c);
        else
                r = connection_take_request(c);
        connection_settle(c, r);

        return 0;
}

static int on_connection_late(sd_event_source *source, uint64_t usec, void *userdata) {
        connection_settle(userdata, -ETIMEDOUT);

        return 0;
}

static unsigned count_uid(const VarlinkServer *s, uid_t uid) {
        unsigned n = 0;

        for (const Connection *c = s->connections; c; c = c->next)
                n += c->client.uid == uid;

        return n;
}

/* Closes the longest idle connection of the user who has its full share, else of the one, other than root, who has
 * most. */
static bool make_room(VarlinkServer *s, uid_t uid) {
        Connection *victim = NULL;
        uid_t greedy = uid;
        unsigned most = 0;

        if (count_uid(s, uid) < CONNECTIONS_PER_UID)
                for (const Connection *c = s->connections; c; c = c->next) {
                        unsigned n = c->client.uid == 0 ? 0 : count_uid(s, c->client.uid);

                        if (n > most) {
                                most = n;
                                greedy = c->client.uid;
                        }
                }
        for (Connection *c = s->connections; c; c = c->next)
                if (c->client.uid == greedy && (!victim || c->last_active_usec < victim->last_active_usec))
                        victim = c;
        if (!victim)
                return false;
        log_debug("Closing an idle varlink connection of uid %u to make room.", victim->client.uid);
        connection_free(victim);

        return true;
}

/* Takes the socket in any case. */
static int connection_new(VarlinkServer *s, int accepted, const struct ucred *ucred) {
        _cleanup_(connection_freep) Connection *c = NULL;
        _cleanup_close_ int fd = accepted, fed = -EBADF;
        sd_varlink *link;
        int pair[2], r;

        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->server = s;
        c->client = (VarlinkClient){ .manager = s->manager, .uid = ucred->uid };
        c->feed = -EBADF;
        c->next = s->connections;
        if (c->next)
                c->next->prev = c;
        s->connections = c;
        (void) sd_event_now(s->event, CLOCK_MONOTONIC, &c->last_active_usec);

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;
        c->feed = pair[0];
        fed = pair[1];
        r = sd_varlink_server_add_connection_pair(s->server, fed, fd, ucred, &link);
        if (r < 0)
                return r;
        c->link = sd_varlink_ref(link);
        sd_varlink_set_userdata(link, &c->client);
        c->fd = take_fd(&fd);
        (void) take_fd(&fed);

        r = sd_event_add_io(s->event, &c->io, c->fd, EPOLLIN, on_connection_io, c);
        if (r < 0)
                return r;
        r = sd_event_source_set_priority(c->io, c->client.uid == 0 ? ROOT_PRIORITY : CLIENT_PRIORITY);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(s->event, &c->timer, CLOCK_MONOTONIC, REQUEST_USEC, TIMER_ACCURACY_USEC,
                                       on_connection_late, c);
        if (r >= 0)
                r = sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        TAKE_PTR(c);

        return 0;
}

static int on_accept(sd_event_source *source, int listen_fd, uint32_t revents, void *userdata) {
        VarlinkServer *s = userdata;
        struct ucred ucred;
        socklen_t size = sizeof(ucred);
        int fd, r;

        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
                return 0;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) < 0 || ucred.uid == (uid_t) -1) {
                close(fd);
                return 0;
        }
        if (sd_varlink_server_current_connections(s->server) >= CONNECTIONS_MAX ||
            count_uid(s, ucred.uid) >= CONNECTIONS_PER_UID)
                (void) make_room(s, ucred.uid);
        r = connection_new(s, fd, &ucred);
        if (r < 0)
                log_debug_errno(r, "Cannot take a varlink connection of uid %u: %m", ucred.uid);

        return 0;
}

static int make_server(VarlinkServer *s) {
        int r;

        r = sd_varlink_server_new(&s->server, SD_VARLINK_SERVER_ACCOUNT_UID);
        if (r >= 0)
                r = sd_varlink_server_set_info(s->server, "iolat", "iolatd", IOLAT_VERSION, NULL);
        if (r >= 0)
                r = sd_varlink_server_set_description(s->server, "iolatd");
        if (r >= 0)
                r = sd_varlink_server_set_connections_max(s->server, CONNECTIONS_MAX);
        if (r >= 0)
                r = sd_varlink_server_set_connections_per_uid_max(s->server, CONNECTIONS_PER_UID);
        if (r >= 0)
                r = sd_varlink_server_add_interface_many(s->server, &vl_interface_org_iolat_Manager,
                                                         &vl_interface_io_systemd_Metrics);
        if (r >= 0)
                r = varlink_bind_methods(s->server);

        return r;
}

int varlink_server_new(VarlinkServer **ret, sd_event *e, Manager *m, const char *path) {
        VarlinkServer *s;
        int r;

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->manager = m;
        s->event = sd_event_ref(e);
        s->listen = (VarlinkListen){
                .event = s->event,
                .priority = ROOT_PRIORITY,
                .accept = on_accept,
                .userdata = s,
        };
        r = make_server(s);
        if (r >= 0)
                r = varlink_listen_at_path(&s->listen, path);
        if (r >= 0)
                r = varlink_listen_passed(&s->listen);
        if (r < 0) {
                varlink_server_free(s);
                return r;
        }
        *ret = s;

        return 0;
}

VarlinkServer *varlink_server_free(VarlinkServer *s) {
        if (!s)
                return NULL;

        while (s->connections)
                connection_free(s->connections);
        varlink_listen_done(&s->listen);
        sd_varlink_server_unref(s->server);
        sd_event_unref(s->event);
        free(s);
        return NULL;
}

void varlink_server_on_stall(VarlinkServer *s, const StallRow *stall, bool announce) {
        Connection *next;

        if (!s)
                return;
        for (Connection *c = s->connections; c; c = next) {
                int r;

                next = c->next;
                if (!c->client.stream || !c->client.stream->follow)
                        continue;
                r = varlink_stalls_follow(c->client.stream, stall, announce && !is_blocked(c));
                if (r >= 0)
                        r = connection_process(c);
                connection_settle(c, r);
        }
}
