/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "log.h"
#include "manager.h"
#include "state-child.h"
#include "unit-files.h"
#include "unit-keeper.h"
#include "unit-listing.h"

#define CHILD_LIMIT_US (30 * USEC_PER_SEC)
#define RETRY_US (60 * USEC_PER_SEC)
#define SETTLE_US USEC_PER_SEC /* the manager is often reloaded several times in a row */

enum {
        TIMER_ACCURACY_US = 100 * 1000,
        TEXT_MAX = 8192, /* bytes of a name or a message */
        PATH_TEXT_MAX = 4096,
};

/* What the child writes, each followed by a text. */
enum wire_kind {
        WIRE_RULE,
        WIRE_PROBLEM,
        WIRE_END, /* that was all */
};

typedef struct Wire {
        uint32_t kind;
        uint32_t size; /* of the text, without a NUL */
        UnitSettings settings;
} Wire;

struct UnitKeeper {
        Manager *manager;
        StateChild *child;
        sd_event_source *timer;
        UnitRules rules;
        uint64_t retry_us;
        bool again;  /* something changed while the child was at it */
        bool warned; /* that the files cannot be read */

        /* For the child. */
        char path[PATH_TEXT_MAX]; /* directories separated by NUL, in place of the usual ones */
        const char *dirs[UNIT_DIRS_MAX + 1];

        /* From the child. */
        UnitRules incoming;
        uint8_t input[sizeof(Wire) + TEXT_MAX];
        size_t n_input;
        bool complete;
        bool broken;
        uint64_t problems[UNIT_PROBLEMS_MAX]; /* hashes of those that were told of */
        size_t n_problems;
        uint64_t new_problems[UNIT_PROBLEMS_MAX];
        size_t n_new_problems;
};

/* --- in the child --- */

static int write_all(int fd, const void *p, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, p, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p = (const uint8_t *) p + n;
                size -= (size_t) n;
        }

        return 0;
}

static int send_record(int fd, enum wire_kind kind, const char *text, const UnitSettings *settings) {
        uint8_t buf[sizeof(Wire) + TEXT_MAX] = {};
        Wire w = { .kind = kind, .size = (uint32_t) MIN(strlen(text), (size_t) TEXT_MAX) };

        if (settings)
                w.settings = *settings;
        memcpy(buf, &w, sizeof(w));
        memcpy(buf + sizeof(w), text, w.size);

        return write_all(fd, buf, sizeof(w) + w.size);
}

typedef struct Output {
        int fd;
        int error;
} Output;

static void send_problem(const char *text, void *userdata) {
        Output *o = userdata;

        if (o->error >= 0)
                o->error = send_record(o->fd, WIRE_PROBLEM, text, NULL);
}

static int send_rule(const char *name, const UnitSettings *settings, void *userdata) {
        const Output *o = userdata;

        return send_record(o->fd, WIRE_RULE, name, settings);
}

static int work(int fd, void *userdata) {
        const UnitKeeper *k = userdata;
        Output o = { .fd = fd };
        UnitRules rules;
        int r;

        r = unit_files_read(k->dirs[0] ? k->dirs : unit_dirs, &rules, send_problem, &o);
        if (r < 0)
                return r;
        r = o.error < 0 ? o.error : unit_rules_foreach(&rules, send_rule, &o);

        return r < 0 ? r : send_record(fd, WIRE_END, "", NULL);
}

/* --- in the daemon --- */

static void tell_of_problem(UnitKeeper *k, const char *text) {
        uint64_t hash = hash_bytes(text, strlen(text));

        if (k->n_new_problems < ELEMENTSOF(k->new_problems))
                k->new_problems[k->n_new_problems++] = hash;
        for (size_t i = 0; i < k->n_problems; i++)
                if (k->problems[i] == hash)
                        return;
        log_warning("%s", text);
}

static void take_record(UnitKeeper *k, const Wire *w, const char *text) {
        int r;

        switch (w->kind) {
        case WIRE_RULE:
                r = unit_rules_add(&k->incoming, text, &w->settings);
                k->broken = k->broken || r < 0;
                break;
        case WIRE_PROBLEM:
                tell_of_problem(k, text);
                break;
        case WIRE_END:
                k->complete = true;
                break;
        default:
                k->broken = true;
        }
}

