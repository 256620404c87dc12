/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <search.h>

#include "histogram.h"
#include "series.h"

struct SeriesTable {
        Maps *maps;
        OwnerTable *owners;
        void *tree; /* by what the series is of (tsearch) */
        Series **array; /* by serial */
        size_t n;
        size_t n_allocated;
        uint64_t last_serial;
};

static int compare_series(const void *a, const void *b) {
        const Series *x = a, *y = b;
        int r;

        r = strcmp(x->unit, y->unit);
        if (r == 0)
                r = strcmp(strempty(x->user_unit), strempty(y->user_unit));
        if (r == 0)
                r = (int) x->is_request - (int) y->is_request;
        if (r == 0)
                r = (int) x->is_age - (int) y->is_age;
        if (r == 0)
                r = (int) x->op - (int) y->op;
        if (r == 0)
                r = (int) x->origin - (int) y->origin;
        if (r == 0)
                r = (int) x->async - (int) y->async;
        if (r == 0 && x->dev != y->dev)
                r = x->dev < y->dev ? -1 : 1;

        return r;
}

static Series *series_free(Series *s) {
        if (!s)
                return NULL;
        free(s->unit);
        free(s->user_unit);
        free(s->owners);
        free(s);

        return NULL;
}
DEFINE_CLEANUP_FUNC(Series, series_free)

static void no_free(void *p) {
}

int series_table_new(SeriesTable **ret, Maps *maps, OwnerTable *owners) {
        SeriesTable *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        t->maps = maps;
        t->owners = owners;
        *ret = t;

        return 0;
}

SeriesTable *series_table_free(SeriesTable *t) {
        if (!t)
                return NULL;
        tdestroy(t->tree, no_free);
        for (size_t i = 0; i < t->n; i++)
                series_free(t->array[i]);
        free(t->array);
        free(t);

        return NULL;
}

static int series_add(SeriesTable *t, const Series *key, Series **ret) {
        _cleanup_(series_freep) Series *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        *s = *key;
        s->owners = NULL;
        s->unit = strdup(key->unit);
        s->user_unit = key->user_unit ? strdup(key->user_unit) : NULL;
        if (!s->unit || (key->user_unit && !s->user_unit))
                return -ENOMEM;
        r = array_reserve((void **) &t->array, &t->n_allocated, t->n, sizeof(t->array[0]));
        if (r < 0)
                return r;
        if (!tsearch(s, &t->tree, compare_series))
                return -ENOMEM;
        s->serial = ++t->last_serial;
        t->array[t->n++] = s;
        *ret = TAKE_PTR(s);

        return 0;
}

static int series_note(SeriesTable *t, uint64_t owner, Series *key) {
        const Owner *o;
        Series *s, **found;
        int r;

        r = owner_table_get(t->owners, owner, &o);
        if (r < 0)
                return r;
        key->unit = o->unit;
        key->user_unit = o->user_unit;
        found = tfind(key, &t->tree, compare_series);
        if (found)
                s = *found;
        else {
                r = series_add(t, key, &s);
                if (r < 0)
                        return r;
        }

        s->present = true;
        /* A walk may see a key twice. Runs of a unit are few, and their ids come in no order. */
        for (size_t i = 0; i < s->n_owners; i++)
                if (s->owners[i] == owner)
                        return 0;
        r = array_reserve((void **) &s->owners, &s->n_allocated, s->n_owners, sizeof(s->owners[0]));
        if (r < 0)
                return r;
        s->owners[s->n_owners++] = owner;

        return 0;
}

static int note_op(const void *p, void *userdata) {
        const struct op_key *k = p;
        Series key = { .op = k->op, .origin = k->origin, .async = k->async, .dev = k->dev };

        if (k->op >= _OP_MAX || k->origin >= _ORIGIN_MAX)
                return 0;

        return series_note(userdata, k->owner, &key);
}

static int note_rq(const void *p, void *userdata) {
        const struct rq_key *k = p;
        Series key = { .is_request = true, .op = k->kind, .origin = k->origin, .dev = k->dev };

        if (k->kind >= _RQ_KIND_MAX || k->origin >= _ORIGIN_MAX)
                return 0;

        return series_note(userdata, k->owner, &key);
}

