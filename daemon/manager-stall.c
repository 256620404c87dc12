/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the daemon does about a stall: remembers it, says so to those who listen, and to the journal. All of this is
 * done for each of many thousands a minute, if it comes to that: what costs is limited before it begins. */

#include <signal.h>
#include <sys/stat.h>

#include "alert.h"
#include "bus-emit.h"
#include "log.h"
#include "manager.h"
#include "names.h"

#define DEVICES_INTERVAL_NS (100 * NSEC_PER_MSEC)
#define ALERT_AGE_MAX_NS (60 * NSEC_PER_SEC) /* what ended before that, when no daemon was there, is no news */

/* Inode of the initial namespace of process ids, the same on every host. */
#define INITIAL_PID_NAMESPACE 0xeffffffcU

enum {
        SIGNALS_PER_SEC = 100, /* of finished stalls, and as many of those in progress */
        OWNERS_PER_SEC = 20,   /* transactions whose owners are looked up, which takes a walk */
};

static bool is_failed_sync(const struct stall *s) {
        return s->error < 0 && s->op <= OP_SYNCWRITE;
}

static AlertRate alert_rate(const Manager *m) {
        return (AlertRate){ .burst = m->config.alert_burst, .interval_ns = m->config.alert_interval_ns };
}

/* An entry about a sync of the journal would make the journal sync again. */
static bool is_never_alerted(const char *unit) {
        return streq(unit, "systemd-journald.service") || streq(unit, "iolatd.service");
}

static AlertSubject alert_subject(const StallRow *row) {
        return (AlertSubject){
                .failed = is_failed_sync(row->record),
                .total_ns = row->record->total_ns,
                .op = row->record->op,
                .phase = phase_from_string(strempty(row->dominant_phase)),
                .dev = row->record->dev,
        };
}

static bool is_news(const struct stall *s) {
        return now_ns() < s->end_ns + ALERT_AGE_MAX_NS;
}

static bool was_dropped(int r) {
        return r < 0 && r != -ENOENT && r != -ECONNREFUSED; /* no journald, no journal */
}

/* Returns whether it was long enough for an alert. */
static bool alert(Manager *m, const Owner *o, const StallRow *row) {
        UnitLimits limits = unit_keeper_limits(m->unit_keeper, row->unit);
        const struct stall *s = row->record;
        uint64_t limit = s->op <= OP_SYNCWRITE ? limits.sync_alert_ns : limits.write_alert_ns;
        AlertSubject about = alert_subject(row);
        char id[33];

        if (!limits.alert || is_never_alerted(row->unit) || !is_news(s) || (!about.failed && s->total_ns < limit))
                return false;
        if (!alert_limits_allow(m->alert_limits, row->unit, &about, now_ns(), alert_rate(m)))
                return true;
        if (was_dropped(alert_send(row, manager_invocation_id(m, o, id) >= 0 ? id : NULL))) {
                m->alerts_dropped++;
                alert_limits_note(m->alert_limits, row->unit, &about, now_ns());
        }

        return true;
}

static bool report_suppressed(const char *unit, const Suppressed *s, void *userdata) {
        Manager *m = userdata;
        int r;

        r = alert_send_suppressed(unit ?: UNIT_OTHERS, s, now_ns() - s->since_ns,
                                  device_table_mount_point(m->devices, s->worst.dev));

        return !was_dropped(r);
}

void manager_report_suppressed(Manager *m) {
        alert_limits_report(m->alert_limits, now_ns(), alert_rate(m), report_suppressed, m);
}

static void announce(Manager *m, const StallRow *row) {
        RateLimit *l = row->in_progress ? &m->progress_signals : &m->stall_signals;
        bool allowed;

        l->interval_ns = NSEC_PER_SEC;
        l->burst = SIGNALS_PER_SEC;
        allowed = rate_limit_allow(l, now_ns());
        if (allowed)
                bus_emit_stall(m->system_bus, m->peers, row);
        varlink_server_on_stall(m->varlink, row, allowed);
}

/* The filesystem may have been mounted since the last query. */
static void refresh_devices(Manager *m) {
        uint64_t now = now_ns();
        int r;

        if (m->devices_refreshed_ns && now < m->devices_refreshed_ns + DEVICES_INTERVAL_NS)
                return;
        m->devices_refreshed_ns = now;
        r = device_table_refresh(m->devices);
        if (r < 0)
                log_debug_errno(r, "Cannot read the table of mounts, ignoring: %m");
}

