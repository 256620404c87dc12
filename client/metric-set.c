/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <search.h>

#include "metric-set.h"
#include "names.h"
#include "text.h"

const MetricDef metric_defs[_METRIC_FAMILY_MAX] = {
        [METRIC_OPERATION_SECONDS] = {
                "iolat_operation_seconds", "histogram", "seconds",
                "Time that operations took (phase=\"total\"), and that they spent in each phase.",
                { "unit", "op", "phase", "device" }, 1,
        },
        [METRIC_REQUEST_SECONDS] = {
                "iolat_request_seconds", "histogram", "seconds",
                "Time of requests in the queue and in the device.",
                { "unit", "kind", "part", "device" }, 1,
        },
        [METRIC_OPERATION_ERRORS] = {
                "iolat_operation_errors", "counter", NULL,
                "Operations that failed.",
                { "unit", "op", "device" }, 1,
        },
        [METRIC_REQUEST_BYTES] = {
                "iolat_request_bytes", "counter", "bytes",
                "Bytes that requests read, wrote or discarded.",
                { "unit", "kind", "device" }, 1,
        },
        [METRIC_BLAMED_SECONDS] = {
                "iolat_blamed_seconds", "counter", "seconds",
                "Time that the victim waited because of the culprit; estimated in all phases but journal.",
                { "victim", "culprit", "phase" }, 2,
        },
        [METRIC_LOST] = {
                "iolat_lost", "counter", NULL,
                "Events that could not be counted.",
                { "reason" }, 0,
        },
        [METRIC_FOLDED_UNITS] = {
                "iolat_folded_units", "gauge", NULL,
                "Units whose numbers are added up under \"(others)\", because of MaxSeries=.",
                {}, 0,
        },
        [METRIC_BUILD_INFO] = {
                "iolat_build", "info", NULL,
                "Version of iolatd, and the tier that it measures with.",
                { "version", "tier" }, 0,
        },
};

typedef struct Text {
        char *s;
        uint32_t id;
} Text;

struct MetricSet {
        char *(*escape)(const char *s);
        void *tree; /* of Text, by the string */
        Text **texts;
        size_t n_texts, texts_allocated;
        MetricPoint *points;
        size_t n_points, points_allocated;
};

unsigned metric_n_labels(MetricFamily family) {
        unsigned n = 0;

        while (n < METRIC_LABELS_MAX && metric_defs[family].labels[n])
                n++;

        return n;
}

char *metric_text_clean(const char *s) {
        static const char digits[] = "0123456789abcdef";
        char *clean, *t;

        clean = t = malloc(strlen(s) * STRLEN("\\xNN") + 1);
        if (!clean)
                return NULL;
        for (; *s; s++) {
                unsigned char c = (unsigned char) *s;

                if ((c >= 0x20 && c != 0x7f) || c == '\n')
                        *t++ = *s;
                else {
                        *t++ = '\\';
                        *t++ = 'x';
                        *t++ = digits[c >> 4];
                        *t++ = digits[c & 15];
                }
        }
        *t = 0;

        return clean;
}

static int compare_texts(const void *a, const void *b) {
        return strcmp(((const Text *) a)->s, ((const Text *) b)->s);
}

static void no_free(void *p) {
}

static Text *text_free(Text *t) {
        if (!t)
                return NULL;
        free(t->s);
        free(t);

        return NULL;
}
DEFINE_CLEANUP_FUNC(Text, text_free)

static void points_clear(MetricPoint *points, size_t n) {
        for (size_t i = 0; i < n; i++)
                free(points[i].buckets);
}

MetricSet *metric_set_new(char *(*escape)(const char *s)) {
        MetricSet *s;

        s = calloc(1, sizeof(MetricSet));
        if (s)
                s->escape = escape;

        return s;
}

MetricSet *metric_set_free(MetricSet *s) {
        if (!s)
                return NULL;
        tdestroy(s->tree, no_free);
        for (size_t i = 0; i < s->n_texts; i++)
                text_free(s->texts[i]);
        free(s->texts);
        points_clear(s->points, s->n_points);
        free(s->points);
        free(s);

        return NULL;
}

static int reserve(void **array, size_t *allocated, size_t n, size_t size) {
        size_t m = MAX(*allocated * 2, (size_t) 64);
        void *p;

        if (n < *allocated)
                return 0;
        p = reallocarray(*array, m, size);
        if (!p)
                return -ENOMEM;
        *array = p;
        *allocated = m;

        return 0;
}

