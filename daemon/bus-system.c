/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-context.h"
#include "bus-manager.h"
#include "bus-names.h"
#include "bus-system.h"
#include "log.h"
#include "unit-keeper.h"

#define DEFAULT_ADDRESS "unix:path=/run/dbus/system_bus_socket"
#define RETRY_USEC (30 * USEC_PER_SEC)
#define RETRY_ACCURACY_USEC (5 * USEC_PER_SEC)

struct SystemBus {
        Manager *manager;
        sd_event *event;
        sd_event_source *retry; /* on only while there is no connection, not even one that waits for the bus */
        sd_bus *bus;
        BusContext context;
        bool name_refused; /* and that was logged */
};

static void disconnect(SystemBus *s) {
        bus_context_done(&s->context);
        if (!s->bus)
                return;

        (void) sd_bus_detach_event(s->bus);
        sd_bus_close(s->bus); /* without flushing, which could wait */
        s->bus = sd_bus_unref(s->bus);
}

static void try_again_later(SystemBus *s) {
        int r;

        disconnect(s);
        r = sd_event_source_set_time_relative(s->retry, RETRY_USEC);
        if (r >= 0)
                r = sd_event_source_set_enabled(s->retry, SD_EVENT_ONESHOT);
        if (r < 0)
                log_warning_errno(r, "Cannot set the timer for the next attempt at the system bus: %m");
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        SystemBus *s = userdata;

        log_debug("The connection to the system bus has ended; trying again later.");
        try_again_later(s);

        return 0;
}

static int on_name_answer(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        const sd_bus_error *error = sd_bus_message_get_error(m);
        SystemBus *s = userdata;

        if (!error) {
                s->name_refused = false;
                log_debug("Reachable on the system bus as " BUS_NAME ".");
        } else if (!s->name_refused && !sd_bus_error_has_name(error, SD_BUS_ERROR_NO_REPLY)) {
                /* Still worth having: the service manager can be asked, and signals can be sent. */
                s->name_refused = true;
                log_warning("The system bus does not let us be " BUS_NAME ": %s", strempty(error->message));
        }

        return 0;
}

/* Bounds what is kept for a broker that is stuck: every message taken can mean a reply queued. */
static int filter_overflow(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        uint64_t queued;

        if (sd_bus_get_n_queued_write(sd_bus_message_get_bus(m), &queued) < 0 || queued <= SYSTEM_BUS_QUEUE_MAX)
                return 0;

        log_debug("The system bus does not take our replies; dropping the connection.");
        try_again_later(userdata);

        return 1;
}

static int connect_bus(SystemBus *s) {
        _cleanup_(sd_bus_unrefp) sd_bus *bus = NULL;
        const char *address = secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
        int r;

        r = sd_bus_new(&bus);
        if (r < 0)
                return r;
        r = sd_bus_set_description(bus, "system");
        if (r < 0)
                return r;
        r = sd_bus_set_address(bus, isempty(address) ? DEFAULT_ADDRESS : address);
        if (r < 0)
                return r;
        r = sd_bus_set_bus_client(bus, true);
        if (r < 0)
                return r;
        r = sd_bus_set_watch_bind(bus, true);
        if (r < 0)
                return r;
        r = sd_bus_negotiate_fds(bus, false); /* nobody has reason to make us hold files open */
        if (r < 0)
                return r;
        r = sd_bus_add_filter(bus, NULL, filter_overflow, s);
        if (r < 0)
                return r;
        r = bus_add_objects(bus, &s->context);
        if (r < 0)
                return r;
        r = sd_bus_start(bus);
        if (r < 0)
                return r;
        r = sd_bus_match_signal_async(bus, NULL, "org.freedesktop.DBus.Local", "/org/freedesktop/DBus/Local",
                                      "org.freedesktop.DBus.Local", "Disconnected", on_disconnected, NULL, s);
        if (r < 0)
                return r;
        r = sd_bus_request_name_async(bus, NULL, BUS_NAME, SD_BUS_NAME_QUEUE, on_name_answer, s);
        if (r < 0)
                return r;
        r = unit_keeper_listen(s->manager, bus);
        if (r < 0)
                return r;
        r = sd_bus_attach_event(bus, s->event, SD_EVENT_PRIORITY_NORMAL + 10);
        if (r < 0)
                return r;

        s->bus = TAKE_PTR(bus);
        return 0;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata) {
        SystemBus *s = userdata;
        int r;

        r = connect_bus(s);
        if (r < 0) {
                log_debug_errno(r, "Cannot connect to the system bus, trying again later: %m");
                try_again_later(s);
        }

        return 0;
}

int system_bus_new(SystemBus **ret, sd_event *e, Manager *m) {
        _cleanup_(system_bus_freep) SystemBus *s = NULL;
        int r;

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->manager = m;
        s->context.manager = m;
        s->event = sd_event_ref(e);

        /* The first attempt is made as soon as the loop runs. */
        r = sd_event_add_time_relative(e, &s->retry, CLOCK_MONOTONIC, 0, RETRY_ACCURACY_USEC, on_retry, s);
        if (r < 0)
                return r;
        r = sd_event_source_set_time_accuracy(s->retry, 1);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(s);
        return 0;
}

SystemBus *system_bus_free(SystemBus *s) {
        if (!s)
                return NULL;

        disconnect(s);
        sd_event_source_disable_unref(s->retry);
        sd_event_unref(s->event);
        free(s);
        return NULL;
}

sd_bus *system_bus_get(SystemBus *s) {
        return s && s->bus && sd_bus_is_ready(s->bus) > 0 ? s->bus : NULL;
}

void system_bus_emit_stall(SystemBus *s, const StallRow *stall) {
        sd_bus *bus = system_bus_get(s);
        uint64_t queued;
        int r;

        if (!bus)
                return;
        r = sd_bus_get_n_queued_write(bus, &queued);
        if (r >= 0)
                r = queued > SYSTEM_BUS_QUEUE_MAX ? -ENOBUFS : bus_manager_emit_stall(bus, stall);
        if (r < 0)
                log_debug_errno(r, "Cannot announce a stall on the system bus: %m");
}