/* Who is in the transaction that it waited for. */
static void set_owners(Manager *m, StallEntry *e) {
        TransactionOwner found[TRANSACTION_OWNERS_MAX];
        StallOwner owners[TRANSACTION_OWNERS_MAX];
        RateLimit *l = &m->owner_lookups;
        int n;

        if (e->record.tx.tid == 0)
                return;
        l->interval_ns = NSEC_PER_SEC;
        l->burst = OWNERS_PER_SEC;
        if (!rate_limit_allow(l, now_ns()))
                return;
        n = blamer_transaction_owners(m->blamer, e->record.journal_dev, e->record.tx.tid, found);
        for (int i = 0; i < n; i++)
                owners[i] = (StallOwner){ .unit = (char *) found[i].unit, .share = found[i].share };
        if (n > 0 && stall_entry_set_owners(e, owners, (size_t) n) < 0)
                log_oom();
}

static void keep_in_history(Manager *m, const StallEntry *e) {
        int r;

        r = history_add_stall(m->history, e->id, e->start_realtime_us, e->unit, &e->record, sizeof(e->record));
        if (r < 0)
                log_debug_errno(r, "Cannot keep a stall in the history, ignoring: %m");
}

/* What ended before the programs knew what is a stall: without a daemon before this one everything was. */
static bool is_stall(Manager *m, const Owner *o, const struct stall *record) {
        if (!(record->flags & STALL_RECORD))
                return false;

        return record->end_ns >= m->settings_ns || is_failed_sync(record) ||
                record->total_ns >= thresholds_record_ns(m->thresholds, o, record->op);
}

int manager_on_stall(Manager *m, const struct stall *record) {
        uint64_t id, start;
        const Owner *o;
        InProgress *p;
        StallEntry *e;
        StallRow row;
        int r;

        r = owner_table_get(m->owners, record->owner, &o);
        if (r < 0)
                return r;
        trace_deliver(m->trace, m, o, record);
        p = in_progress_match(m->in_progress, record);
        if (!p && !is_stall(m, o, record))
                return 0;

        id = p ? p->entry.id : stall_log_new_id(m->stalls);
        start = p ? p->entry.start_realtime_us : stall_start_realtime_us(record);
        if (p)
                in_progress_remove(m->in_progress, p);
        r = stall_log_add(m->stalls, id, start, o->unit, record, &e);
        if (r < 0)
                return r;
        set_owners(m, e);
        keep_in_history(m, e);
        refresh_devices(m);
        row = stall_row(m, e);
        (void) alert(m, o, &row);
        announce(m, &row);

        return 0;
}

/* Process ids are those of the initial namespace; from another one nothing can be told. */
static bool process_is_gone(int pid) {
        static int is_initial = -1;
        struct stat st;

        if (is_initial < 0)
                is_initial = stat("/proc/self/ns/pid", &st) >= 0 && st.st_ino == INITIAL_PID_NAMESPACE;

        return is_initial && pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
}

static int on_in_progress(const struct stall *record, void *userdata) {
        Manager *m = userdata;
        bool is_new = false;
        const Owner *o;
        InProgress *p;
        StallRow row;
        int r;

        /* An asynchronous one that failed right away can be left behind, which ends with the process at the latest. */
        if (record->async && process_is_gone(record->pid))
                return 0;
        r = owner_table_get(m->owners, record->owner, &o);
        if (r < 0)
                return r;
        p = in_progress_find(m->in_progress, record);
        if (!p) {
                if (record->total_ns < thresholds_record_ns(m->thresholds, o, record->op))
                        return 0;
                r = in_progress_add(m->in_progress, stall_log_new_id(m->stalls), stall_start_realtime_us(record),
                                    o->unit, record, &p);
                if (r == -ENOBUFS)
                        return 0; /* counted */
                if (r < 0)
                        return r;
                is_new = true;
        }
        if (!p->entry.n_owners)
                set_owners(m, &p->entry);
        refresh_devices(m);
        row = stall_row(m, &p->entry);
        if (!p->alerted)
                p->alerted = alert(m, o, &row);
        if (is_new)
                announce(m, &row);

        return 0;
}

int manager_scan(Manager *m) {
        int r;

        in_progress_begin(m->in_progress);
        r = scan_tick(&m->scan, &m->maps, in_progress_count(m->in_progress) > 0, on_in_progress, m);
        in_progress_end(m->in_progress, r > 0);
        if (r == -ENOENT) /* there may be a new generation, whose pins are others */
                (void) manager_follow_generation(m);
        trace_set_ring_lost(m->trace, maps_loss(&m->maps, LOSS_STALL_RING_FULL));

        return r < 0 ? r : 0;
}
