/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <signal.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "bus-names.h"
#include "cgroup-tree.h"
#include "fold.h"
#include "loader.h"
#include "history-bridge.h"
#include "log.h"
#include "manager.h"
#include "unit-path.h"

#define HOUSEKEEPING_INTERVAL_US (30 * USEC_PER_SEC)
#define TICK_US USEC_PER_SEC
#define TICK_ACCURACY_US (50 * USEC_PER_MSEC)
#define REFRESH_AGAIN_NS (20 * NSEC_PER_MSEC)
#define REFRESH_INTERVAL_NS (100 * NSEC_PER_MSEC)
#define PATH_OF_PEER_SOCKET_MAX 108

static int write_settings(Manager *m) {
        thresholds_set_general(m->thresholds, m->config.fsync_record_ns, m->config.write_record_ns);

        return thresholds_apply(m->thresholds);
}

int manager_follow_generation(Manager *m) {
        int r;

        r = maps_refresh(&m->maps);
        if (r <= 0)
                return r;
        log_debug("Now reading generation %u.", m->maps.generation);
        r = sources_read(&m->sources, &m->maps);
        if (r < 0)
                return r;

        return write_settings(m);
}

int manager_refresh(Manager *m) {
        uint64_t now = now_ns();
        int r;

        if (m->refreshed_ns && now < m->refreshed_ns + REFRESH_INTERVAL_NS)
                return 0;
        r = manager_follow_generation(m);
        if (r < 0)
                log_debug_errno(r, "Cannot follow to the new generation, ignoring: %m");
        r = device_table_refresh(m->devices);
        if (r < 0)
                log_debug_errno(r, "Cannot read the table of mounts, ignoring: %m");
        r = series_table_refresh(m->series);
        if (r < 0)
                return r;
        m->refreshed_ns = now;

        return 0;
}

bool manager_refresh_again(Manager *m) {
        if (now_ns() < m->refreshed_ns + REFRESH_AGAIN_NS)
                return false;
        m->refreshed_ns = 0;

        return manager_refresh(m) >= 0;
}

int manager_invocation_id(Manager *m, const Owner *o, char ret[33]) {
        _cleanup_free_ char *unit_path = NULL;
        const char *root = owner_table_cgroup_root(m->owners);
        int r;

        if (!root || !o->path)
                return -ENOENT;
        r = unit_path_of_unit(o->path, &unit_path);
        if (r < 0)
                return r;
        r = cgroup_invocation_id(root, unit_path, ret);

        return r < 0 ? -ENOENT : 0;
}

const char *manager_description(Manager *m, const char *unit) {
        return unit_info_description(m->unit_infos, system_bus_get(m->system_bus), unit, now_ns());
}

/* So that the description of a unit is there when somebody asks for its status. */
static void prefetch_descriptions(Manager *m) {
        Series *const *all;
        size_t n;

        all = series_table_all(m->series, &n);
        for (size_t i = 0; i < n; i++)
                (void) manager_description(m, all[i]->unit);
}

static int on_stall(const struct stall *record, void *userdata) {
        Manager *m = userdata;
        int r;

        r = manager_on_stall(m, record);
        if (r < 0)
                log_warning_errno(r, "Cannot note a stall, ignoring: %m");

        return 0;
}

static void read_changes(Manager *m) {
        const struct changed_op *ops;
        const Owner *o;
        size_t n;
        int r;

        r = changes_read(m->changes);
        if (r == -ENOENT && m->sources.label[PROBE_CHANGED_OPS][0]) {
                /* They were there: so there is a new generation. */
                r = manager_follow_generation(m);
                if (r < 0)
                        log_debug_errno(r, "Cannot follow to the new generation, ignoring: %m");
        }

        /* Control groups that were not there before. */
        ops = changes_ops(m->changes, &n);
        for (size_t i = 0; i < n; i++) {
                r = owner_table_get(m->owners, ops[i].key.owner, &o);
                if (r < 0)
                        log_debug_errno(r, "Cannot note a new unit, ignoring: %m");
        }
}

