/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>

#include "bus-names.h"
#include "log.h"
#include "query-internal.h"

#define RETRY_INTERVAL_US (500 * USEC_PER_MSEC)
#define READY_TIMEOUT_US (2 * USEC_PER_SEC)

/* Nobody reads what is written any more. */
static int on_stdout(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        return sd_event_exit(sd_event_source_get_event(s), 0);
}

static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        Query *q = userdata;
        const char *name, *old_owner, *new_owner;
        int r;

        r = sd_bus_message_read(m, "sss", &name, &old_owner, &new_owner);
        if (r >= 0 && streq(name, q->destination) && !isempty(old_owner))
                (void) query_went_away(q);

        return 0;
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        Query *q = userdata;

        if (query_can_come_back(q)) {
                (void) query_went_away(q);
                return 0;
        }

        return sd_event_exit(q->event, -ECONNRESET);
}

static int on_signal(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        Query *q = userdata;

        /* Back, but that has to be found out first. */
        if (q->away)
                return 0;

        return q->watch.on_signal(m, q->watch.userdata, reterr_error);
}

static int watch_daemon(Query *q) {
        int r;

        r = sd_bus_match_signal(q->bus, NULL, NULL, "/org/freedesktop/DBus/Local", "org.freedesktop.DBus.Local",
                                "Disconnected", on_disconnected, q);
        if (r < 0)
                return r;
        if (!q->destination)
                return 0;

        return sd_bus_match_signal(q->bus, NULL, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                   "org.freedesktop.DBus", "NameOwnerChanged", on_owner_changed, q);
}

/* Everything that goes with the connection. */
static int attach(Query *q) {
        int r;

        r = sd_bus_attach_event(q->bus, q->event, SD_EVENT_PRIORITY_NORMAL);
        if (r < 0)
                return r;
        r = watch_daemon(q);
        if (r < 0)
                return r;

        return sd_bus_match_signal(q->bus, NULL, q->destination, BUS_PATH, BUS_INTERFACE_MANAGER, q->watch.signal,
                                   on_signal, q);
}

/* Another host or machine that is gone is not looked for: that could ask for a password, again and again. */
bool query_can_come_back(const Query *q) {
        return q->event && (!q->destination || sd_bus_is_open(q->bus) > 0);
}

static int arm_retry(Query *q) {
        int r;

        r = sd_event_source_set_time_relative(q->retry, RETRY_INTERVAL_US);

        return r < 0 ? r : sd_event_source_set_enabled(q->retry, SD_EVENT_ONESHOT);
}

int query_went_away(Query *q) {
        int r;

        if (!q->away) {
                log_warning("iolatd has gone away, waiting for it to come back.");
                q->away = true;
                r = arm_retry(q);
                if (r < 0)
                        return sd_event_exit(q->event, r);
        }

        return -ECONNRESET;
}

/* A connection that is there still is of use: the daemon is only slow. */
static int reconnect(Query *q) {
        int r;

        if (sd_bus_is_open(q->bus) > 0)
                return query_wait_ready(q, READY_TIMEOUT_US);
        r = query_connect(q, READY_TIMEOUT_US);

        return r < 0 ? r : attach(q);
}

static int on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        Query *q = userdata;
        int r;

        r = reconnect(q);
        if (r < 0 && q->destination)
                return sd_event_exit(q->event, -ECONNRESET);
        if (r >= 0) {
                q->retrying = true;
                r = q->watch.on_back(q->watch.userdata);
                q->retrying = false;
                if (r < 0 && r != -ECONNRESET)
                        return sd_event_exit(q->event, r);
        }
        q->away = r < 0;
        if (!q->away)
                return 0;
        r = arm_retry(q);

        return r < 0 ? sd_event_exit(q->event, r) : 0;
}

static int event_new(Query *q) {
        static const int signals[] = { SIGINT, SIGTERM };
        sigset_t set;
        int r;

        r = sd_event_new(&q->event);
        if (r < 0)
                return r;

        (void) sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void) sigaddset(&set, signals[i]);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                r = sd_event_add_signal(q->event, NULL, signals[i], NULL, NULL); /* ends the loop */
                if (r < 0)
                        return r;
        }

        /* What is always told of a pipe or a terminal, that the other end is gone, cannot be of a file. */
        r = sd_event_add_io(q->event, NULL, STDOUT_FILENO, 0, on_stdout, NULL);
        if (r < 0 && r != -EPERM)
                return r;
        r = sd_event_add_time(q->event, &q->retry, CLOCK_MONOTONIC, UINT64_MAX, 0, on_retry, q);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(q->retry, SD_EVENT_OFF);
}

int query_watch(Query *q, const QueryWatch *w) {
        int r;

        q->watch = *w;
        r = event_new(q);
        if (r >= 0)
                r = attach(q);
        if (r < 0)
                return log_error_errno(r, "Cannot wait for what iolatd will tell: %m");

        return 0;
}

sd_event *query_event(Query *q) {
        return q->event;
}

int query_run(Query *q) {
        int r;

        r = sd_event_loop(q->event);
        if (r == -ECONNRESET)
                log_error("The connection has ended.");

        return r;
}
