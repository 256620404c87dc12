/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "bus-context.h"
#include "bus-manager.h"
#include "bus-peer.h"
#include "log.h"
#include "peer-listen.h"
#include "peer-relay.h"

/* Clients come after what the kernel has to say, and root before others who may be many. */
#define ROOT_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 10)
#define PEER_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 11)

#define PEER_REQUEST_USEC (5 * USEC_PER_SEC)    /* to finish authentication, or a message once begun */
#define PEER_REPLY_USEC (30 * USEC_PER_SEC)     /* to take a reply */
#define PEER_TIMER_ACCURACY_USEC (USEC_PER_SEC / 2)
#define PEER_ACCEPT_INTERVAL_USEC (100 * USEC_PER_MSEC)

/* What a client is given time for. */
typedef enum Lateness { LATE_NEVER, LATE_AUTHENTICATION, LATE_MESSAGE, LATE_REPLY } Lateness;

typedef struct PeerConnection PeerConnection;

struct PeerConnection {
        PeerServer *server;
        PeerConnection *prev, *next;
        PeerRelay *relay;
        BusContext context;
        sd_event_source *io;
        sd_event_source *timer;
        uint64_t last_active_usec; /* CLOCK_MONOTONIC */
        bool waiting;              /* for a blocked connection to become free */
        Lateness lateness;
        uint64_t late_progress; /* the relay's progress when the timer was set */
};

struct PeerServer {
        Manager *manager;
        sd_event *event;
        sd_event_source *listen;
        char *path;
        struct stat path_stat; /* of the socket at path as long as it is ours */
        sd_id128_t id;
        PeerConnection *connections;
        unsigned n_connections;
};

static PeerConnection *connection_free(PeerConnection *c) {
        if (!c)
                return NULL;

        if (c->prev)
                c->prev->next = c->next;
        else if (c->server->connections == c)
                c->server->connections = c->next;
        if (c->next)
                c->next->prev = c->prev;
        c->server->n_connections--;

        sd_event_source_disable_unref(c->io);
        sd_event_source_disable_unref(c->timer);
        bus_context_done(&c->context);
        peer_relay_free(c->relay);
        free(c);
        return NULL;
}
DEFINE_CLEANUP_FUNC(PeerConnection, connection_free)

static bool may_request(const PeerConnection *c) {
        unsigned all = 0, same_uid = 0;

        for (const PeerConnection *i = c->server->connections; i; i = i->next) {
                /* One that traces is sent only so much that waits for it, and keeps nobody from asking. */
                if (!peer_relay_blocked(i->relay) || i->context.n_traces > 0)
                        continue;
                all++;
                if (i->context.uid == c->context.uid)
                        same_uid++;
        }
        if (c->context.uid == 0)
                return true;

        return all < PEER_BLOCKED_MAX && same_uid < PEER_BLOCKED_PER_UID;
}

static void wake_waiting(PeerServer *s) {
        for (PeerConnection *c = s->connections; c; c = c->next)
                if (c->waiting && may_request(c)) {
                        c->waiting = false;
                        (void) sd_event_source_set_io_events(c->io, EPOLLIN);
                }
}

static Lateness connection_lateness(PeerConnection *c) {
        if (!peer_relay_bus(c->relay))
                return LATE_AUTHENTICATION;
        if (peer_relay_blocked(c->relay))
                return LATE_REPLY;

        /* While waiting it is not read from, which is not its fault. */
        return peer_relay_partial(c->relay) && !c->waiting ? LATE_MESSAGE : LATE_NEVER;
}

static int connection_set_timer(PeerConnection *c) {
        Lateness lateness = connection_lateness(c);
        /* All lines of the authentication share one time. */
        uint64_t progress = lateness == LATE_AUTHENTICATION ? 0 :
                            /* Operations may come faster than it takes them; it has to go on taking them. */
                            c->context.n_traces > 0         ? peer_relay_sent(c->relay) :
                                                              peer_relay_progress(c->relay);
        int r;

        if (lateness == LATE_NEVER) {
                c->lateness = lateness;
                return sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        }
        if (lateness == c->lateness && progress == c->late_progress)
                return 0;

        c->lateness = lateness;
        c->late_progress = progress;
        r = sd_event_source_set_time_relative(c->timer,
                                              lateness == LATE_REPLY ? PEER_REPLY_USEC : PEER_REQUEST_USEC);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT);
}

