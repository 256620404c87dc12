/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <sys/socket.h>

#include "accept.h"
#include "http.h"
#include "log.h"
#include "query-metrics.h"

#define DEADLINE_CHECK_US (500 * USEC_PER_MSEC)
#define CACHE_NS NSEC_PER_SEC
#define INDEX_PAGE "<!DOCTYPE html><title>iolat</title><p>Storage latency by service: <a href=\"metrics\">metrics</a>\n"

enum {
        TIMER_ACCURACY_US = 10000,
};

typedef struct Connection Connection;
struct Connection {
        int fd;
        uint64_t deadline_ns;
        HttpServer *server;
        Connection *prev, *next;
};

/* One socket to listen on. */
typedef struct Listener {
        HttpServer *server;
        struct MHD_Daemon *mhd;
        sd_event_source *io;
        sd_event_source *timer;
} Listener;

struct HttpServer {
        sd_event *event;
        const Options *options;
        Listener listeners[HTTP_SOCKETS_MAX];
        size_t n_listeners;
        Connection *connections;
        uint64_t n_closed;
        sd_event_source *deadlines; /* on while there are connections */
        sd_event_source *idle;      /* on while there are none */
        uint64_t idle_us;
        MetricMemory memory;
        struct MHD_Response *cached[_METRIC_FORMAT_MAX];
        uint64_t cached_ns[_METRIC_FORMAT_MAX];
};

static void response_unref(struct MHD_Response **r) {
        if (*r)
                MHD_destroy_response(*r);
        *r = NULL;
}

static int set_timer(sd_event_source *s, uint64_t us) {
        int r;

        r = sd_event_source_set_time_relative(s, us);

        return r < 0 ? r : sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

/* Starts the one of both timers that is needed now. */
static void connections_changed(HttpServer *s) {
        if (s->connections) {
                (void) sd_event_source_set_enabled(s->idle, SD_EVENT_OFF);
                (void) set_timer(s->deadlines, DEADLINE_CHECK_US);
        } else {
                (void) sd_event_source_set_enabled(s->deadlines, SD_EVENT_OFF);
                if (s->idle_us != UINT64_MAX)
                        (void) set_timer(s->idle, s->idle_us);
        }
}

static Connection *connection_free(Connection *c) {
        if (!c)
                return NULL;
        if (c->prev)
                c->prev->next = c->next;
        else
                c->server->connections = c->next;
        if (c->next)
                c->next->prev = c->prev;
        c->server->n_closed++;
        if (!c->server->connections)
                connections_changed(c->server);
        free(c);

        return NULL;
}

static void connection_begin(HttpServer *s, struct MHD_Connection *mhd, void **context) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        Connection *c;

        c = calloc(1, sizeof(Connection));
        if (!c || !info) {
                free(c);
                return; /* the request is refused, then */
        }
        c->fd = info->connect_fd;
        c->deadline_ns = now_ns() + HTTP_REQUEST_SEC * NSEC_PER_SEC;
        c->server = s;
        c->next = s->connections;
        if (c->next)
                c->next->prev = c;
        s->connections = c;
        *context = c;
        if (!c->next)
                connections_changed(s);
}

static void on_connection(void *userdata, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what) {
        if (what == MHD_CONNECTION_NOTIFY_STARTED)
                connection_begin(userdata, mhd, context);
        else
                *context = connection_free(*context);
}

/* The library's time limit is about connections on which nothing happens, which says nothing about those on which
 * one byte comes now and then. */
static int on_deadlines(sd_event_source *source, uint64_t usec, void *userdata) {
        HttpServer *s = userdata;
        uint64_t now = now_ns();

        for (Connection *c = s->connections; c; c = c->next)
                if (now >= c->deadline_ns)
                        (void) shutdown(c->fd, SHUT_RDWR); /* which makes the library close it */
        if (s->connections)
                (void) set_timer(source, DEADLINE_CHECK_US);

        return 0;
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata) {
        log_debug("Nobody is connected, exiting.");

        return sd_event_exit(sd_event_source_get_event(source), EXIT_SUCCESS);
}

