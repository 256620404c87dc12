/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "metric-fold.h"
#include "metric-set-internal.h"
#include "names.h"
#include "text.h"

void metric_memory_clear(MetricMemory *m) {
        strv_free(m->shown);
        strv_free(m->folded);
        *m = (MetricMemory){};
}

/* In the order in which units are shown rather than folded. */
typedef enum UnitClass {
        CLASS_OWNER,  /* no unit: "(kernel)" ... */
        CLASS_SHOWN,  /* was shown before */
        CLASS_NEW,
        CLASS_FOLDED, /* was folded before */
} UnitClass;

typedef struct Unit {
        uint32_t text;
        UnitClass class;
        uint64_t weight_ns; /* of the time that was measured */
        const char *name;
} Unit;

enum { NO_RANK = UINT32_MAX };

typedef struct Fold {
        MetricSet *set;
        Unit *units; /* by rank */
        size_t n;
        uint32_t *rank; /* of a text that is a unit, else NO_RANK */
        int64_t *steps; /* how the number of time series grows from k - 1 shown units to k */
} Fold;

static void fold_clear(Fold *f) {
        free(f->units);
        free(f->rank);
        free(f->steps);
}

static int compare_strings(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static bool has_name(char **sorted, size_t n, const char *name) {
        return n > 0 && bsearch(&name, sorted, n, sizeof(char *), compare_strings);
}

static UnitClass unit_class(const char *name, const MetricMemory *memory) {
        if (name[0] == '(' || isempty(name))
                return CLASS_OWNER;
        if (memory && has_name(memory->folded, memory->n_folded, name))
                return CLASS_FOLDED;
        if (memory && has_name(memory->shown, memory->n_shown, name))
                return CLASS_SHOWN;

        return CLASS_NEW;
}

/* What makes a unit large: each operation and each request once. */
static bool is_weight(const MetricSet *s, const MetricPoint *p) {
        return (p->family == METRIC_OPERATION_SECONDS && streq(metric_set_text(s, p->labels[2]), "total")) ||
                (p->family == METRIC_REQUEST_SECONDS && streq(metric_set_text(s, p->labels[2]), "device"));
}

static int compare_units(const void *a, const void *b) {
        const Unit *x = a, *y = b;

        if (x->class != y->class)
                return x->class < y->class ? -1 : 1;
        if (x->weight_ns != y->weight_ns)
                return x->weight_ns > y->weight_ns ? -1 : 1;

        return strcmp(x->name, y->name);
}

static int fold_rank(Fold *f, const MetricMemory *memory) {
        MetricSet *s = f->set;

        f->rank = calloc(s->n_texts + 1, sizeof(f->rank[0]));
        f->units = calloc(s->n_texts + 1, sizeof(f->units[0]));
        if (!f->rank || !f->units)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_texts; i++)
                f->rank[i] = NO_RANK;

        for (size_t i = 0; i < s->n_points; i++) {
                const MetricPoint *p = &s->points[i];

                for (unsigned k = 0; k < metric_defs[p->family].n_units; k++) {
                        uint32_t t = p->labels[k];

                        if (f->rank[t] == NO_RANK) {
                                f->rank[t] = (uint32_t) f->n;
                                f->units[f->n++] = (Unit){
                                        .text = t,
                                        .name = metric_set_text(s, t),
                                        .class = unit_class(metric_set_text(s, t), memory),
                                };
                        }
                }
                if (is_weight(s, p)) {
                        Unit *u = &f->units[f->rank[p->labels[0]]];

                        u->weight_ns = metric_add(u->weight_ns, p->value);
                }
        }
        qsort(f->units, f->n, sizeof(f->units[0]), compare_units);
        for (size_t i = 0; i < f->n; i++)
                f->rank[f->units[i].text] = (uint32_t) i;

        return 0;
}

/* Time series are there if from first to last units are shown, both inclusive. */
static void fold_range(Fold *f, size_t first, size_t last, uint64_t n) {
        if (first > last)
                return;
        f->steps[first] += (int64_t) n;
        f->steps[last + 1] -= (int64_t) n;
}

/* A point as it is when some of its units are folded. Those that have the same key are one, which is there as long
 * as one of them is. */
typedef struct Folded {
        uint32_t key[2 + METRIC_LABELS_MAX];
        size_t first, last;
} Folded;

static int compare_folded(const void *a, const void *b) {
        return memcmp(((const Folded *) a)->key, ((const Folded *) b)->key, sizeof(((const Folded *) a)->key));
}

static Folded folded(const MetricPoint *p, uint32_t which, size_t first, size_t last) {
        Folded x = { .key = { p->family, which }, .first = first, .last = last };

        for (unsigned i = 0; i < METRIC_LABELS_MAX; i++)
                x.key[2 + i] = i < metric_defs[p->family].n_units && which & 1U << i ? 0 : p->labels[i];

        return x;
}

/* Each point is shown as it is if all its units are, that is from the rank of the smallest one on, and else under
 * the names of those that are. */
