/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <search.h>

#include "log.h"
#include "unit-info.h"

#define UNIT_INFO_FRESH_NS (600 * NSEC_PER_SEC)
#define UNIT_INFO_LOST_NS (60 * NSEC_PER_SEC) /* no answer will come: the connection has gone */

typedef struct UnitInfo {
        UnitInfoTable *table;
        char *unit;
        char *description;
        sd_bus_slot *pending;
        uint64_t asked_ns; /* 0: never */
} UnitInfo;

struct UnitInfoTable {
        void *tree; /* of UnitInfo, by unit (tsearch) */
        size_t n;
        size_t n_pending;
};

static int compare_info(const void *a, const void *b) {
        const UnitInfo *x = a, *y = b;

        return strcmp(x->unit, y->unit);
}

static void info_free(void *p) {
        UnitInfo *u = p;

        sd_bus_slot_unref(u->pending);
        free(u->unit);
        free(u->description);
        free(u);
}

int unit_info_table_new(UnitInfoTable **ret) {
        *ret = calloc(1, sizeof(**ret));

        return *ret ? 0 : -ENOMEM;
}

UnitInfoTable *unit_info_table_free(UnitInfoTable *t) {
        if (!t)
                return NULL;
        tdestroy(t->tree, info_free);
        free(t);

        return NULL;
}

static UnitInfo *info_get(UnitInfoTable *t, const char *unit) {
        UnitInfo key = { .unit = (char *) unit }, **found, *u;

        found = tfind(&key, &t->tree, compare_info);
        if (found)
                return *found;
        if (t->n >= UNIT_INFO_MAX)
                return NULL;
        u = calloc(1, sizeof(*u));
        if (!u)
                return NULL;
        u->table = t;
        u->unit = strdup(unit);
        if (!u->unit || !tsearch(u, &t->tree, compare_info)) {
                info_free(u);
                return NULL;
        }
        t->n++;

        return u;
}

static int on_description(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        UnitInfo *u = userdata;
        const char *s;
        char *copy;

        u->pending = sd_bus_slot_unref(u->pending);
        u->table->n_pending--;
        if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "v", "s", &s) < 0)
                return 0; /* a unit that is gone keeps the description that it had */

        copy = strndup(s, DESCRIPTION_MAX);
        if (copy) {
                free(u->description);
                u->description = copy;
        }

        return 0;
}

static void ask(UnitInfo *u, sd_bus *bus, uint64_t now_ns) {
        _cleanup_free_ char *path = NULL;
        int r;

        if (u->table->n_pending >= UNIT_INFO_PENDING_MAX)
                return;
        r = sd_bus_path_encode("/org/freedesktop/systemd1/unit", u->unit, &path);
        if (r >= 0)
                r = sd_bus_call_method_async(bus, &u->pending, "org.freedesktop.systemd1", path,
                                             "org.freedesktop.DBus.Properties", "Get", on_description, u, "ss",
                                             "org.freedesktop.systemd1.Unit", "Description");
        if (r < 0) {
                log_debug_errno(r, "Cannot ask for the description of %s, ignoring: %m", u->unit);
                return;
        }
        u->table->n_pending++;
        u->asked_ns = now_ns;
}

const char *unit_info_description(UnitInfoTable *t, sd_bus *bus, const char *unit, uint64_t now_ns) {
        UnitInfo *u;

        if (unit[0] == '(') /* the manager knows no such unit */
                return NULL;
        u = info_get(t, unit);
        if (!u)
                return NULL;
        if (u->pending && now_ns > u->asked_ns + UNIT_INFO_LOST_NS) {
                u->pending = sd_bus_slot_unref(u->pending);
                t->n_pending--;
        }
        if (bus && !u->pending && (u->asked_ns == 0 || now_ns > u->asked_ns + UNIT_INFO_FRESH_NS))
                ask(u, bus, now_ns);

        return u->description;
}
