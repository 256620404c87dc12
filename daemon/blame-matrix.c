/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <search.h>

#include "blame-matrix.h"
#include "key-table.h"
#include "names.h"

enum {
        VALUE_NS,
        VALUE_TAKEN_NS, /* of that, what earlier windows had */
        _VALUE_MAX,
};

typedef struct Name {
        char *text;
        uint32_t id;
        bool used;
} Name;

typedef struct BlameKey {
        uint32_t victim;
        uint32_t culprit;
        uint32_t dev;
        uint8_t phase;
        uint8_t step;
        uint8_t weight;
        uint8_t estimated;
} BlameKey;
_Static_assert(sizeof(BlameKey) == KEY_TABLE_KEY_SIZE, "key of the matrix");

struct Blame {
        KeyTable *rows;
        size_t rows_max;
        void *tree;   /* of Name by text (tsearch) */
        Name **names; /* by id; NULL: free */
        size_t n_names;
        blame_callback listener;
        void *listener_userdata;
};

static int compare_name(const void *a, const void *b) {
        return strcmp(((const Name *) a)->text, ((const Name *) b)->text);
}

static void no_free(void *p) {
}

static void name_free(Name *n) {
        if (!n)
                return;
        free(n->text);
        free(n);
}

int blame_new(Blame **ret, size_t rows_max) {
        _cleanup_(blame_freep) Blame *b = calloc(1, sizeof(*b));
        int r;

        if (!b)
                return -ENOMEM;
        b->rows_max = rows_max;
        r = key_table_new(&b->rows, _VALUE_MAX, rows_max);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(b);

        return 0;
}

Blame *blame_free(Blame *b) {
        if (!b)
                return NULL;
        tdestroy(b->tree, no_free);
        for (size_t i = 0; i < b->n_names; i++)
                name_free(b->names[i]);
        free(b->names);
        key_table_free(b->rows);
        free(b);

        return NULL;
}

static int free_name_slot(Blame *b, size_t *ret) {
        size_t n = MAX(b->n_names * 2, (size_t) 16);
        Name **names;

        for (size_t i = 0; i < b->n_names; i++)
                if (!b->names[i]) {
                        *ret = i;
                        return 0;
                }
        names = reallocarray(b->names, n, sizeof(names[0]));
        if (!names)
                return -ENOMEM;
        memset(names + b->n_names, 0, (n - b->n_names) * sizeof(names[0]));
        *ret = b->n_names;
        b->names = names;
        b->n_names = n;

        return 0;
}

static int intern(Blame *b, const char *text, uint32_t *ret) {
        Name key = { .text = (char *) text }, *n, **found = tfind(&key, &b->tree, compare_name);
        size_t i;
        int r;

        if (found) {
                *ret = (*found)->id;
                return 0;
        }
        r = free_name_slot(b, &i);
        if (r < 0)
                return r;
        n = calloc(1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        n->id = (uint32_t) i;
        n->text = strdup(text);
        if (!n->text || !tsearch(n, &b->tree, compare_name)) {
                name_free(n);
                return -ENOMEM;
        }
        b->names[i] = n;
        *ret = n->id;

        return 0;
}

/* Names that no row has any more. */
static void drop_names(Blame *b) {
        for (size_t i = 0; i < key_table_size(b->rows); i++) {
                const BlameKey *k = key_table_at(b->rows, i, NULL);

                b->names[k->victim]->used = b->names[k->culprit]->used = true;
        }
        for (size_t i = 0; i < b->n_names; i++) {
                Name *n = b->names[i];

                if (!n)
                        continue;
                if (!n->used) {
                        tdelete(n, &b->tree, compare_name);
                        name_free(n);
                        b->names[i] = NULL;
                } else
                        n->used = false;
        }
}

/* How much of a row is given up so that there are fewer. */
enum fold { FOLD_CULPRIT, FOLD_VICTIM, FOLD_DEVICE, _FOLD_MAX };

static BlameKey fold_key(const BlameKey *k, enum fold how, uint32_t others) {
        BlameKey f = *k;

        f.culprit = others;
        if (how >= FOLD_VICTIM)
                f.victim = others;
        if (how >= FOLD_DEVICE)
                f.dev = 0;

        return f;
}

static int compare_u64(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return x < y ? -1 : x > y;
}

/* No row that is larger is given up: half of the rows at least are not. */
static int fold_limit(const KeyTable *rows, uint64_t *ret) {
        size_t n = key_table_size(rows);
        _cleanup_free_ uint64_t *all = calloc(n, sizeof(all[0]));
        uint64_t *values;

        if (!all)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                (void) key_table_at(rows, i, &values);
                all[i] = values[VALUE_NS];
        }
        qsort(all, n, sizeof(all[0]), compare_u64);
        *ret = all[n / 2];

        return 0;
}

static int copy_row(KeyTable *to, const BlameKey *key, const uint64_t *values) {
        uint64_t *sum;
        int r;

        r = key_table_get(to, key, &sum);
        if (r < 0)
                return r;
        for (size_t i = 0; i < _VALUE_MAX; i++)
                sum[i] += values[i];

        return 0;
}

