/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-manager.h"
#include "bus-names.h"
#include "bus-row.h"
#include "bus-stall.h"
#include "bus-trace.h"
#include "span.h"
#include "trace.h"

static int trace(sd_bus_message *call, BusContext *c, uid_t uid, sd_bus_error *reterr_error) {
        const char *unit;
        uint64_t min_ns;
        int r;

        if (uid != 0)
                return sd_bus_error_set(reterr_error, SD_BUS_ERROR_ACCESS_DENIED,
                                        "Only root may see single operations.");
        r = sd_bus_message_read(call, "st", &unit, &min_ns);
        if (r < 0)
                return r;
        if (strlen(unit) > LIST_PATTERN_MAX)
                return sd_bus_error_setf(reterr_error, BUS_ERROR_BAD_RANGE,
                                         "The name of the unit is longer than %d bytes.", LIST_PATTERN_MAX);
        r = trace_set(query_trace(c->manager), c, sd_bus_message_get_bus(call), sd_bus_message_get_sender(call), unit,
                      min_ns);
        if (r == -ENOBUFS)
                return sd_bus_error_setf(reterr_error, BUS_ERROR_TOO_MANY,
                                         "More than %d traces of one client, or %d of all.", TRACES_PER_CLIENT,
                                         TRACES_MAX);
        if (r < 0)
                return r;

        return sd_bus_reply_method_return(call, NULL);
}

int bus_trace_method(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        return bus_call_with_uid(call, userdata, trace, reterr_error);
}

static int append_spans(sd_bus_message *m, const char *key, const Span *spans, size_t n) {
        int r;

        r = bus_open_entry(m, key, "a(stt)");
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', "(stt)");
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                r = sd_bus_message_append(m, "(stt)", spans[i].name, spans[i].start_ns, spans[i].end_ns);
                if (r < 0)
                        return r;
        }
        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;

        return bus_close_entry(m);
}

static int append_operation(sd_bus_message *m, const StallRow *stall, uint64_t lost) {
        Span phases[INTERVALS_MAX], steps[JOURNAL_SPANS_MAX];
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        r = bus_append_stall_entries(m, stall, /* privileged= */ true);
        if (r < 0)
                return r;
        r = append_spans(m, "spans", phases, spans_of_phases(stall->record, phases));
        if (r < 0)
                return r;
        r = append_spans(m, "journal", steps, spans_of_journal(stall->record, steps));
        if (r < 0)
                return r;
        r = bus_append_u64_entry(m, "lost", lost);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}

int bus_trace_send(sd_bus *bus, const char *destination, const StallRow *stall, uint64_t lost) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_signal(bus, &m, BUS_PATH, BUS_INTERFACE_MANAGER, "Operation");
        if (r < 0)
                return r;
        if (destination) {
                r = sd_bus_message_set_destination(m, destination);
                if (r < 0)
                        return r;
        }
        r = append_operation(m, stall, lost);
        if (r < 0)
                return r;

        return sd_bus_send(bus, m, NULL);
}
