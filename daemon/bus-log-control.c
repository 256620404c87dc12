/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-log-control.h"
#include "log.h"

#define LOG_CONTROL_PATH "/org/freedesktop/LogControl1"
#define LOG_CONTROL_INTERFACE "org.freedesktop.LogControl1"

static const char *const level_table[] = {
        [LOG_EMERG] = "emerg",     [LOG_ALERT] = "alert",   [LOG_CRIT] = "crit", [LOG_ERR] = "err",
        [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice", [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

static int set_level(const char *s, uid_t uid, sd_bus_error *reterr_error) {
        if (uid != 0)
                return sd_bus_error_set(reterr_error, SD_BUS_ERROR_ACCESS_DENIED,
                                        "Only root may change the log level.");
        for (size_t i = 0; i < ELEMENTSOF(level_table); i++)
                if (streq(level_table[i], s)) {
                        log_set_max_level((int) i);
                        return 0;
                }

        return sd_bus_error_set(reterr_error, SD_BUS_ERROR_INVALID_ARGS,
                                "The log level must be one of emerg, alert, crit, err, warning, notice, info, "
                                "debug.");
}

static int property_get_level(sd_bus *bus, const char *path, const char *interface, const char *property,
                              sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        int level = log_get_max_level();

        return sd_bus_message_append(reply, "s", level_table[MIN(MAX(level, LOG_EMERG), LOG_DEBUG)]);
}

/* Reached on a peer connection only, where the uid is known; on a bus the filter below comes first. */
static int property_set_level(sd_bus *bus, const char *path, const char *interface, const char *property,
                              sd_bus_message *value, void *userdata, sd_bus_error *reterr_error) {
        const BusContext *c = userdata;
        const char *s;
        int r;

        r = sd_bus_message_read(value, "s", &s);
        if (r < 0)
                return r;

        return set_level(s, c->uid_known ? c->uid : BUS_UID_INVALID, reterr_error);
}

static int property_target(sd_bus *bus, const char *path, const char *interface, const char *property,
                           sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        return sd_bus_message_append(reply, "s", getenv("JOURNAL_STREAM") ? "journal" : "console");
}

static int property_identifier(sd_bus *bus, const char *path, const char *interface, const char *property,
                               sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        return sd_bus_message_append(reply, "s", "iolatd");
}

static int set_level_call(sd_bus_message *call, BusContext *c, uid_t uid, sd_bus_error *reterr_error) {
        const char *interface, *property, *level;
        int r;

        r = sd_bus_message_rewind(call, /* complete= */ true);
        if (r < 0)
                return r;
        r = sd_bus_message_read(call, "ssv", &interface, &property, "s", &level);
        if (r < 0)
                return r;
        r = set_level(level, uid, reterr_error);
        if (r < 0)
                return r;

        return sd_bus_reply_method_return(call, NULL);
}

/* A property's setter has to decide before it returns, but without blocking it can be learnt only later who is
 * asking. Hence the call is taken before sd-bus gets to see it. */
static int filter_set_level(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
        const char *interface, *property;
        int r;

        if (!sd_bus_message_is_method_call(call, "org.freedesktop.DBus.Properties", "Set") ||
            !streq(strempty(sd_bus_message_get_path(call)), LOG_CONTROL_PATH) ||
            !sd_bus_message_has_signature(call, "ssv"))
                return 0;

        r = sd_bus_message_read(call, "ss", &interface, &property);
        if (r >= 0 && streq(interface, LOG_CONTROL_INTERFACE) && streq(property, "LogLevel")) {
                r = bus_call_with_uid(call, userdata, set_level_call, &error);
                if (r < 0 || sd_bus_error_is_set(&error))
                        (void) sd_bus_reply_method_errno(call, r, &error);
                return 1;
        }
        (void) sd_bus_message_rewind(call, /* complete= */ true);

        return 0;
}

static const sd_bus_vtable log_control_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_WRITABLE_PROPERTY("LogLevel", "s", property_get_level, property_set_level, 0,
                                 SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_PROPERTY("LogTarget", "s", property_target, 0, 0),
        SD_BUS_PROPERTY("SyslogIdentifier", "s", property_identifier, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_VTABLE_END,
};

int bus_log_control_add(sd_bus *bus, BusContext *c) {
        int r;

        if (!c->uid_known) {
                r = sd_bus_add_filter(bus, NULL, filter_set_level, c);
                if (r < 0)
                        return r;
        }

        return sd_bus_add_object_vtable(bus, NULL, LOG_CONTROL_PATH, LOG_CONTROL_INTERFACE, log_control_vtable, c);
}