/* Once a second: what has to be noticed soon. */
static int on_tick(sd_event_source *s, uint64_t usec, void *userdata) {
        Manager *m = userdata;
        int r;

        r = thresholds_set_tick(m->thresholds, ++m->tick);
        if (r < 0)
                log_debug_errno(r, "Cannot tell the programs the time, ignoring: %m");
        read_changes(m);
        blamer_tick(m->blamer);
        changes_drop(m->changes);
        r = thresholds_apply(m->thresholds);
        if (r < 0)
                log_debug_errno(r, "Cannot tell the programs the thresholds, trying again later: %m");
        costs_tick(m->costs, now_ns());
        manager_report_suppressed(m);
        r = manager_scan(m);
        if (r < 0)
                log_debug_errno(r, "Cannot look for operations in progress, ignoring: %m");

        (void) sd_event_source_set_time_relative(s, TICK_US);
        (void) sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);

        return 0;
}

/* At once after numbers have moved, as the next page of a listing does not do it, and would miss them. */
static int refresh_after_move(Manager *m) {
        int r;

        m->refreshed_ns = 0;
        r = manager_refresh(m);
        (void) changes_forget_gone(m->changes);

        return r;
}

static int on_housekeeping(sd_event_source *s, uint64_t usec, void *userdata) {
        Manager *m = userdata;
        uint64_t next_us = m->housekeeping_us;
        int r;

        r = manager_refresh(m);
        /* First those that have just gone, then those that are too many: where something always has, too. */
        for (unsigned i = 0; r >= 0 && i < 2; i++) {
                r = fold_dead(m->series, m->owners, &m->maps, now_ns(), m->fold_after_ns, m->config.max_units);
                if (r <= 0)
                        break;
                if (r >= FOLD_OWNERS_MAX) /* there are more */
                        next_us = MIN(next_us, USEC_PER_SEC);
                r = refresh_after_move(m);
        }
        if (r < 0) {
                log_warning_errno(r, "Cannot tidy up after units that are gone, trying again later: %m");
                (void) refresh_after_move(m);
        }
        prefetch_descriptions(m);

        (void) sd_event_source_set_time_relative(s, next_us);
        (void) sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);

        return 0;
}

static int load_config(Manager *m) {
        int r;

        config_init(&m->config);
        r = config_load(&m->config, NULL, m->options.config_file);
        if (r < 0)
                return log_error_errno(r, "Cannot read the configuration%s%s: %m",
                                       m->options.config_file ? " " : "", strempty(m->options.config_file));

        return 0;
}

static int on_reload(sd_event_source *s, const struct signalfd_siginfo *si, void *userdata) {
        Manager *m = userdata;
        Config before = m->config;
        int r;

        (void) sd_notifyf(false, "RELOADING=1\nMONOTONIC_USEC=%llu",
                          (unsigned long long) (now_ns() / NSEC_PER_USEC));
        r = load_config(m);
        if (r < 0)
                m->config = before; /* said already; what was good remains */
        else {
                unit_keeper_apply(m->unit_keeper);
                r = write_settings(m);
                if (r < 0)
                        log_warning_errno(r, "Cannot set the thresholds, ignoring: %m");
                history_set_max_bytes(m->history, m->config.history_max_bytes);
        }
        unit_keeper_reload(m->unit_keeper);
        (void) sd_notify(false, "READY=1");

        return 0;
}