static int note_age(const void *p, void *userdata) {
        const struct age_key *k = p;
        Series key = { .is_age = true, .origin = ORIGIN_SELF, .dev = k->dev };

        return series_note(userdata, k->owner, &key);
}

static void drop_absent(SeriesTable *t) {
        size_t n = 0;

        for (size_t i = 0; i < t->n; i++) {
                Series *s = t->array[i];

                if (s->present)
                        t->array[n++] = s;
                else {
                        tdelete(s, &t->tree, compare_series);
                        series_free(s);
                }
        }
        t->n = n;
}

int series_table_refresh(SeriesTable *t) {
        int r;

        r = owner_table_refresh(t->owners);
        if (r < 0)
                return r;
        for (size_t i = 0; i < t->n; i++) {
                t->array[i]->present = false;
                t->array[i]->n_owners = 0;
        }
        r = maps_foreach_key(t->maps->ops, note_op, t);
        if (r >= 0)
                r = maps_foreach_key(t->maps->rqs, note_rq, t);
        if (r >= 0)
                r = maps_foreach_key(t->maps->ages, note_age, t);
        if (r < 0)
                return r;
        drop_absent(t);

        return 0;
}

Series *const *series_table_all(SeriesTable *t, size_t *ret_n) {
        *ret_n = t->n;

        return t->array;
}

size_t series_table_find(SeriesTable *t, uint64_t serial) {
        size_t low = 0, high = t->n;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (t->array[mid]->serial < serial)
                        low = mid + 1;
                else
                        high = mid;
        }

        return low;
}

struct op_key series_op_key(const Series *s, uint64_t owner) {
        return (struct op_key){ .owner = owner, .dev = s->dev, .op = s->op, .async = s->async, .origin = s->origin };
}

struct rq_key series_rq_key(const Series *s, uint64_t owner) {
        return (struct rq_key){ .owner = owner, .dev = s->dev, .kind = s->op, .origin = s->origin };
}

struct age_key series_age_key(const Series *s, uint64_t owner) {
        return (struct age_key){ .owner = owner, .dev = s->dev };
}

bool series_owner_is_current(SeriesTable *t, uint64_t id) {
        const Owner *o;

        return owner_table_get(t->owners, id, &o) >= 0 && !(o->id & OWNER_FOLDED) && o->died_ns == 0;
}

int series_read_op(SeriesTable *t, const Series *s, bool current, struct op_value *ret) {
        memset(ret, 0, sizeof(*ret));
        for (size_t i = 0; i < s->n_owners; i++) {
                struct op_key key = series_op_key(s, s->owners[i]);
                struct op_value v;

                if (current && !series_owner_is_current(t, s->owners[i]))
                        continue;
                if (bpf_map_lookup_elem(t->maps->ops, &key, &v) < 0) {
                        if (errno == ENOENT)
                                continue;
                        return -errno;
                }
                op_value_add(ret, &v);
        }

        return 0;
}

int series_read_rq(SeriesTable *t, const Series *s, bool current, struct rq_value *ret) {
        memset(ret, 0, sizeof(*ret));
        for (size_t i = 0; i < s->n_owners; i++) {
                struct rq_key key = series_rq_key(s, s->owners[i]);
                struct rq_value v;

                if (current && !series_owner_is_current(t, s->owners[i]))
                        continue;
                if (bpf_map_lookup_elem(t->maps->rqs, &key, &v) < 0) {
                        if (errno == ENOENT)
                                continue;
                        return -errno;
                }
                rq_value_add(ret, &v);
        }

        return 0;
}

int series_read_age(SeriesTable *t, const Series *s, bool current, struct age_value *ret) {
        memset(ret, 0, sizeof(*ret));
        for (size_t i = 0; i < s->n_owners; i++) {
                struct age_key key = series_age_key(s, s->owners[i]);
                struct age_value v;

                if (current && !series_owner_is_current(t, s->owners[i]))
                        continue;
                if (bpf_map_lookup_elem(t->maps->ages, &key, &v) < 0) {
                        if (errno == ENOENT)
                                continue;
                        return -errno;
                }
                age_value_add(ret, &v);
        }

        return 0;
}