static int make_text(HttpServer *s, MetricFormat format, char **ret, size_t *ret_size) {
        _cleanup_(query_freep) Query *q = NULL;
        _cleanup_(metric_set_freep) MetricSet *set = NULL;
        _cleanup_free_ char *text = NULL;
        FILE *f;
        int r;

        r = query_new(s->options, &q);
        if (r < 0)
                return r;
        r = query_metrics(q, metric_text_clean, &s->memory, &set);
        if (r < 0)
                return r;
        f = open_memstream(&text, ret_size);
        if (!f)
                return log_oom();
        openmetrics_write(set, format, f);
        r = ferror(f) ? -ENOMEM : 0;
        if (fclose(f) != 0 || r < 0)
                return log_oom();
        *ret = TAKE_PTR(text);

        return 0;
}

/* Takes the text over if it is not static. */
static struct MHD_Response *make_response(const char *type, char *text, size_t size, enum MHD_ResponseMemoryMode mode) {
        struct MHD_Response *response;

        response = MHD_create_response_from_buffer(size, text, mode);
        if (!response) {
                if (mode == MHD_RESPMEM_MUST_FREE)
                        free(text);
                return NULL;
        }
        if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) != MHD_YES ||
            MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") != MHD_YES ||
            MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") != MHD_YES)
                response_unref(&response);

        return response;
}

static enum MHD_Result reply_static(struct MHD_Connection *mhd, unsigned status, const char *type, const char *text) {
        _cleanup_(response_unref) struct MHD_Response *response = NULL;

        response = make_response(type, (char *) text, strlen(text), MHD_RESPMEM_PERSISTENT);
        if (!response)
                return MHD_NO;
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED &&
            MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD") != MHD_YES)
                return MHD_NO;

        return MHD_queue_response(mhd, status, response);
}

/* Many clients, or one that asks all the time, cost the daemon no more than one that asks each second. */
static enum MHD_Result reply_metrics(HttpServer *s, struct MHD_Connection *mhd) {
        MetricFormat format;
        size_t size = 0;
        char *text = NULL;
        int r;

        format = accept_negotiate(MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
        if (!s->cached[format] || now_ns() - s->cached_ns[format] >= CACHE_NS) {
                response_unref(&s->cached[format]);
                r = make_text(s, format, &text, &size);
                if (r < 0)
                        return reply_static(mhd, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain",
                                            "iolatd does not answer; the log of iolat-exporter says why.\n");
                s->cached[format] = make_response(metric_format_content_type(format), text, size,
                                                  MHD_RESPMEM_MUST_FREE);
                if (!s->cached[format])
                        return MHD_NO;
                (void) MHD_add_response_header(s->cached[format], MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT);
                s->cached_ns[format] = now_ns();
        }

        return MHD_queue_response(mhd, MHD_HTTP_OK, s->cached[format]);
}

/* Called when the head of a request is there. All is answered at once: a body is of no use to anyone here. */
static enum MHD_Result on_request(void *userdata, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **state) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        HttpServer *s = userdata;
        enum MHD_Result result;
        Connection *c;

        c = info ? info->socket_context : NULL;
        if (!c)
                return MHD_NO;
        if (!streq(method, MHD_HTTP_METHOD_GET) && !streq(method, MHD_HTTP_METHOD_HEAD))
                result = reply_static(mhd, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "Only GET and HEAD.\n");
        else if (streq(url, "/metrics"))
                result = reply_metrics(s, mhd);
        else if (streq(url, "/"))
                result = reply_static(mhd, MHD_HTTP_OK, "text/html; charset=utf-8", INDEX_PAGE);
        else
                result = reply_static(mhd, MHD_HTTP_NOT_FOUND, "text/plain", "There is only /metrics here.\n");
        c->deadline_ns = now_ns() + HTTP_RESPONSE_SEC * NSEC_PER_SEC;

        return result;
}