static int setup_events(Manager *m) {
        sigset_t mask;
        int r;

        sigemptyset(&mask);
        sigaddset(&mask, SIGTERM);
        sigaddset(&mask, SIGINT);
        sigaddset(&mask, SIGHUP);
        sigaddset(&mask, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return -errno;
        r = sd_event_default(&m->event);
        if (r < 0)
                return r;
        r = sd_event_add_signal(m->event, NULL, SIGTERM, NULL, NULL);
        if (r >= 0)
                r = sd_event_add_signal(m->event, NULL, SIGINT, NULL, NULL);
        if (r >= 0)
                r = sd_event_add_signal(m->event, NULL, SIGHUP, on_reload, m);
        if (r >= 0)
                r = sd_event_add_time_relative(m->event, &m->housekeeping, CLOCK_MONOTONIC, m->housekeeping_us,
                                               USEC_PER_SEC, on_housekeeping, m);
        if (r >= 0)
                r = sd_event_add_time_relative(m->event, &m->ticker, CLOCK_MONOTONIC, TICK_US, TICK_ACCURACY_US, on_tick,
                                               m);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(m->housekeeping, "housekeeping");
        (void) sd_event_source_set_description(m->ticker, "tick");
        (void) sd_event_set_watchdog(m->event, true);

        return 0;
}

/* By hand there is no iolat-probes.service that came before us. */
static int open_maps(Manager *m) {
        const char *bpffs = m->options.bpffs;
        LoaderOptions lo = {
                .bpffs = bpffs,
                .tier = m->options.tier ?: config_tier_to_string(m->config.tier),
                .wanted = loader_wanted(&m->config),
        };
        int r;

        r = maps_open(&m->maps, bpffs);
        if (r == -ENOENT) {
                maps_done(&m->maps);
                r = loader_load(&lo);
                if (r < 0)
                        return r;
                r = maps_open(&m->maps, bpffs);
        }
        if (r == -EBUSY)
                return log_error_errno(r, "Another iolatd is running on %s/iolat; stop it, or name another bpf file "
                                          "system with --bpffs=.", bpffs);
        if (r == -EPROTO)
                return log_error_errno(r, "What is loaded in %s/iolat is of another version: run 'iolat-probes load' "
                                          "of this version first.", bpffs);
        if (r == -EMEDIUMTYPE)
                return log_error_errno(r, "%s is not a bpf file system; mount one there (mount -t bpf bpf %s) or name "
                                          "another one with --bpffs=.", bpffs, bpffs);
        if (r == -EACCES || r == -EPERM)
                return log_error_errno(r, "No access to %s/iolat: iolatd has to be run as root.", bpffs);
        if (r < 0)
                return log_error_errno(r, "Cannot open the maps in %s/iolat: %m", bpffs);

        return 0;
}

static int listen_for_clients(Manager *m) {
        char path[PATH_OF_PEER_SOCKET_MAX];
        int r;

        if (mkdir(m->options.runtime_dir, 0755) < 0 && errno != EEXIST)
                return log_error_errno(errno, "Cannot make the directory %s: %m", m->options.runtime_dir);
        if (snprintf(path, sizeof(path), "%s/" PEER_SOCKET_NAME, m->options.runtime_dir) >= (int) sizeof(path))
                return log_error_errno(ENAMETOOLONG, "The path of the runtime directory is too long for a socket.");
        r = peer_server_new(&m->peers, m->event, m, path);
        if (r == -EADDRINUSE)
                return log_error_errno(r, "Somebody listens on %s already; is another iolatd running?", path);
        if (r < 0)
                return log_error_errno(r, "Cannot listen on %s: %m", path);
        if (snprintf(path, sizeof(path), "%s/" VARLINK_SOCKET_NAME, m->options.runtime_dir) >= (int) sizeof(path))
                return log_error_errno(ENAMETOOLONG, "The path of the runtime directory is too long for a socket.");
        r = varlink_server_new(&m->varlink, m->event, m, path);
        if (r < 0)
                log_warning_errno(r, "Cannot listen for varlink on %s, going on without: %m", path);

        if (m->options.no_bus)
                return 0;
        r = system_bus_new(&m->system_bus, m->event, m);
        if (r < 0)
                return log_error_errno(r, "Cannot set up the system bus: %m");

        return 0;
}

/* What was counted before we were there is the point to count changes from. From then on the tick is the time in
 * seconds, or a little less, so that it is more than that of any earlier daemon. */
static int start_changes(Manager *m) {
        struct timespec now;
        int r;

        clock_gettime(CLOCK_REALTIME, &now);
        m->started_realtime_us = (uint64_t) now.tv_sec * USEC_PER_SEC + (uint64_t) now.tv_nsec / NSEC_PER_USEC;
        r = write_settings(m); /* with tick 0 */
        if (r < 0)
                return r;
        r = changes_start(m->changes);
        if (r < 0)
                log_debug_errno(r, "Cannot read what has changed, so nothing will be estimated: %m");
        m->settings_ns = now_ns();
        m->tick = m->settings_ns / NSEC_PER_SEC;

        return thresholds_set_tick(m->thresholds, m->tick);
}

void manager_on_history_loaded(Manager *m) {
        int r;

        if (!m->history) /* still being set up, because nothing could be read */
                return;
        r = history_seed(m->history, blamer_matrix(m->blamer), m->started_realtime_us);
        if (r < 0)
                log_warning_errno(r, "Cannot go on with the blame of before, beginning anew: %m");
}

static int setup_tables(Manager *m) {
        int r;

        r = alert_limits_new(&m->alert_limits);
        if (r >= 0)
                r = unit_info_table_new(&m->unit_infos);
        if (r >= 0)
                r = owner_table_new(&m->owners, &m->maps);
        if (r >= 0)
                r = thresholds_new(&m->thresholds, &m->maps, m->owners);
        if (r >= 0)
                r = trace_new(&m->trace, m->thresholds);
        if (r >= 0)
                r = in_progress_table_new(&m->in_progress);
        if (r >= 0)
                r = series_table_new(&m->series, &m->maps, m->owners);
        if (r >= 0)
                r = device_table_new(&m->devices);
        if (r >= 0)
                r = changes_new(&m->changes, &m->maps);
        if (r >= 0)
                r = in_flight_new(&m->in_flight);
        if (r >= 0)
                r = blamer_new(&m->blamer, &m->maps, m->changes, m->owners, m->devices, m->in_flight);
        if (r >= 0)
                r = costs_new(&m->costs, &m->maps);
        if (r >= 0)
                r = sources_read(&m->sources, &m->maps);
        if (r >= 0)
                r = start_changes(m);
        if (r >= 0)
                r = manager_refresh(m);
        if (r >= 0)
                r = fold_recover(m->series, &m->maps);
        if (r < 0)
                return r;
        m->refreshed_ns = 0;
        r = history_keeper_new(&m->history_keeper, m, m->options.state_dir, m->hurry);
        if (r < 0)
                return r;
        m->history = history_keeper_get(m->history_keeper);
        history_listen(m->history, blamer_matrix(m->blamer));
        r = unit_keeper_new(&m->unit_keeper, m, m->hurry);
        if (r < 0)
                return r;

        return stall_log_new(&m->stalls, m->event, m->maps.stalls, on_stall, m);
}

int manager_new(Manager **ret, const ManagerOptions *options) {
        _cleanup_(manager_freep) Manager *m = calloc(1, sizeof(*m));
        int r;

        if (!m)
                return log_oom();
        m->options = *options;
        m->fold_after_ns = FOLD_AFTER_NS;
        m->housekeeping_us = HOUSEKEEPING_INTERVAL_US;
        m->hurry = secure_getenv("IOLAT_TEST_HURRY");
        if (m->hurry) {
                m->fold_after_ns = NSEC_PER_SEC;
                m->housekeeping_us = USEC_PER_SEC / 4;
        }
        m->maps = MAPS_NULL;
        m->scan = SCAN_NULL;

        r = load_config(m);
        if (r < 0)
                return r;
        r = setup_events(m);
        if (r < 0)
                return log_error_errno(r, "Cannot set up the event loop: %m");
        r = open_maps(m);
        if (r < 0)
                return r;
        r = setup_tables(m);
        if (r < 0)
                return log_error_errno(r, "Cannot read what was measured: %m");
        r = listen_for_clients(m);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);

        return 0;
}

