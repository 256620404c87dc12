/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>

#include "bus-names.h"
#include "log.h"
#include "query-internal.h"

/* Nobody reads what is written any more. */
static int on_stdout(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        return sd_event_exit(sd_event_source_get_event(s), 0);
}

static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        Query *q = userdata;
        const char *name, *old_owner, *new_owner;
        int r;

        r = sd_bus_message_read(m, "sss", &name, &old_owner, &new_owner);
        if (r < 0 || !streq(name, q->destination) || isempty(old_owner))
                return 0;

        return sd_event_exit(q->event, -ECONNRESET);
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        Query *q = userdata;

        return sd_event_exit(q->event, -ECONNRESET);
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
        r = sd_bus_attach_event(q->bus, q->event, SD_EVENT_PRIORITY_NORMAL);
        if (r < 0)
                return r;

        return watch_daemon(q);
}

int query_watch(Query *q, const char *signal, sd_bus_message_handler_t callback, void *userdata) {
        int r = 0;

        if (!q->event)
                r = event_new(q);
        if (r >= 0)
                r = sd_bus_match_signal(q->bus, NULL, q->destination, BUS_PATH, BUS_INTERFACE_MANAGER, signal, callback,
                                        userdata);
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
        if (r == -ECONNRESET) {
                log_error("The connection to iolatd has ended.");
                return r;
        }

        return r;
}
