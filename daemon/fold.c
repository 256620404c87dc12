/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "fold.h"
#include "histogram.h"
#include "names.h"

enum {
        FOLD_OWNERS_MAX = 512, /* in one go, so that queries do not have to wait */
};

typedef struct Fold {
        SeriesTable *series;
        OwnerTable *owners;
        Maps *maps;
        uint64_t now_ns;
        uint64_t after_ns;
        struct {
                uint64_t id;
                uint64_t died_ns;
        } victims[FOLD_OWNERS_MAX];
        size_t n_victims;
        size_t n_units;
} Fold;

/* The second half of a move: removes the source, then the target may forget where it took from (an id can come back,
 * as a unit does that starts again after it was "(exited)"). */
static int finish_op(Maps *maps, const struct op_key *source, const struct op_key *target, struct op_value *sum) {
        if (bpf_map_delete_elem(maps->ops, source) < 0 && errno != ENOENT)
                return -errno;
        sum->folded_from = 0;

        return bpf_map_update_elem(maps->ops, target, sum, BPF_EXIST) < 0 ? -errno : 0;
}

static int finish_rq(Maps *maps, const struct rq_key *source, const struct rq_key *target, struct rq_value *sum) {
        if (bpf_map_delete_elem(maps->rqs, source) < 0 && errno != ENOENT)
                return -errno;
        sum->folded_from = 0;

        return bpf_map_update_elem(maps->rqs, target, sum, BPF_EXIST) < 0 ? -errno : 0;
}

static int fold_op(Fold *f, const Series *s, uint64_t from, uint64_t to) {
        struct op_key source = series_op_key(s, from), target = series_op_key(s, to);
        struct op_value v, sum;

        if (bpf_map_lookup_elem(f->maps->ops, &source, &v) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (bpf_map_lookup_elem(f->maps->ops, &target, &sum) < 0) {
                if (errno != ENOENT)
                        return -errno;
                memset(&sum, 0, sizeof(sum));
        }
        if (sum.folded_from != from) { /* else an attempt before this one failed in the middle */
                sum.folded_from = from;
                op_value_add(&sum, &v);
                if (bpf_map_update_elem(f->maps->ops, &target, &sum, BPF_ANY) < 0)
                        return -errno;
        }

        return finish_op(f->maps, &source, &target, &sum);
}

static int fold_rq(Fold *f, const Series *s, uint64_t from, uint64_t to) {
        struct rq_key source = series_rq_key(s, from), target = series_rq_key(s, to);
        struct rq_value v, sum;

        if (bpf_map_lookup_elem(f->maps->rqs, &source, &v) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (bpf_map_lookup_elem(f->maps->rqs, &target, &sum) < 0) {
                if (errno != ENOENT)
                        return -errno;
                memset(&sum, 0, sizeof(sum));
        }
        if (sum.folded_from != from) { /* else an attempt before this one failed in the middle */
                sum.folded_from = from;
                rq_value_add(&sum, &v);
                if (bpf_map_update_elem(f->maps->rqs, &target, &sum, BPF_ANY) < 0)
                        return -errno;
        }

        return finish_rq(f->maps, &source, &target, &sum);
}

static int fold_owner(Fold *f, uint64_t from, uint64_t to) {
        Series *const *all;
        size_t n;
        int r;

        all = series_table_all(f->series, &n);
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < all[i]->n_owners; k++) {
                        if (all[i]->owners[k] != from)
                                continue;
                        r = all[i]->is_request ? fold_rq(f, all[i], from, to) : fold_op(f, all[i], from, to);
                        if (r < 0)
                                return r;
                }
        /* Last: as long as something is counted under the id its name is needed. */
        if (bpf_map_delete_elem(f->maps->names, &from) < 0 && errno != ENOENT)
                return -errno;
        owner_table_forget(f->owners, from);

        return 0;
}

static int find_dead(const Owner *o, void *userdata) {
        Fold *f = userdata;

        if (!(o->id & OWNER_FOLDED) && o->died_ns && f->now_ns > o->died_ns + f->after_ns &&
            f->n_victims < FOLD_OWNERS_MAX) {
                f->victims[f->n_victims].id = o->id;
                f->victims[f->n_victims++].died_ns = o->died_ns;
        }

        return 0;
}

static int find_old_units(const Owner *o, void *userdata) {
        Fold *f = userdata;

        f->n_units++;
        if ((o->id & OWNER_FOLDED) && !streq(o->unit, UNIT_EXITED) && f->n_victims < FOLD_OWNERS_MAX) {
                f->victims[f->n_victims].id = o->id;
                f->victims[f->n_victims++].died_ns = o->died_ns;
        }

        return 0;
}

static int compare_died(const void *a, const void *b) {
        const uint64_t *x = a, *y = b; /* id, died_ns */

        return x[1] < y[1] ? -1 : x[1] > y[1];
}

int fold_dead(SeriesTable *series, OwnerTable *owners, Maps *maps, uint64_t now_ns, uint64_t after_ns,
              uint64_t max_units) {
        Fold f = { .series = series, .owners = owners, .maps = maps, .now_ns = now_ns, .after_ns = after_ns };
        int n = 0, r;
        size_t surplus;
        uint64_t to;

        r = owner_table_foreach(owners, find_dead, &f);
        if (r < 0)
                return r;
        for (size_t i = 0; i < f.n_victims; i++, n++) {
                const Owner *o;

                r = owner_table_get(owners, f.victims[i].id, &o);
                if (r >= 0)
                        r = owner_table_folded_id(owners, o->unit, o->user_unit, &to);
                if (r >= 0)
                        r = fold_owner(&f, f.victims[i].id, to);
                if (r < 0)
                        return r;
        }
        if (n > 0) /* which keys there are has changed */
                return n;

        f.n_victims = 0;
        r = owner_table_foreach(owners, find_old_units, &f);
        if (r < 0)
                return r;
        if (f.n_units <= max_units)
                return 0;
        surplus = MIN(f.n_units - max_units, f.n_victims);
        qsort(f.victims, f.n_victims, sizeof(f.victims[0]), compare_died);
        for (size_t i = 0; i < surplus; i++, n++) {
                r = owner_table_folded_id(owners, UNIT_EXITED, NULL, &to);
                if (r >= 0)
                        r = fold_owner(&f, f.victims[i].id, to);
                if (r < 0)
                        return r;
        }

        return n;
}

static int recover_op(Maps *maps, const Series *s, uint64_t id) {
        struct op_key source, target = series_op_key(s, id);
        struct op_value v;

        if (bpf_map_lookup_elem(maps->ops, &target, &v) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (v.folded_from == 0)
                return 0;
        source = series_op_key(s, v.folded_from);

        return finish_op(maps, &source, &target, &v);
}

static int recover_rq(Maps *maps, const Series *s, uint64_t id) {
        struct rq_key source, target = series_rq_key(s, id);
        struct rq_value v;

        if (bpf_map_lookup_elem(maps->rqs, &target, &v) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (v.folded_from == 0)
                return 0;
        source = series_rq_key(s, v.folded_from);

        return finish_rq(maps, &source, &target, &v);
}

int fold_recover(SeriesTable *series, Maps *maps) {
        Series *const *all;
        size_t n;
        int r;

        all = series_table_all(series, &n);
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < all[i]->n_owners; k++) {
                        uint64_t id = all[i]->owners[k];

                        if (!(id & OWNER_FOLDED))
                                continue;
                        r = all[i]->is_request ? recover_rq(maps, all[i], id) : recover_op(maps, all[i], id);
                        if (r < 0)
                                return r;
                }

        return 0;
}