Manager *manager_free(Manager *m) {
        if (!m)
                return NULL;
        history_keeper_free(m->history_keeper);
        varlink_server_free(m->varlink);
        peer_server_free(m->peers);
        unit_info_table_free(m->unit_infos);
        system_bus_free(m->system_bus);
        unit_keeper_free(m->unit_keeper);
        trace_free(m->trace);
        stall_log_free(m->stalls);
        blamer_free(m->blamer);
        costs_free(m->costs);
        in_flight_free(m->in_flight);
        changes_free(m->changes);
        in_progress_table_free(m->in_progress);
        scan_done(&m->scan);
        thresholds_free(m->thresholds);
        sd_event_source_unref(m->housekeeping);
        sd_event_source_unref(m->ticker);
        device_table_free(m->devices);
        series_table_free(m->series);
        owner_table_free(m->owners);
        alert_limits_free(m->alert_limits);
        maps_done(&m->maps);
        sd_event_unref(m->event);
        free(m);

        return NULL;
}

int manager_run(Manager *m) {
        int r;

        (void) sd_notify(false, "READY=1\nSTATUS=Measuring storage latency.");
        r = sd_event_loop(m->event);
        (void) sd_notify(false, "STOPPING=1");
        history_keeper_finish(m->history_keeper);
        if (r < 0)
                return log_error_errno(r, "Event loop failed: %m");

        return 0;
}