static int fold_rows(Blame *b, enum fold how, uint32_t others) {
        _cleanup_(key_table_freep) KeyTable *rows = NULL;
        KeyTable *old = b->rows;
        uint64_t limit;
        size_t n = key_table_size(old), left = n / 2;
        int r;

        r = fold_limit(old, &limit);
        if (r >= 0)
                r = key_table_new(&rows, _VALUE_MAX, b->rows_max);
        for (size_t i = 0; i < n && r >= 0; i++) {
                uint64_t *values;
                const BlameKey *k = key_table_at(old, i, &values);
                bool small = values[VALUE_NS] < limit || (values[VALUE_NS] == limit && left > 0);
                BlameKey folded = fold_key(k, how, others);

                if (small && left > 0)
                        left--;
                r = copy_row(rows, small ? &folded : k, values);
        }
        if (r < 0)
                return r;
        b->rows = TAKE_PTR(rows);
        key_table_free(old);

        return 0;
}

static int make_room(Blame *b) {
        uint32_t others;
        int r;

        r = intern(b, UNIT_OTHERS, &others);
        if (r < 0)
                return r;
        for (enum fold how = 0; how < _FOLD_MAX && key_table_size(b->rows) > b->rows_max / 4 * 3; how++) {
                r = fold_rows(b, how, others);
                if (r < 0)
                        return r;
        }

        return 0;
}

int blame_add(Blame *b, const BlameRow *row) {
        BlameKey key = {
                .dev = row->dev,
                .phase = row->phase,
                .step = row->step,
                .weight = row->weight,
                .estimated = row->estimated,
        };
        uint64_t *values;
        int r;

        if (row->phase > BLAME_QUEUE || (row->step >= _STEP_MAX && row->step != BLAME_NO_STEP) ||
            row->weight >= _BLAME_BY_MAX)
                return -EINVAL;
        if (row->ns == 0)
                return 0;
        r = intern(b, row->victim, &key.victim);
        if (r >= 0)
                r = intern(b, row->culprit, &key.culprit);
        if (r >= 0)
                r = key_table_get(b->rows, &key, &values);
        if (r == -ENOSPC) {
                r = make_room(b);
                if (r >= 0)
                        r = key_table_get(b->rows, &key, &values);
                if (r >= 0)
                        drop_names(b);
        }
        if (r < 0)
                return r;
        values[VALUE_NS] += row->ns;

        return b->listener ? b->listener(row, b->listener_userdata) : 0;
}

void blame_set_listener(Blame *b, blame_callback callback, void *userdata) {
        b->listener = callback;
        b->listener_userdata = userdata;
}

static BlameRow row_of_key(const Blame *b, const BlameKey *k, uint64_t ns) {
        return (BlameRow){
                .victim = b->names[k->victim]->text,
                .culprit = b->names[k->culprit]->text,
                .dev = k->dev,
                .phase = k->phase,
                .step = k->step,
                .weight = k->weight,
                .estimated = k->estimated,
                .ns = ns,
        };
}

int blame_foreach(Blame *b, blame_callback callback, void *userdata) {
        for (size_t i = 0; i < key_table_size(b->rows); i++) {
                uint64_t *values;
                const BlameKey *k = key_table_at(b->rows, i, &values);
                BlameRow row = row_of_key(b, k, values[VALUE_NS]);
                int r;

                r = callback(&row, userdata);
                if (r != 0)
                        return r;
        }

        return 0;
}

int blame_take_window(Blame *b, blame_callback callback, void *userdata) {
        for (size_t i = 0; i < key_table_size(b->rows); i++) {
                uint64_t *values;
                const BlameKey *k = key_table_at(b->rows, i, &values);
                BlameRow row = row_of_key(b, k, values[VALUE_NS] - values[VALUE_TAKEN_NS]);
                int r;

                if (row.ns == 0)
                        continue;
                values[VALUE_TAKEN_NS] = values[VALUE_NS];
                r = callback(&row, userdata);
                if (r != 0)
                        return r;
        }

        return 0;
}

size_t blame_size(const Blame *b) {
        return key_table_size(b->rows);
}

const char *blame_weight_to_string(int weight) {
        static const char *const table[_BLAME_BY_MAX] = {
                [BLAME_BY_REQUESTED_BLOCKS] = "requested-blocks",
                [BLAME_BY_HANDLES] = "handles",
                [BLAME_BY_LATE_HANDLE] = "late-handle",
                [BLAME_BY_ORDERED_WAIT] = "ordered-wait",
                [BLAME_BY_TRANSACTIONS] = "transactions",
                [BLAME_BY_BUSY_TIME] = "busy-time",
                [BLAME_BY_WRITTEN_BYTES] = "written-bytes",
                [BLAME_BY_LOCK_HOLDER] = "lock-holder",
                [BLAME_BY_FAST_COMMIT] = "fast-commit",
        };

        return weight >= 0 && weight < _BLAME_BY_MAX ? table[weight] : NULL;
}

const char *blame_phase_to_string(int phase) {
        return phase == BLAME_QUEUE ? rq_part_to_string(RQ_PART_QUEUE) : phase_to_string(phase);
}