/* Takes what is whole out of the input. */
static void take_records(UnitKeeper *k) {
        char text[TEXT_MAX + 1];
        size_t at = 0;
        Wire w;

        while (!k->broken && k->n_input - at >= sizeof(w)) {
                memcpy(&w, k->input + at, sizeof(w));
                if (w.size > TEXT_MAX) {
                        k->broken = true;
                        break;
                }
                if (k->n_input - at < sizeof(w) + w.size)
                        break;
                memcpy(text, k->input + at + sizeof(w), w.size);
                text[w.size] = 0;
                take_record(k, &w, text);
                at += sizeof(w) + w.size;
        }
        memmove(k->input, k->input + at, k->n_input - at);
        k->n_input -= at;
}

static void data(const void *data, size_t size, void *userdata) {
        const uint8_t *p = data;
        UnitKeeper *k = userdata;

        while (size > 0 && !k->broken) {
                size_t n = MIN(size, sizeof(k->input) - k->n_input);

                memcpy(k->input + k->n_input, p, n);
                k->n_input += n;
                p += n;
                size -= n;
                take_records(k);
        }
}

typedef struct Application {
        UnitKeeper *keeper;
        bool forget;
        int error;
} Application;

static int apply_rule(const char *name, const UnitSettings *settings, void *userdata) {
        Application *a = userdata;
        Manager *m = a->keeper->manager;
        UnitLimits l = unit_settings_limits(settings, &m->config);
        bool is_general = l.sync_record_ns == m->config.fsync_record_ns &&
                l.write_record_ns == m->config.write_record_ns;
        int r;

        /* What is general has to be said only against what a pattern says. */
        if (a->forget || (is_general && !unit_rules_match(&a->keeper->rules, name)))
                l.sync_record_ns = l.write_record_ns = THRESHOLD_GENERAL;
        r = thresholds_set_unit(m->thresholds, name, l.sync_record_ns, l.write_record_ns);
        if (r < 0)
                a->error = r;

        return 0;
}

static void set_thresholds(UnitKeeper *k, bool forget) {
        Application a = { .keeper = k, .forget = forget };

        (void) unit_rules_foreach(&k->rules, apply_rule, &a);
        if (a.error < 0)
                log_warning_errno(a.error, "Cannot set the thresholds of all units: %m");
}

void unit_keeper_apply(UnitKeeper *k) {
        set_thresholds(k, /* forget= */ true); /* patterns go in the order in which they were set */
        set_thresholds(k, /* forget= */ false);
}

static bool has_rule(const char *unit, void *userdata) {
        const UnitKeeper *k = userdata;

        return unit_rules_name(&k->rules, unit);
}

static void replace_rules(UnitKeeper *k) {
        int r;

        set_thresholds(k, /* forget= */ true);
        unit_rules_done(&k->rules);
        k->rules = k->incoming;
        k->incoming = (UnitRules){};
        set_thresholds(k, /* forget= */ false);

        /* So that it goes for the first thing that they do, too. */
        r = owner_table_find_units(k->manager->owners, has_rule, k);
        if (r < 0)
                log_debug_errno(r, "Cannot look for the control groups of units, ignoring: %m");
        r = thresholds_apply(k->manager->thresholds);
        if (r < 0)
                log_debug_errno(r, "Cannot tell the programs the thresholds of units, trying again later: %m");
}

static void start(UnitKeeper *k);

static void start_later(UnitKeeper *k, uint64_t delay_us) {
        int r;

        r = sd_event_source_set_time_relative(k->timer, delay_us);
        if (r >= 0)
                r = sd_event_source_set_enabled(k->timer, SD_EVENT_ONESHOT);
        if (r < 0)
                log_debug_errno(r, "Cannot set the timer to read unit files, ignoring: %m");
}

static void failed(UnitKeeper *k, int error) {
        if (!k->warned)
                log_warning_errno(error, "Cannot read the unit files, so thresholds of single units stay as they are: "
                                         "%m");
        k->warned = true;
        start_later(k, k->retry_us);
}

static void done(int result, void *userdata) {
        UnitKeeper *k = userdata;

        memcpy(k->problems, k->new_problems, sizeof(k->problems));
        k->n_problems = k->n_new_problems;
        if (result == 0 && k->complete && !k->broken) {
                replace_rules(k);
                k->warned = false;
                log_debug("Thresholds of %zu units and %zu patterns are set.", k->rules.n_units, k->rules.n_patterns);
        } else {
                unit_rules_done(&k->incoming);
                failed(k, result < 0 ? result : -EBADMSG);
        }
        stall_log_start(k->manager->stalls);
        if (k->again)
                start(k);
}