/* After anything was done with the relay: sees to it that it is called again, or closes it. */
static void connection_settle(PeerConnection *c, int r) {
        PeerServer *s = c->server;

        if (r >= 0)
                r = sd_event_source_set_io_events(c->io, peer_relay_blocked(c->relay) ? EPOLLOUT :
                                                         c->waiting                   ? 0 :
                                                                                        EPOLLIN);
        if (r >= 0)
                r = connection_set_timer(c);
        if (r < 0) {
                if (r != -ECONNRESET && r != -EPIPE)
                        log_debug_errno(r, "Closing a connection of uid %u: %m", c->context.uid);
                connection_free(c);
        }
        wake_waiting(s);
}

static int on_connection_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        PeerConnection *c = userdata;

        (void) sd_event_now(c->server->event, CLOCK_MONOTONIC, &c->last_active_usec);

        if (peer_relay_blocked(c->relay)) {
                connection_settle(c, peer_relay_flush(c->relay));
                return 0;
        }
        if (peer_relay_bus(c->relay) && !may_request(c)) {
                /* With no events asked for, a hang-up would be reported again and again. */
                c->waiting = true;
                connection_settle(c, revents & (EPOLLHUP | EPOLLERR) ? -ECONNRESET : 0);
                return 0;
        }
        c->waiting = false;
        connection_settle(c, peer_relay_run(c->relay));

        return 0;
}

static int on_connection_late(sd_event_source *source, uint64_t usec, void *userdata) {
        PeerConnection *c = userdata;

        connection_settle(c, -ETIMEDOUT);
        return 0;
}

static unsigned count_uid(const PeerServer *s, uid_t uid) {
        unsigned n = 0;

        for (const PeerConnection *c = s->connections; c; c = c->next)
                n += c->context.uid == uid;

        return n;
}

static PeerConnection *longest_idle(const PeerServer *s, uid_t uid) {
        PeerConnection *best = NULL;

        for (PeerConnection *c = s->connections; c; c = c->next)
                if (c->context.uid == uid && (!best || c->last_active_usec < best->last_active_usec))
                        best = c;

        return best;
}

/* Picks whom to close so that a client with that uid gets in: of a user who has the full share, the one that was
 * idle longest; else, if the table is full, likewise of the user, other than root, who has most. NULL: no one. */
static PeerConnection *pick_victim(const PeerServer *s, uid_t uid, bool full) {
        uid_t greedy = 0;
        unsigned most = 0;

        if (uid != 0 && count_uid(s, uid) >= PEER_CONNECTIONS_PER_UID)
                return longest_idle(s, uid);
        if (!full)
                return NULL;

        for (const PeerConnection *c = s->connections; c; c = c->next) {
                unsigned n = c->context.uid == 0 ? 0 : count_uid(s, c->context.uid);

                if (n > most) {
                        most = n;
                        greedy = c->context.uid;
                }
        }
        if (most == 0 && uid != 0)
                return NULL; /* root has all, and keeps it */

        return longest_idle(s, greedy);
}

static int make_room(PeerServer *s, uid_t uid, bool full) {
        PeerConnection *victim = pick_victim(s, uid, full);

        if (victim) {
                log_debug("Closing an idle connection of uid %u to make room.", victim->context.uid);
                connection_free(victim);
                wake_waiting(s);
                return 0;
        }

        return full ? -EBUSY : 0;
}

static void flush_context(BusContext *context) {
        PeerConnection *c = (PeerConnection *) ((char *) context - offsetof(PeerConnection, context));

        connection_settle(c, peer_relay_flush(c->relay));
}

static int open_objects(sd_bus *bus, void *userdata) {
        PeerConnection *c = userdata;

        return bus_add_objects(bus, &c->context);
}

