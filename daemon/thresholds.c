/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "log.h"
#include "threshold-rules.h"
#include "thresholds.h"

enum {
        OWNERS_TOLD_MAX = 8192, /* as many as the map holds */
};

/* What the programs were told, by owner, ascending. */
typedef struct Told {
        uint64_t owner[OWNERS_TOLD_MAX];
        struct owner_settings settings[OWNERS_TOLD_MAX];
        size_t n;
} Told;

struct Thresholds {
        uint64_t tick; /* settings.tick */
        Maps *maps;
        OwnerTable *owners;
        ThresholdRules rules;
        int map_fd;
        unsigned generation; /* of the map */
        Told *told;          /* NULL: nothing */
        bool changed;
        uint64_t owners_serial; /* of the table of owners when it was looked through */
        uint64_t floor_ns;
};

int thresholds_new(Thresholds **ret, Maps *maps, OwnerTable *owners) {
        _cleanup_(thresholds_freep) Thresholds *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        t->maps = maps;
        t->owners = owners;
        t->map_fd = -EBADF;
        t->floor_ns = UINT64_MAX;
        threshold_rules_init(&t->rules);
        *ret = TAKE_PTR(t);

        return 0;
}

Thresholds *thresholds_free(Thresholds *t) {
        if (!t)
                return NULL;
        threshold_rules_done(&t->rules);
        closep(&t->map_fd);
        free(t->told);
        free(t);

        return NULL;
}

void thresholds_set_general(Thresholds *t, uint64_t sync_ns, uint64_t write_ns) {
        t->rules.sync_ns = sync_ns;
        t->rules.write_ns = write_ns;
        t->changed = true;
}

int thresholds_set_unit(Thresholds *t, const char *unit, uint64_t sync_ns, uint64_t write_ns) {
        t->changed = true;

        return threshold_rules_set_unit(&t->rules, unit, sync_ns, write_ns);
}

int thresholds_set_traces(Thresholds *t, const ThresholdTrace *traces, size_t n) {
        int r;

        t->changed = true;
        r = threshold_rules_set_traces(&t->rules, traces, n);
        if (r < 0)
                return r;
        /* Whoever traces a unit wants to see the first thing that it does, too. */
        for (size_t i = 0; i < n; i++)
                if (*traces[i].unit) {
                        r = owner_table_find_unit(t->owners, traces[i].unit);
                        if (r < 0)
                                log_debug_errno(r, "Cannot look for the control groups of a unit, ignoring: %m");
                }

        return 0;
}

uint64_t thresholds_record_ns(Thresholds *t, const Owner *o, int op) {
        struct owner_settings s;

        (void) threshold_rules_get(&t->rules, o->unit, o->user_unit, &s);

        return op <= OP_SYNCWRITE ? s.sync_record_ns : s.write_record_ns;
}

typedef struct Keys {
        uint64_t owner[OWNERS_TOLD_MAX];
        size_t n;
} Keys;

static int collect_key(const void *key, void *userdata) {
        Keys *k = userdata;

        if (k->n < ELEMENTSOF(k->owner))
                memcpy(&k->owner[k->n++], key, sizeof(uint64_t));

        return 0;
}

/* The map outlives daemons, and a new generation may bring another one. */
static int follow_generation(Thresholds *t) {
        _cleanup_free_ Keys *keys = NULL;
        int fd, r;

        if (t->map_fd >= 0 && t->generation == t->maps->generation)
                return 0;
        fd = maps_open_more(t->maps, "owner_settings");
        if (fd < 0)
                return fd;
        closep(&t->map_fd);
        t->map_fd = fd;
        t->generation = t->maps->generation;

        keys = calloc(1, sizeof(*keys));
        if (!keys)
                return -ENOMEM;
        r = maps_foreach_key(fd, collect_key, keys);
        if (r < 0)
                return r;
        for (size_t i = 0; i < keys->n; i++)
                (void) bpf_map_delete_elem(fd, &keys->owner[i]);
        free(t->told);
        t->told = NULL;
        t->changed = true;

        return 0;
}

typedef struct Telling {
        Thresholds *thresholds;
        Told *told;
} Telling;

static int tell_owner(const Owner *o, void *userdata) {
        Telling *w = userdata;
        struct owner_settings s;

        if (o->died_ns || (o->id & OWNER_FOLDED) || w->told->n >= OWNERS_TOLD_MAX)
                return 0;
        if (!threshold_rules_get(&w->thresholds->rules, o->unit, o->user_unit, &s))
                return 0;
        w->told->owner[w->told->n] = o->id;
        w->told->settings[w->told->n++] = s;

        return 0;
}

/* Writes what is different in the new list, and removes what is not there any more. Both are sorted. */
static int write_difference(int fd, const Told *old, const Told *new) {
        size_t i = 0, k = 0, n_old = old ? old->n : 0;
        int r = 0;

        while (i < n_old || k < new->n) {
                if (k >= new->n || (i < n_old && old->owner[i] < new->owner[k])) {
                        (void) bpf_map_delete_elem(fd, &old->owner[i++]);
                        continue;
                }
                if (i < n_old && old->owner[i] == new->owner[k]) {
                        bool same = memcmp(&old->settings[i], &new->settings[k], sizeof(new->settings[k])) == 0;

                        i++;
                        if (same) {
                                k++;
                                continue;
                        }
                }
                if (bpf_map_update_elem(fd, &new->owner[k], &new->settings[k], BPF_ANY) < 0)
                        r = -errno;
                k++;
        }

        return r;
}

static int tell_owners(Thresholds *t) {
        _cleanup_free_ Told *told = NULL;
        Telling w = { .thresholds = t };
        int r;

        if (!t->told && !threshold_rules_any(&t->rules)) {
                t->floor_ns = UINT64_MAX;
                return 0;
        }
        told = calloc(1, sizeof(*told));
        if (!told)
                return -ENOMEM;
        w.told = told;
        r = owner_table_foreach(t->owners, tell_owner, &w);
        if (r < 0)
                return r;
        r = write_difference(t->map_fd, t->told, told);
        t->floor_ns = threshold_rules_floor(&t->rules, told->settings, told->n);
        free(t->told);
        t->told = told->n > 0 ? TAKE_PTR(told) : NULL;

        return r;
}

static int write_general(Thresholds *t) {
        struct settings s = {
                .sync_record_ns = t->rules.sync_ns,
                .write_record_ns = t->rules.write_ns,
                .trace_ns = t->rules.trace_all_ns,
                .owner_floor_ns = t->floor_ns,
                .tick = t->tick,
                .alive_ns = now_ns(),
        };
        uint32_t key = 0;

        return bpf_map_update_elem(t->maps->settings, &key, &s, BPF_ANY) < 0 ? -errno : 0;
}

int thresholds_set_tick(Thresholds *t, uint64_t tick) {
        t->tick = tick;

        return write_general(t);
}

int thresholds_apply(Thresholds *t) {
        int r, k;

        r = follow_generation(t);
        if (r >= 0 && !t->changed && t->owners_serial == owner_table_serial(t->owners))
                return 0;
        if (r >= 0) {
                t->owners_serial = owner_table_serial(t->owners);
                r = tell_owners(t);
                t->changed = r < 0;
        }
        k = write_general(t);

        return r < 0 ? r : k;
}