static void late(void *userdata) {
        failed(userdata, -ETIMEDOUT);
}

static void start(UnitKeeper *k) {
        static const StateChildCallbacks callbacks = { work, data, done, late };
        int r;

        k->again = state_child_busy(k->child);
        if (k->again)
                return;
        (void) sd_event_source_set_enabled(k->timer, SD_EVENT_OFF);
        unit_rules_done(&k->incoming);
        k->n_input = k->n_new_problems = 0;
        k->complete = k->broken = false;
        r = state_child_start(k->child, &callbacks, k);
        if (r < 0)
                failed(k, r);
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        start(userdata);

        return 0;
}

void unit_keeper_reload(UnitKeeper *k) {
        k->n_problems = 0;
        k->warned = false;
        start(k);
}

static int on_reloading(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        UnitKeeper *k = userdata;
        int active;

        if (sd_bus_message_read(m, "b", &active) >= 0 && !active)
                start_later(k, SETTLE_US);

        return 0;
}

static int on_subscribed(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        const sd_bus_error *error = sd_bus_message_get_error(m);

        if (error)
                log_debug("The service manager will not tell us when it reloads: %s", strempty(error->message));

        return 0;
}

/* It sends signals only if somebody wants them; usually that is systemd-logind already. */
static int subscribe(UnitKeeper *k, sd_bus *bus) {
        return sd_bus_call_method_async(bus, NULL, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                        "org.freedesktop.systemd1.Manager", "Subscribe", on_subscribed, k, "");
}

static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        const char *name, *before, *after;

        if (sd_bus_message_read(m, "sss", &name, &before, &after) >= 0 && *after)
                (void) subscribe(userdata, sd_bus_message_get_bus(m));

        return 0;
}

int unit_keeper_listen(Manager *m, sd_bus *bus) {
        UnitKeeper *k = m->unit_keeper;
        int r;

        r = sd_bus_match_signal_async(bus, NULL, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                      "org.freedesktop.systemd1.Manager", "Reloading", on_reloading, NULL, k);
        if (r < 0)
                return r;
        r = sd_bus_add_match_async(bus, NULL,
                                   "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                                   "interface='org.freedesktop.DBus',member='NameOwnerChanged',"
                                   "arg0='org.freedesktop.systemd1'",
                                   on_owner_changed, NULL, k);
        if (r < 0)
                return r;

        return subscribe(k, bus);
}

UnitLimits unit_keeper_limits(const UnitKeeper *k, const char *unit) {
        return unit_settings_limits(unit_rules_get(&k->rules, unit), &k->manager->config);
}

/* Takes a path as $SYSTEMD_UNIT_PATH apart. */
static void set_path(UnitKeeper *k, const char *path) {
        size_t n = 0;
        char *p = k->path;

        (void) snprintf(k->path, sizeof(k->path), "%s", path);
        while (n < UNIT_DIRS_MAX && p) {
                const char *dir = strsep(&p, ":");

                if (*dir)
                        k->dirs[n++] = dir;
        }
}

int unit_keeper_new(UnitKeeper **ret, Manager *m, bool hurry) {
        _cleanup_(unit_keeper_freep) UnitKeeper *k = calloc(1, sizeof(*k));
        const char *path = secure_getenv("IOLAT_TEST_UNIT_PATH");
        int r;

        if (!k)
                return -ENOMEM;
        k->manager = m;
        k->retry_us = hurry ? USEC_PER_SEC : RETRY_US;
        if (!isempty(path))
                set_path(k, path);
        r = state_child_new(&k->child, m->event, hurry ? 2 * USEC_PER_SEC : CHILD_LIMIT_US);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(m->event, &k->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US, on_timer, k);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(k->timer, "unit files");
        *ret = TAKE_PTR(k);

        return 0;
}

UnitKeeper *unit_keeper_free(UnitKeeper *k) {
        if (!k)
                return NULL;
        state_child_free(k->child);
        sd_event_source_unref(k->timer);
        unit_rules_done(&k->rules);
        unit_rules_done(&k->incoming);
        free(k);

        return NULL;
}