static int connection_new(PeerServer *s, int fd, uid_t uid) {
        _cleanup_(connection_freep) PeerConnection *c = NULL;
        int r;

        c = calloc(1, sizeof(*c));
        if (!c) {
                close(fd);
                return -ENOMEM;
        }
        c->server = s;
        c->context = (BusContext){ .manager = s->manager, .uid_known = true, .uid = uid, .flush = flush_context };
        c->next = s->connections;
        if (c->next)
                c->next->prev = c;
        s->connections = c;
        s->n_connections++;
        (void) sd_event_now(s->event, CLOCK_MONOTONIC, &c->last_active_usec);

        r = peer_relay_new(&c->relay, fd, s->id, open_objects, c);
        if (r < 0)
                return r;
        r = sd_event_add_io(s->event, &c->io, fd, EPOLLIN, on_connection_io, c);
        if (r < 0)
                return r;
        r = sd_event_source_set_priority(c->io, uid == 0 ? ROOT_PRIORITY : PEER_PRIORITY);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(s->event, &c->timer, CLOCK_MONOTONIC, PEER_REQUEST_USEC,
                                       PEER_TIMER_ACCURACY_USEC, on_connection_late, c);
        if (r < 0)
                return r;
        c->lateness = LATE_AUTHENTICATION;

        TAKE_PTR(c);
        return 0;
}

static int on_accept(sd_event_source *source, int listen_fd, uint32_t revents, void *userdata) {
        _cleanup_close_ int fd = -EBADF;
        PeerServer *s = userdata;
        struct ucred ucred;
        socklen_t size = sizeof(ucred);
        int r;

        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
                /* Out of descriptors: the next attempt succeeds, or the rate limit of this source applies. */
                if (errno == EMFILE || errno == ENFILE)
                        (void) make_room(s, /* uid= */ 0, /* full= */ true);
                return 0;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) < 0)
                return 0;

        r = make_room(s, ucred.uid, s->n_connections >= PEER_CONNECTIONS_MAX);
        if (r >= 0)
                r = connection_new(s, take_fd(&fd), ucred.uid);
        if (r < 0)
                log_debug_errno(r, "Cannot take a connection of uid %u: %m", ucred.uid);

        return 0;
}

int peer_server_new(PeerServer **ret, sd_event *e, Manager *m, const char *path) {
        _cleanup_(peer_server_freep) PeerServer *s = NULL;
        _cleanup_close_ int fd = -EBADF;
        sd_id128_t machine;
        int r;

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->manager = m;
        s->event = sd_event_ref(e);
        r = sd_id128_randomize(&s->id);
        if (r < 0)
                return r;
        /* Every bus object answers GetMachineId. libsystemd keeps the id once it is read, and must not have to go
         * to the disk for it when a client asks. */
        (void) sd_id128_get_machine(&machine);

        fd = peer_listen(path);
        if (fd < 0)
                return fd;
        s->path = strdup(path);
        if (!s->path)
                return -ENOMEM;
        if (stat(path, &s->path_stat) < 0)
                return -errno;

        r = sd_event_add_io(e, &s->listen, fd, EPOLLIN, on_accept, s);
        if (r < 0)
                return r;
        r = sd_event_source_set_io_fd_own(s->listen, true);
        if (r < 0)
                return r;
        (void) take_fd(&fd);
        r = sd_event_source_set_priority(s->listen, ROOT_PRIORITY);
        if (r < 0)
                return r;
        r = sd_event_source_set_ratelimit(s->listen, PEER_ACCEPT_INTERVAL_USEC, PEER_ACCEPT_BURST);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(s);
        return 0;
}

PeerServer *peer_server_free(PeerServer *s) {
        struct stat st;

        if (!s)
                return NULL;

        while (s->connections)
                connection_free(s->connections);
        sd_event_source_disable_unref(s->listen);
        if (s->path && s->path_stat.st_ino != 0 && stat(s->path, &st) >= 0 &&
            st.st_dev == s->path_stat.st_dev && st.st_ino == s->path_stat.st_ino)
                (void) unlink(s->path);
        free(s->path);
        sd_event_unref(s->event);
        free(s);
        return NULL;
}

void peer_server_emit_stall(PeerServer *s, const StallRow *stall) {
        PeerConnection *next;

        for (PeerConnection *c = s->connections; c; c = next) {
                sd_bus *bus = peer_relay_bus(c->relay);
                int r;

                next = c->next;
                if (!bus)
                        continue;
                r = bus_manager_emit_stall(bus, stall);
                if (r >= 0)
                        r = peer_relay_flush(c->relay);
                connection_settle(c, r);
        }
}
