/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-row.h"
#include "bus-stall.h"
#include "names.h"

static int append_waiter(sd_bus_message *m, const struct stall *record) {
        char file[STALL_FILE_MAX];
        int r;

        if (record->pid > 0) {
                r = sd_bus_message_append(m, "{sv}", "pid", "i", (int32_t) record->pid);
                if (r < 0)
                        return r;
                r = sd_bus_message_append(m, "{sv}", "thread", "i", (int32_t) record->thread);
                if (r < 0)
                        return r;
        }
        r = bus_append_text_entry(m, "comm", record->comm);
        if (r < 0)
                return r;

        return bus_append_text_entry(m, "file", stall_file(record, file));
}

/* Requests are told apart by the task that submitted them, which works only for the one that waits. */
static int append_requests(sd_bus_message *m, const struct stall *record) {
        const uint64_t numbers[] = { record->rq_count, record->rq_bytes, record->rq_max_device_ns };
        static const char *const keys[] = { "count", "bytes", "maxDeviceNSec" };
        int r;

        if (record->async || record->rq_count == 0)
                return 0;
        r = bus_open_entry(m, "requests", "a{st}");
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', "{st}");
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                if (i > 0 && numbers[i] == 0) /* not seen to complete */
                        continue;
                r = sd_bus_message_append(m, "{st}", keys[i], numbers[i]);
                if (r < 0)
                        return r;
        }
        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;

        return bus_close_entry(m);
}

static int append_owners(sd_bus_message *m, const StallRow *stall) {
        int r;

        if (stall->n_owners == 0)
                return 0;
        r = bus_open_entry(m, "owners", "a(sd)");
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', "(sd)");
        if (r < 0)
                return r;
        for (size_t i = 0; i < stall->n_owners; i++) {
                r = sd_bus_message_open_container(m, 'r', "sd");
                if (r < 0)
                        return r;
                r = bus_append_text(m, stall->owners[i].unit);
                if (r < 0)
                        return r;
                r = sd_bus_message_append(m, "d", stall->owners[i].share);
                if (r < 0)
                        return r;
                r = sd_bus_message_close_container(m);
                if (r < 0)
                        return r;
        }
        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;

        return bus_close_entry(m);
}

static int append_record(sd_bus_message *m, const StallRow *stall) {
        const struct stall *record = stall->record;
        uint64_t phases[_PHASE_MAX], steps[_STEP_MAX];
        int r;

        for (int i = 0; i < _PHASE_MAX; i++)
                phases[i] = record->phase_ns[i];
        for (int i = 0; i < _STEP_MAX; i++)
                steps[i] = record->step_ns[i];

        r = bus_append_u64_entry(m, "totalNSec", record->total_ns);
        if (r < 0)
                return r;
        if (stall->in_progress) {
                r = bus_append_u64_entry(m, "waitNSec", record->wait_ns);
                if (r < 0)
                        return r;
        }
        r = bus_append_numbers_entry(m, "phases", phase_to_string, phases, _PHASE_MAX);
        if (r < 0)
                return r;
        r = bus_append_numbers_entry(m, "steps", journal_step_to_string, steps, _STEP_MAX);
        if (r < 0)
                return r;
        r = bus_append_device_entry(m, record->dev);
        if (r < 0)
                return r;
        r = append_requests(m, record);
        if (r < 0)
                return r;
        if (record->tx.tid == 0)
                return 0;

        return sd_bus_message_append(m, "{sv}", "transaction", "u", (uint32_t) record->tx.tid);
}

int bus_append_stall_entries(sd_bus_message *m, const StallRow *stall, bool privileged) {
        const struct {
                const char *key, *value;
        } texts[] = {
                { "unit", stall->unit },   { "op", stall->op },
                { "state", stall->state }, { "error", stall->error },
                { "phase", stall->dominant_phase }, { "mountPoint", stall->mount_point },
        };
        int r;

        if (stall->id > 0) {
                r = bus_append_u64_entry(m, "id", stall->id);
                if (r < 0)
                        return r;
        }
        r = bus_append_u64_entry(m, "startRealtimeUSec", stall->start_realtime_us);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                r = bus_append_text_entry(m, texts[i].key, texts[i].value);
                if (r < 0)
                        return r;
        }
        r = append_record(m, stall);
        if (r < 0)
                return r;
        r = append_owners(m, stall);
        if (r < 0)
                return r;

        return privileged ? append_waiter(m, stall->record) : 0;
}

int bus_append_stall(sd_bus_message *m, const StallRow *stall, bool privileged) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        r = bus_append_stall_entries(m, stall, privileged);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}
