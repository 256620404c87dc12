/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "fold.h"
#include "histogram.h"
#include "names.h"

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

/* The elements of the three maps, which are moved in the same way. */
typedef union FoldKey {
        struct op_key op;
        struct rq_key rq;
        struct age_key age;
} FoldKey;

typedef union FoldValue {
        unsigned long long folded_from;
        struct op_value op;
        struct rq_value rq;
        struct age_value age;
} FoldValue;
_Static_assert(offsetof(struct op_value, folded_from) == 0 && offsetof(struct rq_value, folded_from) == 0 &&
               offsetof(struct age_value, folded_from) == 0, "the first in all of them");

static int fold_map(const Maps *maps, const Series *s) {
        return s->is_age ? maps->ages : s->is_request ? maps->rqs : maps->ops;
}

static FoldKey fold_key(const Series *s, uint64_t owner) {
        if (s->is_age)
                return (FoldKey){ .age = series_age_key(s, owner) };
        if (s->is_request)
                return (FoldKey){ .rq = series_rq_key(s, owner) };

        return (FoldKey){ .op = series_op_key(s, owner) };
}

static void fold_add(const Series *s, FoldValue *sum, const FoldValue *v) {
        if (s->is_age)
                age_value_add(&sum->age, &v->age);
        else if (s->is_request)
                rq_value_add(&sum->rq, &v->rq);
        else
                op_value_add(&sum->op, &v->op);
}

/* The second half of a move: removes the source, then the target may forget where it took from (an id can come back,
 * as a unit does that starts again after it was "(exited)"). */
static int finish(int map, const FoldKey *source, const FoldKey *target, FoldValue *sum) {
        if (bpf_map_delete_elem(map, source) < 0 && errno != ENOENT)
                return -errno;
        sum->folded_from = 0;

        return bpf_map_update_elem(map, target, sum, BPF_EXIST) < 0 ? -errno : 0;
}

static int fold_series(Fold *f, const Series *s, uint64_t from, uint64_t to) {
        FoldKey source = fold_key(s, from), target = fold_key(s, to);
        int map = fold_map(f->maps, s);
        FoldValue v, sum;

        if (bpf_map_lookup_elem(map, &source, &v) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (bpf_map_lookup_elem(map, &target, &sum) < 0) {
                if (errno != ENOENT)
                        return -errno;
                memset(&sum, 0, sizeof(sum));
        }
        if (sum.folded_from != from) { /* else an attempt before this one failed in the middle */
                sum.folded_from = from;
                fold_add(s, &sum, &v);
                if (bpf_map_update_elem(map, &target, &sum, BPF_ANY) < 0)
                        return -errno;
        }

        return finish(map, &source, &target, &sum);
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
                        r = fold_series(f, all[i], from, to);
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

static int recover_series(Maps *maps, const Series *s, uint64_t id) {
        FoldKey source, target = fold_key(s, id);
        int map = fold_map(maps, s);
        FoldValue v;

        if (bpf_map_lookup_elem(map, &target, &v) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (v.folded_from == 0)
                return 0;
        source = fold_key(s, v.folded_from);

        return finish(map, &source, &target, &v);
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
                        r = recover_series(maps, all[i], id);
                        if (r < 0)
                                return r;
                }

        return 0;
}
