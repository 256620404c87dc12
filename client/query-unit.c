/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "bus-names.h"
#include "log.h"
#include "query-internal.h"
#include "text.h"

static const Field manager_fields[] = {
        { "Version", "version", FIELD_STRING, offsetof(ManagerInfo, version) },
        { "Tier", "tier", FIELD_STRING, offsetof(ManagerInfo, tier) },
        { "Degraded", "degraded", FIELD_BOOL, offsetof(ManagerInfo, degraded) },
        { "Lost", "lost", FIELD_NUMBER, offsetof(ManagerInfo, lost) },
        { "Since", "sinceRealtimeUSec", FIELD_NUMBER, offsetof(ManagerInfo, since_us) },
        { "HistorySince", NULL, FIELD_NUMBER, offsetof(ManagerInfo, history_since_us) },
        { "MaxSeries", NULL, FIELD_NUMBER, offsetof(ManagerInfo, max_series) },
};

static const Field unit_fields[] = {
        { "Name", "unit", FIELD_STRING, offsetof(UnitInfo, name) },
        { "ControlGroup", "controlGroup", FIELD_STRING, offsetof(UnitInfo, control_group) },
        { "Description", "description", FIELD_STRING, offsetof(UnitInfo, description) },
        { "InvocationID", "invocationID", FIELD_STRING, offsetof(UnitInfo, invocation_id) },
        { "JournalSteps", "journalSteps", FIELD_PAIRS, offsetof(UnitInfo, journal_steps) },
};

static const Field probe_fields[] = {
        { "probe", "probe", FIELD_STRING, offsetof(ProbeRow, probe) },
        { "attached", "attached", FIELD_STRING, offsetof(ProbeRow, attached) },
        { "reason", "reason", FIELD_STRING, offsetof(ProbeRow, reason) },
        { "state", "state", FIELD_STRING, offsetof(ProbeRow, state) },
        { "hits", "hits", FIELD_NUMBER, offsetof(ProbeRow, hits) },
        { "misses", "misses", FIELD_NUMBER, offsetof(ProbeRow, misses) },
        { "nsPerHit", "nsPerHit", FIELD_NUMBER, offsetof(ProbeRow, ns_per_hit) },
        { "kind", "kind", FIELD_STRING, offsetof(ProbeRow, kind) },
        { "sampledHits", "sampledHits", FIELD_NUMBER, offsetof(ProbeRow, sampled_hits) },
        { "hitsPerSec", "hitsPerSec", FIELD_DOUBLE, offsetof(ProbeRow, hits_per_sec) },
        { "cpuShare", "cpuShare", FIELD_DOUBLE, offsetof(ProbeRow, cpu_share) },
        { "phase", "phase", FIELD_STRING, offsetof(ProbeRow, phase) },
        { "addedNSec", "addedNSec", FIELD_NUMBER, offsetof(ProbeRow, added_ns) },
        { "p50NSec", "p50NSec", FIELD_NUMBER, offsetof(ProbeRow, p50_ns) },
        { "share", "share", FIELD_DOUBLE, offsetof(ProbeRow, share) },
};

void manager_info_clear(ManagerInfo *i) {
        fields_clear(manager_fields, ELEMENTSOF(manager_fields), i);
}

void unit_info_clear(UnitInfo *i) {
        fields_clear(unit_fields, ELEMENTSOF(unit_fields), i);
}

void probe_rows_clear(ProbeRows *p) {
        for (size_t i = 0; i < p->n; i++)
                fields_clear(probe_fields, ELEMENTSOF(probe_fields), &p->items[i]);
        free(p->items);
        *p = (ProbeRows){};
}

json_object *probe_row_to_json(const ProbeRow *row) {
        return fields_to_json(probe_fields, ELEMENTSOF(probe_fields), row, row->present);
}

bool probe_row_has(const ProbeRow *row, size_t offset) {
        return field_present(probe_fields, ELEMENTSOF(probe_fields), row->present, offset);
}

static int get_properties(Query *q, const char *path, const char *interface, const Field *fields, size_t n_fields,
                          void *object) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        int r;

        r = query_call_simple(q, path, "org.freedesktop.DBus.Properties", "GetAll", &reply, "s", interface);
        if (r < 0)
                return r;
        r = fields_decode(reply, fields, n_fields, object, NULL);
        if (r < 0)
                return query_log_reply(r);

        return 0;
}

static int count_units(Query *q, size_t *ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        size_t n = 0;
        int r;

        r = query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "ListUnits", &reply, NULL);
        if (r < 0)
                return r;
        r = sd_bus_message_enter_container(reply, 'a', "(so)");
        while (r >= 0 && (r = sd_bus_message_at_end(reply, false)) == 0) {
                r = sd_bus_message_skip(reply, "(so)");
                n++;
        }
        if (r < 0)
                return query_log_reply(r);
        *ret = n;

        return 0;
}

