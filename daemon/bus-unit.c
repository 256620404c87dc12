/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-unit.h"
#include "bus-names.h"
#include "bus-reply.h"
#include "bus-row.h"
#include "names.h"

/* The unit behind an object path: its name, which the caller frees, and its summary. -ENOENT if there is none. */
static int unit_from_path(Manager *manager, const char *path, char **ret_name, UnitSummary *ret) {
        _cleanup_free_ char *name = NULL;
        int r;

        r = sd_bus_path_decode(path, BUS_UNIT_PREFIX, &name);
        if (r < 0)
                return r;
        if (r == 0)
                return -ENOENT;
        r = query_unit(manager, name, ret);
        if (r < 0)
                return r;

        *ret_name = TAKE_PTR(name);
        return 0;
}

/* There is nothing to hand over but the context: a summary lives shorter than a message is being handled. */
static int find_unit(sd_bus *bus, const char *path, const char *interface, void *userdata, void **ret_found,
                     sd_bus_error *reterr_error) {
        _cleanup_free_ char *name = NULL;
        BusContext *c = userdata;
        UnitSummary summary;
        int r;

        r = unit_from_path(c->manager, path, &name, &summary);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;

        *ret_found = c;
        return 1;
}

static int property_text(sd_bus *bus, const char *path, const char *interface, const char *property,
                         sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_free_ char *name = NULL;
        BusContext *c = userdata;
        UnitSummary summary;
        const char *value;
        int r;

        r = unit_from_path(c->manager, path, &name, &summary);
        if (r < 0)
                return r;

        if (streq(property, "Name"))
                value = name;
        else if (streq(property, "ControlGroup"))
                value = summary.control_group;
        else if (streq(property, "Description"))
                value = summary.description;
        else
                value = summary.current_invocation_id;

        return bus_append_text(reply, value);
}

static int property_journal_steps(sd_bus *bus, const char *path, const char *interface, const char *property,
                                  sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_free_ char *name = NULL;
        BusContext *c = userdata;
        UnitSummary summary;
        int r;

        r = unit_from_path(c->manager, path, &name, &summary);
        if (r < 0)
                return r;

        return bus_append_numbers(reply, journal_step_to_string, summary.step_ns, _STEP_MAX);
}

static int append_row(const Row *row, void *userdata) {
        return bus_append_row(userdata, row);
}

static int method_list_current(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        _cleanup_free_ char *name = NULL;
        BusContext *c = userdata;
        UnitSummary summary;
        int r;

        r = unit_from_path(c->manager, sd_bus_message_get_path(call), &name, &summary);
        if (r < 0)
                return r;

        r = reply_open(call, "a{sv}", &reply);
        if (r < 0)
                return r;
        r = query_unit_current_rows(c->manager, name, append_row, reply);
        if (r < 0 && r != -ENOENT)
                return r;

        return reply_send(reply);
}

typedef struct PathList {
        char **paths; /* NULL-terminated */
        size_t n, allocated;
} PathList;

static void path_list_done(PathList *l) {
        for (size_t i = 0; i < l->n; i++)
                free(l->paths[i]);
        free(l->paths);
}

static int path_list_add(const char *unit, void *userdata) {
        PathList *l = userdata;
        int r;

        if (l->n + 1 >= l->allocated) {
                size_t n = MAX(l->allocated * 2, (size_t) 64);
                char **paths = reallocarray(l->paths, n, sizeof(*paths));

                if (!paths)
                        return -ENOMEM;
                l->paths = paths;
                l->allocated = n;
        }
        r = sd_bus_path_encode(BUS_UNIT_PREFIX, unit, l->paths + l->n);
        if (r < 0)
                return r;
        l->paths[++l->n] = NULL;

        return 0;
}

static int enumerate_units(sd_bus *bus, const char *prefix, void *userdata, char ***ret_nodes,
                           sd_bus_error *reterr_error) {
        _cleanup_(path_list_done) PathList list = {};
        BusContext *c = userdata;
        int r;

        r = query_units(c->manager, path_list_add, &list);
        if (r < 0)
                return r;

        *ret_nodes = TAKE_PTR(list.paths); /* NULL if there are none */
        list.n = 0;
        return 1;
}

static const sd_bus_vtable unit_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Name", "s", property_text, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("ControlGroup", "s", property_text, 0, 0),
        SD_BUS_PROPERTY("Description", "s", property_text, 0, 0),
        SD_BUS_PROPERTY("InvocationID", "s", property_text, 0, 0),
        SD_BUS_PROPERTY("JournalSteps", "a{st}", property_journal_steps, 0, 0),
        SD_BUS_METHOD_WITH_ARGS("ListCurrent", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", rows), method_list_current,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_VTABLE_END,
};

int bus_unit_add(sd_bus *bus, BusContext *c) {
        int r;

        r = sd_bus_add_fallback_vtable(bus, NULL, BUS_UNIT_PREFIX, BUS_INTERFACE_UNIT, unit_vtable, find_unit, c);
        if (r < 0)
                return r;

        return sd_bus_add_node_enumerator(bus, NULL, BUS_UNIT_PREFIX, enumerate_units, c);
}