/* What a client has done wrong is not worth an entry in the log. */
static void on_log(void *userdata, const char *format, va_list ap) _printf_(2, 0);
static void on_log(void *userdata, const char *format, va_list ap) {
        char text[256];

        (void) vsnprintf(text, sizeof(text), format, ap);
        text[strcspn(text, "\n")] = 0;
        log_debug("%s", text);
}

static int listener_run(Listener *l) {
        MHD_UNSIGNED_LONG_LONG timeout_ms;
        uint64_t n_closed;

        /* The library stops listening when there are too many connections. That some of them are gone is noticed at
         * the end of a run, and listened again at the beginning of the next one. */
        do {
                n_closed = l->server->n_closed;
                if (MHD_run(l->mhd) != MHD_YES)
                        return log_error_errno(EIO, "Cannot serve HTTP: the library has failed.");
        } while (l->server->n_closed != n_closed);
        if (MHD_get_timeout(l->mhd, &timeout_ms) == MHD_YES)
                return set_timer(l->timer, timeout_ms * USEC_PER_MSEC);

        return sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return listener_run(userdata);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        return listener_run(userdata);
}

static int listener_start(HttpServer *s, Listener *l, int fd) {
        const union MHD_DaemonInfo *info;
        int flags, r;

        l->server = s;
        flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return log_error_errno(errno, "Cannot use the socket: %m");
        l->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, s,
                                  MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
                                  MHD_OPTION_LISTEN_SOCKET, fd,
                                  MHD_OPTION_CONNECTION_LIMIT, (unsigned) HTTP_CONNECTIONS_MAX,
                                  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) HTTP_MEMORY_MAX,
                                  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) HTTP_RESPONSE_SEC,
                                  MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
                                  MHD_OPTION_END);
        info = l->mhd ? MHD_get_daemon_info(l->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
        if (!info)
                return log_error_errno(EIO, "Cannot start the HTTP server.");
        r = sd_event_add_io(s->event, &l->io, info->epoll_fd, EPOLLIN, on_io, l);
        if (r >= 0)
                r = sd_event_add_time_relative(s->event, &l->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US, on_timer, l);
        if (r >= 0) /* what fails in there must not be ignored */
                r = sd_event_source_set_exit_on_failure(l->io, true);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(l->timer, true);

        return r < 0 ? log_error_errno(r, "Cannot watch the socket: %m") : 0;
}

int http_server_new(HttpServer **ret, sd_event *e, const int *fds, size_t n_fds, const Options *o, uint64_t idle_us) {
        _cleanup_(http_server_freep) HttpServer *s = NULL;
        int r;

        s = calloc(1, sizeof(HttpServer));
        if (!s)
                return log_oom();
        s->event = sd_event_ref(e);
        s->options = o;
        s->idle_us = idle_us;
        r = sd_event_add_time_relative(e, &s->deadlines, CLOCK_MONOTONIC, 0, 0, on_deadlines, s);
        if (r >= 0)
                r = sd_event_add_time_relative(e, &s->idle, CLOCK_MONOTONIC, 0, 0, on_idle, s);
        if (r < 0)
                return log_error_errno(r, "Cannot set a timer: %m");
        (void) sd_event_source_set_enabled(s->idle, SD_EVENT_OFF);
        connections_changed(s);

        for (size_t i = 0; i < n_fds && i < HTTP_SOCKETS_MAX; i++) {
                s->n_listeners++;
                r = listener_start(s, &s->listeners[i], fds[i]);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(s);

        return 0;
}

HttpServer *http_server_free(HttpServer *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n_listeners; i++) {
                Listener *l = &s->listeners[i];

                sd_event_source_disable_unref(l->io);
                sd_event_source_disable_unref(l->timer);
                if (l->mhd)
                        MHD_stop_daemon(l->mhd); /* closes the connections */
        }
        for (size_t i = 0; i < _METRIC_FORMAT_MAX; i++)
                response_unref(&s->cached[i]);
        sd_event_source_disable_unref(s->deadlines);
        sd_event_source_disable_unref(s->idle);
        sd_event_unref(s->event);
        metric_memory_clear(&s->memory);
        free(s);

        return NULL;
}
