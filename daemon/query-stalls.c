/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "manager.h"
#include "names.h"

static const char *dominant_phase(const struct stall *s) {
        int best = PHASE_OTHER;

        for (int i = 0; i < PHASE_RUNQUEUE; i++)
                if (s->phase_ns[i] > s->phase_ns[best])
                        best = i;

        return phase_to_string(best);
}

StallRow stall_row(Manager *m, const StallEntry *e) {
        return (StallRow){
                .id = e->id,
                .start_realtime_us = e->start_realtime_us,
                .unit = e->unit,
                .op = op_to_string(e->record.op) ?: "unknown",
                .state = e->record.error < 0 ? "failed" : "done",
                .error = e->record.error < 0 ? strerrorname_np(-e->record.error) : NULL,
                .dominant_phase = dominant_phase(&e->record),
                .mount_point = device_table_mount_point(m->devices, e->record.dev),
                .record = &e->record,
        };
}

typedef struct RestoredStalls {
        Manager *manager;
        uint32_t left;
        stall_callback callback;
        void *userdata;
} RestoredStalls;

/* What an earlier run of the daemon has seen. */
static int restored_stall(const HistoryStall *s, void *userdata) {
        RestoredStalls *q = userdata;
        StallEntry e = { .id = s->id, .start_realtime_us = s->start_us, .unit = s->unit };
        StallRow row;

        if (!s->restored || s->size != sizeof(e.record) || q->left == 0)
                return 0;
        memcpy(&e.record, s->record, sizeof(e.record));
        e.record.comm[COMM_LEN - 1] = 0;
        row = stall_row(q->manager, &e);
        q->left--;

        return q->callback(&row, q->userdata);
}

int query_stalls(Manager *m, uint64_t since_realtime_us, uint32_t limit, stall_callback callback, void *userdata) {
        RestoredStalls q = { .manager = m, .left = limit, .callback = callback, .userdata = userdata };
        const StallEntry *e;
        int r;

        r = manager_refresh(m);
        if (r < 0)
                return r;
        r = history_foreach_stall(m->history, since_realtime_us, UINT64_MAX, restored_stall, &q);
        if (r < 0)
                return r;
        limit = q.left;
        for (size_t i = 0; limit > 0 && (e = stall_log_get(m->stalls, i)); i++) {
                StallRow row;

                if (e->start_realtime_us < since_realtime_us)
                        continue;
                row = stall_row(m, e);
                r = callback(&row, userdata);
                if (r < 0)
                        return r;
                limit--;
        }

        return 0;
}
