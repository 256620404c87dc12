/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-blame.h"
#include "bus-list.h"
#include "bus-manager.h"
#include "bus-metrics.h"
#include "bus-names.h"
#include "bus-reply.h"
#include "bus-row.h"
#include "bus-stall.h"
#include "bus-trace.h"

static int append_unit(const char *unit, void *userdata) {
        _cleanup_free_ char *path = NULL;
        sd_bus_message *m = userdata;
        int r;

        r = sd_bus_path_encode(BUS_UNIT_PREFIX, unit, &path);
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'r', "so");
        if (r < 0)
                return r;
        r = bus_append_text(m, unit);
        if (r < 0)
                return r;
        r = sd_bus_message_append_basic(m, 'o', path);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}

static int method_list_units(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        BusContext *c = userdata;
        int r;

        r = reply_open(call, "(so)", &reply);
        if (r < 0)
                return r;
        r = query_units(c->manager, append_unit, reply);
        if (r < 0)
                return r;

        return reply_send(reply);
}

static int reply_unit_path(sd_bus_message *call, const char *unit) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = sd_bus_path_encode(BUS_UNIT_PREFIX, unit, &path);
        if (r < 0)
                return r;

        return sd_bus_reply_method_return(call, "o", path);
}

static int method_get_unit(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        BusContext *c = userdata;
        UnitSummary summary;
        const char *unit;
        int r;

        r = sd_bus_message_read(call, "s", &unit);
        if (r < 0)
                return r;
        r = query_unit(c->manager, unit, &summary);
        if (r == -ENOENT)
                return no_such_unit(reterr_error, unit);
        if (r < 0)
                return r;

        return reply_unit_path(call, unit);
}

static int method_get_unit_by_pid(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_free_ char *unit = NULL;
        BusContext *c = userdata;
        uint32_t pid;
        int r;

        r = sd_bus_message_read(call, "u", &pid);
        if (r < 0)
                return r;
        r = pid == 0 || pid > INT32_MAX ? -ESRCH : query_unit_by_pid(c->manager, pid, &unit);
        if (r == -ESRCH)
                return sd_bus_error_setf(reterr_error, BUS_ERROR_NO_SUCH_PROCESS, "There is no process %u.", pid);
        if (r == -ENOENT)
                return sd_bus_error_setf(reterr_error, BUS_ERROR_NO_SUCH_UNIT,
                                         "Process %u belongs to no unit.", pid);
        if (r < 0)
                return r;

        return reply_unit_path(call, unit);
}

static int method_get_histogram(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        const char *unit, *op, *phase, *device;
        BusContext *c = userdata;
        UnitSummary summary;
        int r;

        r = sd_bus_message_read(call, "ssss", &unit, &op, &phase, &device);
        if (r < 0)
                return r;
        if (!bus_is_op(op) || !bus_is_phase(phase))
                return sd_bus_error_set(reterr_error, BUS_ERROR_BAD_RANGE, "There is no such operation or phase.");
        r = query_unit(c->manager, unit, &summary);
        if (r == -ENOENT)
                return no_such_unit(reterr_error, unit);
        if (r < 0)
                return r;

        r = reply_open(call, "(tt)", &reply);
        if (r < 0)
                return r;
        r = query_histogram(c->manager, unit, op, phase, device, bus_append_bucket, reply);
        if (r == -EINVAL)
                return sd_bus_error_set(reterr_error, BUS_ERROR_BAD_RANGE,
                                        "The device must be empty or MAJOR:MINOR, and the phase must be one of "
                                        "the operation.");
        if (r < 0 && r != -ENOENT) /* the unit is known, but did none of these: an empty histogram */
                return r;

        return reply_send(reply);
}

typedef struct StallReply {
        sd_bus_message *reply;
        bool privileged;
} StallReply;

static int append_stall(const StallRow *stall, void *userdata) {
        const StallReply *s = userdata;

        return bus_append_stall(s->reply, stall, s->privileged);
}

static int list_stalls(sd_bus_message *call, BusContext *c, uid_t uid, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        StallReply state = { .privileged = uid == 0 };
        uint64_t since;
        uint32_t limit;
        int r;

        r = sd_bus_message_read(call, "tu", &since, &limit);
        if (r < 0)
                return r;
        if (limit == 0 || limit > LIST_STALLS_MAX)
                limit = LIST_STALLS_MAX;

        r = reply_open(call, "a{sv}", &reply);
        if (r < 0)
                return r;
        state.reply = reply;
        r = query_stalls(c->manager, since, limit, append_stall, &state);
        if (r < 0)
                return r;

        return reply_send(reply);
}

static int method_list_stalls(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        return bus_call_with_uid(call, userdata, list_stalls, reterr_error);
}

static int append_probe(const ProbeRow *probe, void *userdata) {
        return bus_append_probe(userdata, probe);
}

static int method_list_probes(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        BusContext *c = userdata;
        int r;

        r = reply_open(call, "a{sv}", &reply);
        if (r < 0)
                return r;
        r = query_probes(c->manager, append_probe, reply);
        if (r < 0)
                return r;

        return reply_send(reply);
}

static int append_blind_spot(const ProbeRow *probe, void *userdata) {
        if (!streq(probe->kind, "blind"))
                return 0;

        return sd_bus_message_append(userdata, "(ss)", strempty(probe->probe), strempty(probe->reason));
}