/* The number of a string that is harmless already. Takes it over in any case. */
static int intern(MetricSet *s, char *string, uint32_t *ret) {
        _cleanup_(text_freep) Text *t = NULL;
        Text key = { .s = string }, **found;

        found = tfind(&key, &s->tree, compare_texts);
        if (found) {
                free(string);
                *ret = (*found)->id;
                return 0;
        }
        t = calloc(1, sizeof(Text));
        if (!t) {
                free(string);
                return -ENOMEM;
        }
        t->s = string;
        t->id = (uint32_t) s->n_texts;
        if (reserve((void **) &s->texts, &s->texts_allocated, s->n_texts, sizeof(s->texts[0])) < 0 ||
            !tsearch(t, &s->tree, compare_texts))
                return -ENOMEM;
        *ret = t->id;
        s->texts[s->n_texts++] = TAKE_PTR(t);

        return 0;
}

static int intern_label(MetricSet *s, const char *label, uint32_t *ret) {
        char *string;

        if (strlen(label) > METRIC_TEXT_MAX)
                return -EBADMSG;
        string = s->escape(label);
        if (!string)
                return -ENOMEM;

        return intern(s, string, ret);
}

int metric_set_add(MetricSet *s, MetricFamily family, const char *const *labels, uint64_t value,
                   const uint64_t *buckets, size_t n_buckets) {
        MetricPoint p = { .family = family, .value = value };
        int r;

        if (n_buckets > METRIC_BUCKETS)
                return -EBADMSG;
        if (s->n_points >= METRIC_POINTS_MAX)
                return -E2BIG;
        for (unsigned i = 0; i < metric_n_labels(family); i++) {
                r = intern_label(s, strempty(labels[i]), &p.labels[i]);
                if (r < 0)
                        return r;
        }
        r = reserve((void **) &s->points, &s->points_allocated, s->n_points, sizeof(s->points[0]));
        if (r < 0)
                return r;
        if (buckets) {
                p.buckets = calloc(METRIC_BUCKETS, sizeof(p.buckets[0]));
                if (!p.buckets)
                        return -ENOMEM;
                memcpy(p.buckets, buckets, n_buckets * sizeof(p.buckets[0]));
        }
        s->points[s->n_points++] = p;

        return 0;
}

const MetricPoint *metric_set_points(const MetricSet *s, size_t *ret_n) {
        *ret_n = s->n_points;

        return s->points;
}

const char *metric_set_text(const MetricSet *s, uint32_t label) {
        return s->texts[label]->s;
}

static uint64_t cost(MetricFamily family) {
        return streq(metric_defs[family].type, "histogram") ? METRIC_HISTOGRAM_COST : 1;
}

uint64_t metric_set_count(const MetricSet *s) {
        uint64_t n = 0;

        for (size_t i = 0; i < s->n_points; i++)
                n += cost(s->points[i].family);

        return n;
}

static int compare_points(const void *a, const void *b, void *userdata) {
        const MetricPoint *x = a, *y = b;
        const MetricSet *s = userdata;

        if (x->family != y->family)
                return x->family < y->family ? -1 : 1;
        for (unsigned i = 0; i < metric_n_labels(x->family); i++) {
                int r;

                if (x->labels[i] == y->labels[i])
                        continue;
                r = strcmp(metric_set_text(s, x->labels[i]), metric_set_text(s, y->labels[i]));
                if (r != 0)
                        return r;
        }

        return 0;
}

static uint64_t saturating_add(uint64_t a, uint64_t b) {
        return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void metric_set_merge(MetricSet *s) {
        size_t n = 0;

        if (s->n_points == 0)
                return;
        qsort_r(s->points, s->n_points, sizeof(s->points[0]), compare_points, s);
        for (size_t i = 1; i < s->n_points; i++) {
                MetricPoint *p = &s->points[i], *to = &s->points[n];

                if (compare_points(to, p, s) != 0) {
                        s->points[++n] = *p;
                        continue;
                }
                to->value = saturating_add(to->value, p->value);
                for (size_t k = 0; p->buckets && to->buckets && k < METRIC_BUCKETS; k++)
                        to->buckets[k] = saturating_add(to->buckets[k], p->buckets[k]);
                free(p->buckets);
        }
        s->n_points = n + 1;
}

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

                        u->weight_ns = saturating_add(u->weight_ns, p->value);
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
                        fold_range(f, 0, f->n, cost(p->family));
                        break;
                case 1:
                        a = f->rank[p->labels[0]];
                        fold_range(f, a + 1, f->n, cost(p->family));
                        all[n++] = folded(p, 1, 0, a);
                        break;
                default:
                        a = f->rank[p->labels[0]];
                        b = f->rank[p->labels[1]];
                        fold_range(f, MAX(a, b) + 1, f->n, cost(p->family));
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
                fold_range(f, all[i].first, last, cost(all[i].key[0]));
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
        r = intern(s, name, &others);
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