int query_manager_request(Query *q, sd_bus_message **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        r = query_request(q, BUS_PATH, "org.freedesktop.DBus.Properties", "GetAll", &m);
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "s", BUS_INTERFACE_MANAGER);
        if (r < 0)
                return log_error_errno(r, "Cannot send that to iolatd: %m");
        *ret = TAKE_PTR(m);

        return 0;
}

int query_manager_decode(sd_bus_message *reply, ManagerInfo *ret) {
        _cleanup_(manager_info_clear) ManagerInfo i = {};
        int r;

        r = fields_decode(reply, manager_fields, ELEMENTSOF(manager_fields), &i, NULL);
        if (r < 0)
                return query_log_reply(r);
        *ret = i;
        i = (ManagerInfo){};

        return 0;
}

int query_manager_properties(Query *q, ManagerInfo *ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL, *reply = NULL;
        int r;

        r = query_manager_request(q, &m);
        if (r < 0)
                return r;
        r = query_call(q, m, &reply);
        if (r < 0)
                return r;

        return query_manager_decode(reply, ret);
}

int query_manager(Query *q, ManagerInfo *ret) {
        _cleanup_(manager_info_clear) ManagerInfo i = {};
        int r;

        r = query_manager_properties(q, &i);
        if (r < 0)
                return r;
        r = count_units(q, &i.n_units);
        if (r < 0)
                return r;
        *ret = i;
        i = (ManagerInfo){};

        return 0;
}

static int read_path(sd_bus_message *reply, char **ret) {
        const char *path;
        char *copy;
        int r;

        r = sd_bus_message_read(reply, "o", &path);
        if (r < 0)
                return query_log_reply(r);
        copy = strdup(path);
        if (!copy)
                return log_oom();
        *ret = copy;

        return 0;
}

int query_unit_path(Query *q, const char *unit, char **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        int r;

        r = query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "GetUnit", &reply, "s", unit);
        if (r < 0)
                return r;

        return read_path(reply, ret);
}

int query_log_no_unit(const char *unit) {
        _cleanup_free_ char *name = NULL;

        name = text_escape(unit);
        log_error("Unit %s could not be found: nothing was measured under that name.", strempty(name));

        return EXIT_NO_SUCH_UNIT;
}

int query_process_path(Query *q, uint32_t pid, char **ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        int r;

        r = query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "GetUnitByPID", &reply, "u", pid);
        if (r < 0)
                return r;

        return read_path(reply, ret);
}

int query_unit_info(Query *q, const char *path, UnitInfo *ret) {
        _cleanup_(unit_info_clear) UnitInfo i = {};
        int r;

        r = get_properties(q, path, BUS_INTERFACE_UNIT, unit_fields, ELEMENTSOF(unit_fields), &i);
        if (r < 0)
                return r;
        if (!i.name)
                return query_log_reply(-EBADMSG);
        *ret = i;
        i = (UnitInfo){};

        return 0;
}

int query_unit_current(Query *q, const char *path, Rows *ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(rows_clear) Rows rows = {};
        int r;

        r = query_call_simple(q, path, BUS_INTERFACE_UNIT, "ListCurrent", &reply, NULL);
        if (r < 0)
                return r;
        r = rows_append(&rows, reply);
        if (r < 0)
                return query_log_reply(r);
        rows_sort(&rows);
        *ret = rows;
        rows = (Rows){};

        return 0;
}

int query_histogram(Query *q, const char *unit, const char *op, const char *phase, const char *device,
                    Buckets *ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(buckets_clear) Buckets b = {};
        int r;

        r = query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "GetHistogram", &reply, "ssss", unit, op, phase,
                              device);
        if (r < 0)
                return r;
        r = buckets_decode(reply, &b);
        if (r < 0)
                return query_log_reply(r);
        *ret = b;
        b = (Buckets){};

        return 0;
}

static int read_probes(sd_bus_message *reply, ProbeRows *p) {
        int r;

        r = sd_bus_message_enter_container(reply, 'a', "a{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_at_end(reply, false)) == 0) {
                ProbeRow *items, *row;

                if (p->n >= PROBES_MAX)
                        return -E2BIG;
                items = reallocarray(p->items, p->n + 1, sizeof(ProbeRow));
                if (!items)
                        return -ENOMEM;
                p->items = items;
                row = &items[p->n++];
                *row = (ProbeRow){};
                r = fields_decode(reply, probe_fields, ELEMENTSOF(probe_fields), row, &row->present);
                if (r < 0)
                        return r;
        }

        return r;
}

int query_probes(Query *q, ProbeRows *ret) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_(probe_rows_clear) ProbeRows p = {};
        int r;

        r = query_call_simple(q, BUS_PATH, BUS_INTERFACE_MANAGER, "ListProbes", &reply, NULL);
        if (r < 0)
                return r;
        r = read_probes(reply, &p);
        if (r < 0)
                return query_log_reply(r);
        *ret = p;
        p = (ProbeRows){};

        return 0;
}