static int method_list_blind_spots(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        BusContext *c = userdata;
        int r;

        r = reply_open(call, "(ss)", &reply);
        if (r < 0)
                return r;
        r = query_probes(c->manager, append_blind_spot, reply);
        if (r < 0)
                return r;

        return reply_send(reply);
}

static int property_version(sd_bus *bus, const char *path, const char *interface, const char *property,
                            sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        return sd_bus_message_append(reply, "s", IOLAT_VERSION);
}

static int property_tier(sd_bus *bus, const char *path, const char *interface, const char *property,
                         sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        const BusContext *c = userdata;

        return sd_bus_message_append(reply, "s", strempty(query_tier(c->manager)));
}

static int property_degraded(sd_bus *bus, const char *path, const char *interface, const char *property,
                             sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        const BusContext *c = userdata;

        return sd_bus_message_append(reply, "b", (int) query_degraded(c->manager));
}

static int property_lost(sd_bus *bus, const char *path, const char *interface, const char *property,
                         sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        const BusContext *c = userdata;

        return sd_bus_message_append(reply, "t", query_lost(c->manager));
}

static int property_since(sd_bus *bus, const char *path, const char *interface, const char *property,
                          sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        const BusContext *c = userdata;

        return sd_bus_message_append(reply, "t", query_since_realtime_us(c->manager));
}

static int property_history_since(sd_bus *bus, const char *path, const char *interface, const char *property,
                                  sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        const BusContext *c = userdata;

        return sd_bus_message_append(reply, "t", query_history_since(c->manager));
}

/* Everything is open to everyone (what is not is decided by the handler), because sd-bus would ask the broker for
 * the privileges of the caller and wait for the answer. */
static const sd_bus_vtable manager_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Version", "s", property_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("Tier", "s", property_tier, 0, 0),
        SD_BUS_PROPERTY("Degraded", "b", property_degraded, 0, 0),
        SD_BUS_PROPERTY("Lost", "t", property_lost, 0, 0),
        SD_BUS_PROPERTY("Since", "t", property_since, 0, 0),
        SD_BUS_PROPERTY("MaxSeries", "t", bus_property_max_series, 0, 0),
        SD_BUS_PROPERTY("HistorySince", "t", property_history_since, 0, 0),
        SD_BUS_METHOD_WITH_ARGS("ListUnits", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(so)", units), method_list_units,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("GetUnit", SD_BUS_ARGS("s", name), SD_BUS_RESULT("o", unit), method_get_unit,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("GetUnitByPID", SD_BUS_ARGS("u", pid), SD_BUS_RESULT("o", unit),
                                method_get_unit_by_pid, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("List",
                                SD_BUS_ARGS("as", patterns, "as", ops, "as", phases, "t", cursor, "u", limit),
                                SD_BUS_RESULT("aa{sv}", rows, "t", nextCursor), bus_method_list,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("ListBuckets",
                                SD_BUS_ARGS("as", patterns, "as", ops, "as", phases, "t", cursor, "u", limit),
                                SD_BUS_RESULT("aa{sv}", rows, "t", nextCursor), bus_method_list_buckets,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("ListRange",
                                SD_BUS_ARGS("as", patterns, "as", ops, "as", phases, "t", sinceUSec, "t", untilUSec,
                                            "t", cursor, "u", limit),
                                SD_BUS_RESULT("aa{sv}", rows, "t", nextCursor, "t", firstUSec, "t", lastUSec),
                                bus_method_list_range, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("GetHistogram", SD_BUS_ARGS("s", unit, "s", op, "s", phase, "s", device),
                                SD_BUS_RESULT("a(tt)", buckets), method_get_histogram,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("ListHistograms", SD_BUS_ARGS("t", cursor, "u", limit),
                                SD_BUS_RESULT("a(" BUS_METRIC_SERIES ")", series, "t", nextCursor),
                                bus_method_list_histograms, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("ListStalls", SD_BUS_ARGS("t", sinceUSec, "u", limit),
                                SD_BUS_RESULT("aa{sv}", stalls), method_list_stalls, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("Trace", SD_BUS_ARGS("s", unit, "t", minNSec), SD_BUS_NO_RESULT, bus_trace_method,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("GetBlame", SD_BUS_ARGS("s", unit, "t", sinceUSec, "t", untilUSec),
                                SD_BUS_RESULT("aa{sv}", rows), bus_method_get_blame, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("ListProbes", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", probes), method_list_probes,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("ListBlindSpots", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ss)", spots),
                                method_list_blind_spots, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_SIGNAL_WITH_ARGS("Stall",
                                SD_BUS_ARGS("s", unit, "s", op, "s", phase, "t", totalNSec, "b", inProgress), 0),
        SD_BUS_SIGNAL_WITH_ARGS("Operation", SD_BUS_ARGS("a{sv}", operation), 0),
        SD_BUS_VTABLE_END,
};

int bus_manager_add(sd_bus *bus, BusContext *c) {
        return sd_bus_add_object_vtable(bus, NULL, BUS_PATH, BUS_INTERFACE_MANAGER, manager_vtable, c);
}

int bus_manager_emit_stall(sd_bus *bus, const StallRow *stall) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_signal(bus, &m, BUS_PATH, BUS_INTERFACE_MANAGER, "Stall");
        if (r < 0)
                return r;
        r = bus_append_text(m, stall->unit);
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "sstb", strempty(stall->op), strempty(stall->dominant_phase),
                                  (uint64_t) stall->record->total_ns,
                                  (int) stall->in_progress);
        if (r < 0)
                return r;

        return sd_bus_send(bus, m, NULL);
}