static int fold_count(Fold *f) {
        _cleanup_free_ Folded *all = NULL;
        MetricSet *s = f->set;
        size_t n = 0;

        f->steps = calloc(f->n + 2, sizeof(f->steps[0]));
        all = calloc(s->n_points * 2 + 1, sizeof(all[0]));
        if (!f->steps || !all)
                return -ENOMEM;

        for (size_t i = 0; i < s->n_points; i++) {
                const MetricPoint *p = &s->points[i];
                size_t a, b;

                switch (metric_defs[p->family].n_units) {
                case 0:
                        fold_range(f, 0, f->n, metric_cost(p->family));
                        break;
                case 1:
                        a = f->rank[p->labels[0]];
                        fold_range(f, a + 1, f->n, metric_cost(p->family));
                        all[n++] = folded(p, 1, 0, a);
                        break;
                default:
                        a = f->rank[p->labels[0]];
                        b = f->rank[p->labels[1]];
                        fold_range(f, MAX(a, b) + 1, f->n, metric_cost(p->family));
                        all[n++] = folded(p, 3, 0, MIN(a, b));
                        if (a != b)
                                all[n++] = folded(p, a < b ? 2 : 1, MIN(a, b) + 1, MAX(a, b));
                        break;
                }
        }

        qsort(all, n, sizeof(all[0]), compare_folded);
        for (size_t i = 0, end; i < n; i = end) {
                size_t last = all[i].last;

                for (end = i + 1; end < n && compare_folded(&all[i], &all[end]) == 0; end++)
                        last = MAX(last, all[end].last);
                fold_range(f, all[i].first, last, metric_cost(all[i].key[0]));
        }

        return 0;
}

/* How many units can be shown, at least k of them, below a limit. */
static size_t fold_most(const Fold *f, size_t k, size_t end, uint64_t max_series) {
        int64_t n = 0;
        size_t best = k;

        for (size_t i = 0; i <= end; i++) {
                n += f->steps[i];
                if (i > best && (uint64_t) n <= max_series)
                        best = i;
        }

        return best;
}

static size_t fold_choose(const Fold *f, uint64_t max_series) {
        size_t class_end[CLASS_FOLDED + 1] = {}, k;

        for (size_t i = 0; i < f->n; i++)
                for (UnitClass c = f->units[i].class; c <= CLASS_FOLDED; c++)
                        class_end[c] = i + 1;

        k = fold_most(f, class_end[CLASS_OWNER], class_end[CLASS_NEW], max_series);
        if (k == class_end[CLASS_NEW] || k <= class_end[CLASS_SHOWN])
                return k;

        /* Not all: leave room for those that are shown to grow, so that they need not be folded soon. */
        return fold_most(f, class_end[CLASS_SHOWN], k, max_series - max_series / 8);
}

/* The names of units of these ranks, sorted. */
static int unit_names(const Fold *f, size_t from, size_t to, char ***ret) {
        _cleanup_(strv_freep) char **names = NULL;
        size_t n = 0;

        names = calloc(to - from + 1, sizeof(names[0]));
        if (!names)
                return -ENOMEM;
        for (size_t i = from; i < to; i++) {
                names[n] = strdup(f->units[i].name);
                if (!names[n++])
                        return -ENOMEM;
        }
        qsort(names, n, sizeof(names[0]), compare_strings);
        *ret = TAKE_PTR(names);

        return 0;
}

static int fold_remember(const Fold *f, size_t k, MetricMemory *memory) {
        _cleanup_(metric_memory_clear) MetricMemory m = { .n_shown = k, .n_folded = f->n - k };
        int r;

        r = unit_names(f, 0, k, &m.shown);
        if (r >= 0)
                r = unit_names(f, k, f->n, &m.folded);
        if (r < 0)
                return r;
        metric_memory_clear(memory);
        *memory = m;
        m = (MetricMemory){};

        return 0;
}

static int fold_apply(Fold *f, size_t k) {
        MetricSet *s = f->set;
        size_t n_texts = s->n_texts;
        uint32_t others;
        char *name;
        int r;

        if (k >= f->n)
                return 0;
        name = strdup(UNIT_OTHERS);
        if (!name)
                return -ENOMEM;
        r = metric_set_intern(s, name, &others);
        if (r < 0)
                return r;
        for (size_t i = 0; i < s->n_points; i++) {
                MetricPoint *p = &s->points[i];

                for (unsigned l = 0; l < metric_defs[p->family].n_units; l++)
                        if (p->labels[l] < n_texts && f->rank[p->labels[l]] != NO_RANK &&
                            f->rank[p->labels[l]] >= k)
                                p->labels[l] = others;
        }
        metric_set_merge(s);

        return 0;
}

int metric_set_fold(MetricSet *s, uint64_t max_series, MetricMemory *memory) {
        _cleanup_(fold_clear) Fold f = { .set = s };
        size_t k;
        int r;

        metric_set_merge(s);
        r = fold_rank(&f, memory);
        if (r >= 0)
                r = fold_count(&f);
        if (r < 0)
                return r;
        k = fold_choose(&f, max_series > 0 ? max_series - 1 : 0); /* one is for the point added below */
        if (memory) {
                r = fold_remember(&f, k, memory);
                if (r < 0)
                        return r;
        }
        r = fold_apply(&f, k);
        if (r < 0)
                return r;
        r = metric_set_add(s, METRIC_FOLDED_UNITS, NULL, f.n - k, NULL, 0);
        if (r < 0)
                return r;
        metric_set_merge(s);

        return 0;
}
