/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-event.h>

#include "alert-limits.h"
#include "blamer.h"
#include "bus-peer.h"
#include "bus-system.h"
#include "conf.h"
#include "costs.h"
#include "device.h"
#include "history-keeper.h"
#include "in-progress.h"
#include "maps.h"
#include "owner.h"
#include "query.h"
#include "rate-limit.h"
#include "scan.h"
#include "series.h"
#include "source.h"
#include "stall-log.h"
#include "thresholds.h"
#include "trace.h"
#include "unit-info.h"
#include "unit-keeper.h"
#include "varlink.h"

typedef struct ManagerOptions {
        const char *runtime_dir;
        const char *state_dir;
        const char *bpffs;
        const char *config_file; /* NULL: the usual places */
        const char *tier;        /* NULL: as configured */
        bool no_bus;
} ManagerOptions;

struct Manager {
        ManagerOptions options;
        Config config;
        sd_event *event;
        Maps maps;
        Sources sources;
        OwnerTable *owners;
        SeriesTable *series;
        DeviceTable *devices;
        StallLog *stalls;
        InProgressTable *in_progress;
        Scan scan;
        Thresholds *thresholds;
        Trace *trace;
        RateLimit stall_signals;
        RateLimit progress_signals;
        RateLimit owner_lookups;
        PeerServer *peers;
        VarlinkServer *varlink; /* NULL: not built, or it could not listen */
        SystemBus *system_bus;
        sd_event_source *housekeeping;
        sd_event_source *ticker;
        AlertLimits *alert_limits;
        UnitInfoTable *unit_infos;
        UnitKeeper *unit_keeper;
        Changes *changes;
        InFlight *in_flight;
        Costs *costs;
        Blamer *blamer;
        uint64_t tick; /* settings.tick */
        uint64_t started_realtime_us;
        uint64_t settings_ns; /* since when the programs know the thresholds of this daemon */
        HistoryKeeper *history_keeper;
        History *history; /* of the keeper */
        uint64_t refreshed_ns;
        uint64_t devices_refreshed_ns;
        uint64_t fold_after_ns;
        uint64_t housekeeping_us;
        bool hurry; /* a test, that does not wait for minutes */
        uint64_t alerts_dropped;
};

/* Makes a manager that is ready to run: loads the programs if nobody did, opens the maps, listens. Logs its errors
 * and returns a negative errno. The options' strings are borrowed. */
int manager_new(Manager **ret, const ManagerOptions *options);
Manager *manager_free(Manager *m);
DEFINE_CLEANUP_FUNC(Manager, manager_free)

/* Runs until a signal ends it. */
int manager_run(Manager *m);

/* Brings everything up to date that queries answer from, unless that was done just now. */
int manager_refresh(Manager *m);

/* Likewise, for one who did not find what it looked for; returns whether anything was read, which is limited so that
 * nobody can make the daemon do nothing else. */
bool manager_refresh_again(Manager *m);

/* Goes on with the newest generation, which may come with maps of its own; does little if it is the one in use. */
int manager_follow_generation(Manager *m);

/* An operation was read from the ring: keeps it, if it is a stall, and announces it. */
int manager_on_stall(Manager *m, const struct stall *record);

/* At each tick: tells the journal of alerts that were left out before. */
void manager_report_suppressed(Manager *m);

/* At each tick: looks for operations that have not returned, if there is reason to. */
int manager_scan(Manager *m);

/* 32 hex digits of the present run of the unit that the owner belongs to; -ENOENT if there is none. */
int manager_invocation_id(Manager *m, const Owner *o, char ret[33]);

/* What the service manager calls the unit; NULL if that is not known (yet). */
const char *manager_description(Manager *m, const char *unit);

/* The history has what an earlier run of the daemon saved. */
void manager_on_history_loaded(Manager *m);

/* How the interfaces see a stall. Strings belong to the daemon, as in query.h. */
StallRow stall_row(Manager *m, const StallEntry *e);
