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
        const struct stall *s = &e->record;

        return (StallRow){
                .id = e->id,
                .start_realtime_us = e->start_realtime_us,
                .unit = e->unit,
                .op = op_to_string(s->op) ?: "unknown",
                .state = e->in_progress ? "in-progress" : s->error < 0 ? "failed" : "done",
                .in_progress = e->in_progress,
                .error = s->error < 0 ? strerrorname_np(-s->error) : NULL,
                .dominant_phase = e->in_progress ? phase_to_string(s->wait_phase) : dominant_phase(s),
                .mount_point = device_table_mount_point(m->devices, s->dev),
                .owners = e->owners,
                .n_owners = e->n_owners,
                .record = s,
        };
}

const char *stall_file(const struct stall *record, char buf[static STALL_FILE_MAX]) {
        const char *parent = record->file_parent;

        if (!record->file_name[0])
                return NULL;
        (void) snprintf(buf, STALL_FILE_MAX, "%s%s%s", parent, *parent && !endswith(parent, "/") ? "/" : "",
                        record->file_name);

        return buf;
}

static int compare_start(const void *a, const void *b) {
        const StallEntry *x = *(const StallEntry *const *) a, *y = *(const StallEntry *const *) b;

        if (x->start_realtime_us != y->start_realtime_us)
                return x->start_realtime_us < y->start_realtime_us ? -1 : 1;

        return x->id < y->id ? -1 : x->id > y->id;
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
        struct stall record;
        StallRow row;

        if (!s->restored || s->size != sizeof(record) || q->left == 0)
                return 0;
        memcpy(&record, s->record, sizeof(record));
        stall_entry_set_record(&e, &record);
        row = stall_row(q->manager, &e);
        q->left--;

        return q->callback(&row, q->userdata);
}

int query_stalls(Manager *m, uint64_t since_realtime_us, uint32_t limit, stall_callback callback, void *userdata) {
        RestoredStalls q = { .manager = m, .left = limit, .callback = callback, .userdata = userdata };
        const StallEntry *found[STALLS_KEPT_MAX + IN_PROGRESS_MAX], *e;
        const InProgress *p;
        size_t n = 0;
        int r;

        r = manager_refresh(m);
        if (r < 0)
                return r;
        r = history_foreach_stall(m->history, since_realtime_us, UINT64_MAX, restored_stall, &q);
        if (r < 0)
                return r;
        for (size_t i = 0; (e = stall_log_get(m->stalls, i)) && n < ELEMENTSOF(found); i++)
                if (e->start_realtime_us >= since_realtime_us)
                        found[n++] = e;
        for (size_t i = 0; (p = in_progress_get(m->in_progress, i)) && n < ELEMENTSOF(found); i++)
                if (p->entry.start_realtime_us >= since_realtime_us)
                        found[n++] = &p->entry;
        qsort(found, n, sizeof(found[0]), compare_start);

        for (size_t i = 0; i < n && i < q.left; i++) {
                StallRow row = stall_row(m, found[i]);

                r = callback(&row, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

Trace *query_trace(Manager *m) {
        return m->trace;
}
