/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "log.h"
#include "manager.h"
#include "names.h"
#include "probe-table.h"

static bool read_probe_info(Manager *m, uint32_t probe, struct probe_info *ret) {
        if (bpf_map_lookup_elem(m->maps.probe_infos, &probe, ret) < 0)
                return false;
        ret->reason[sizeof(ret->reason) - 1] = 0;

        return true;
}

/* The program of the probe's candidate that is attached; misses are counted per program. */
static uint64_t probe_misses(Manager *m, enum probe probe) {
        uint64_t n = 0;

        for (size_t i = 0; i < probe_table_size; i++) {
                if (probe_table[i].probe != probe)
                        continue;
                n += maps_misses(&m->maps, probe_table[i].program);
                if (probe_table[i].exit_program)
                        n += maps_misses(&m->maps, probe_table[i].exit_program);
        }

        return n;
}

static uint64_t whole_ns(double ns) {
        return ns > 0 && ns < (double) INT64_MAX ? (uint64_t) (ns + 0.5) : 0;
}

static void row_set_costs(Manager *m, ProbeRow *row, enum probe probe, unsigned attached) {
        ProbeCosts costs;

        costs_get(m->costs, probe, attached, &costs);
        row->has_ns = costs.has_ns;
        row->ns_per_hit = whole_ns(costs.ns_per_hit);
        row->sampled_hits = costs.sampled_hits;
        row->has_rate = costs.has_rate;
        row->hits_per_sec = costs.hits_per_sec;
        row->cpu_share = costs.ns_per_hit * costs.hits_per_sec / NSEC_PER_SEC;
}

static int list_probes(Manager *m, probe_callback callback, void *userdata) {
        int r;

        for (uint32_t p = 0; p < _PROBE_MAX; p++) {
                const ProbeDef *def;
                char attached[128];
                struct probe_info info;
                ProbeRow row = { .kind = "probe" };

                if (!read_probe_info(m, p, &info) || (!info.attached && !info.reason[0]))
                        continue; /* not one of this tier */
                def = probe_def_find(p, info.attached);
                if (!def)
                        continue;
                row.probe = def->name;
                if (info.attached) {
                        snprintf(attached, sizeof(attached), "%s:%s", attach_kind_to_string(def->kind),
                                 def->target);
                        row.attached = attached;
                        row.hits = maps_hits(&m->maps, p);
                        row.misses = probe_misses(m, p);
                        row.state = row.misses ? "degraded" : "ok";
                        row.reason = row.misses ? "the kernel skipped events" : NULL;
                        row_set_costs(m, &row, p, info.attached);
                } else {
                        row.state = "absent";
                        row.reason = info.reason;
                }
                r = callback(&row, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

static const char *fs_type_of(uint32_t dev, void *userdata) {
        return device_table_fs_type(userdata, dev);
}

static int list_bias(Manager *m, probe_callback callback, void *userdata) {
        ProbeRow floor = { .kind = "floor", .probe = "empty program", .has_ns = true };
        const Bias *all;
        double ns;
        size_t n;
        int r;

        if (costs_get_floor(m->costs, &ns)) {
                floor.ns_per_hit = whole_ns(ns);
                r = callback(&floor, userdata);
                if (r < 0)
                        return r;
        }
        r = costs_bias(m->costs, m->series, fs_type_of, m->devices, &all, &n);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                const Bias *b = all + i;
                ProbeRow row = {
                        .kind = "bias",
                        .probe = b->op,
                        .phase = b->phase,
                        .added_ns = whole_ns(b->added_ns),
                        .p50_ns = b->p50_ns,
                        .share = b->added_ns / (double) b->p50_ns,
                };

                r = callback(&row, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int list_losses(Manager *m, probe_callback callback, void *userdata) {
        const struct {
                const char *name;
                uint64_t n;
        } own[] = {
                { "alert-dropped", m->alerts_dropped },
                { "in-progress-full", in_progress_dropped(m->in_progress) },
        };
        int r;

        for (int i = 0; i < _LOSS_MAX; i++) {
                ProbeRow row = { .kind = "loss", .probe = loss_to_string(i), .hits = maps_loss(&m->maps, i) };

                row.state = row.hits ? "degraded" : "ok";
                r = callback(&row, userdata);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < ELEMENTSOF(own); i++) {
                ProbeRow row = { .kind = "loss", .probe = own[i].name, .hits = own[i].n };

                row.state = row.hits ? "degraded" : "ok";
                r = callback(&row, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int list_blind_spots(Manager *m, probe_callback callback, void *userdata) {
        uint32_t key = 0;
        struct meta meta;
        int r;

        if (m->sources.tier != TIER_FUNCTION && bpf_map_lookup_elem(m->maps.meta, &key, &meta) >= 0) {
                ProbeRow row = { .kind = "blind", .probe = "function tier", .state = "absent" };

                meta.tier_reason[sizeof(meta.tier_reason) - 1] = 0;
                row.reason = meta.tier_reason;
                r = callback(&row, userdata);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < blind_spots_size; i++) {
                ProbeRow row = {
                        .kind = "blind",
                        .probe = blind_spots[i].title,
                        .reason = blind_spots[i].text,
                        .state = "absent",
                };

                if (!source_is_blind(&m->sources, blind_spots + i))
                        continue;
                r = callback(&row, userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

int query_probes(Manager *m, probe_callback callback, void *userdata) {
        int r;

        r = manager_refresh(m);
        if (r < 0)
                return r;
        r = list_probes(m, callback, userdata);
        if (r >= 0)
                r = list_bias(m, callback, userdata);
        if (r >= 0)
                r = list_losses(m, callback, userdata);
        if (r >= 0)
                r = list_blind_spots(m, callback, userdata);

        return r;
}

const char *query_tier(Manager *m) {
        return m->sources.tier == TIER_FUNCTION ? "function" : "tracepoint";
}

uint64_t query_lost(Manager *m) {
        uint64_t n = m->alerts_dropped + in_progress_dropped(m->in_progress);

        for (int i = 0; i < _LOSS_MAX; i++)
                n += maps_loss(&m->maps, i);
        for (uint32_t p = 0; p < _PROBE_MAX; p++)
                n += probe_misses(m, p);

        return n;
}

bool query_degraded(Manager *m) {
        for (size_t i = 0; i < probe_table_size; i++) {
                struct probe_info info;

                /* What a filesystem that is not in use would bring is not missing. */
                if (probe_table[i].need != OPTIONAL && (probe_table[i].tiers & (1 << m->sources.tier)) &&
                    read_probe_info(m, probe_table[i].probe, &info) && !info.attached &&
                    !(probe_table[i].kind == ATTACH_TP_BTF && info.can_come))
                        return true;
        }

        return query_lost(m) > 0;
}

uint64_t query_since_realtime_us(Manager *m) {
        uint32_t key = 0;
        struct meta meta;

        return bpf_map_lookup_elem(m->maps.meta, &key, &meta) < 0 ? 0 : meta.since_realtime_us;
}
