/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "iter.h"
#include "scan.h"

/* The beginning of the value of map "scans". */
typedef struct ScanValue {
        uint64_t n_open;
        struct stall stall;
} ScanValue;

typedef struct Reader {
        scan_callback callback;
        void *userdata;
} Reader;

/* What the counters said at one moment. */
typedef struct Moment {
        int64_t sum;
        uint64_t hits; /* of all programs that can begin or end an operation, among others */
        uint64_t n_open;
} Moment;

static int follow_generation(Scan *s, Maps *maps) {
        int flights, scans;

        if (s->flights >= 0 && s->generation == maps->generation)
                return 0;
        flights = maps_open_more(maps, "flights");
        if (flights < 0)
                return flights;
        scans = maps_open_more(maps, "scans");
        if (scans < 0) {
                close(flights);
                return scans;
        }
        if (!s->buffer)
                s->buffer = calloc(maps->n_cpus, sizeof(*s->buffer));
        if (!s->buffer) {
                close(flights);
                close(scans);
                return -ENOMEM;
        }
        scan_done(&(Scan){ .flights = s->flights, .scans = s->scans });
        s->flights = flights;
        s->scans = scans;
        s->generation = maps->generation;
        s->drift = (Drift){};

        return 0;
}

static int read_sum(Scan *s, const Maps *maps, int64_t *ret) {
        uint32_t key = 0;

        if (bpf_map_lookup_elem(s->flights, &key, s->buffer) < 0)
                return -errno;
        *ret = 0;
        for (unsigned i = 0; i < maps->n_cpus; i++)
                *ret += s->buffer[i];

        return 0;
}

static bool is_iterator(int probe) {
        return probe == PROBE_SCAN_TASKS || probe == PROBE_SCAN_DIOS || probe == PROBE_CHANGED_OPS ||
               probe == PROBE_CHANGED_RQS;
}

static int read_moment(Scan *s, Maps *maps, Moment *ret) {
        uint32_t key = 0;
        ScanValue v;
        int r;

        *ret = (Moment){};
        for (int i = 0; i < _PROBE_MAX; i++)
                if (!is_iterator(i))
                        ret->hits += maps_hits(maps, i);
        r = read_sum(s, maps, &ret->sum);
        if (r < 0)
                return r;
        if (bpf_map_lookup_elem(s->scans, &key, &v) < 0)
                return -errno;
        ret->n_open = v.n_open;

        return 0;
}

static int on_record(const void *record, void *userdata) {
        const struct stall *found = record;
        const Reader *reader = userdata;

        return found->flags & STALL_IN_PROGRESS ? reader->callback(found, reader->userdata) : 0;
}

/* Returns 1 if all were seen. */
static int scan(Scan *s, Maps *maps, scan_callback callback, void *userdata) {
        static const char *const iterators[] = { "scan_tasks", "scan_dios" };
        Reader reader = { .callback = callback, .userdata = userdata };
        unsigned n_absent = 0;
        Moment before, after;
        int r, complete = 1;

        r = read_moment(s, maps, &before);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(iterators); i++) {
                r = iter_read(maps, iterators[i], sizeof(struct stall), SCAN_RECORDS_MAX, on_record, &reader);
                if (r == -ENOENT) { /* this kernel has it not: nothing of that kind was ever found */
                        n_absent++;
                        continue;
                }
                if (r < 0)
                        return r;
                if (r > 0)
                        complete = 0;
        }
        if (n_absent == ELEMENTSOF(iterators))
                return -ENOENT;
        r = read_moment(s, maps, &after);
        if (r < 0)
                return r;
        if (complete && n_absent == 0)
                drift_scanned(&s->drift, after.sum, after.n_open - before.n_open,
                              before.sum == after.sum && before.hits == after.hits);

        return complete;
}

int scan_tick(Scan *s, Maps *maps, bool wanted, scan_callback callback, void *userdata) {
        int64_t sum;
        int r;

        r = follow_generation(s, maps);
        if (r < 0)
                return r;
        r = read_sum(s, maps, &sum);
        if (r < 0)
                return r;
        if (!drift_tick(&s->drift, sum) && !wanted)
                return 0;

        return scan(s, maps, callback, userdata);
}

void scan_done(Scan *s) {
        closep(&s->flights);
        closep(&s->scans);
        free(s->buffer);
        *s = SCAN_NULL;
}
