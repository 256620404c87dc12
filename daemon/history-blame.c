/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history-blame.h"
#include "names.h"

enum {
        SLOTS = 2 * BLAME_OPEN_MAX,
        BLAME_KEPT_APART_MAX = BLAME_KEPT_MAX - BLAME_KEPT_MAX / 4, /* leaves room for the sums of the others */
};

void blame_set_done(BlameSet *set) {
        for (size_t i = 0; i < set->n; i++) {
                history_name_unref(set->entries[i].victim);
                history_name_unref(set->entries[i].culprit);
        }
        free(set->entries);
        free(set->slots);
        *set = (BlameSet){ .n_dropped = set->n_dropped };
}

static int set_allocate(BlameSet *set) {
        if (set->entries)
                return 0;
        set->entries = calloc(BLAME_OPEN_MAX, sizeof(set->entries[0]));
        set->slots = calloc(SLOTS, sizeof(set->slots[0]));
        if (!set->entries || !set->slots) {
                blame_set_done(set);
                return -ENOMEM;
        }

        return 0;
}

static bool same(const BlameEntry *a, const BlameEntry *b) {
        return a->victim == b->victim && a->culprit == b->culprit && a->dev == b->dev && a->phase == b->phase &&
                a->step == b->step && a->weight == b->weight && a->estimated == b->estimated;
}

/* Takes the entry with its references; they are given back if one of that kind is there already. */
static bool set_put(BlameSet *set, const BlameEntry *e, size_t max) {
        const uint64_t key[] = { e->victim->id, e->culprit->id, e->dev, e->phase, (uint8_t) e->step, e->weight,
                                 e->estimated };
        size_t i = hash_bytes(key, sizeof(key)) % SLOTS;

        for (; set->slots[i]; i = (i + 1) % SLOTS) {
                BlameEntry *found = &set->entries[set->slots[i] - 1];

                if (!same(found, e))
                        continue;
                found->ns += e->ns;
                history_name_unref(e->victim);
                history_name_unref(e->culprit);
                return true;
        }
        if (set->n >= max)
                return false;
        set->entries[set->n++] = *e;
        set->slots[i] = set->n;

        return true;
}

static int replace_name(HistoryDict *d, HistoryName **name, const char *text) {
        HistoryName *n;
        int r;

        r = history_dict_name(d, text, &n);
        if (r < 0)
                return r;
        history_name_unref(*name);
        *name = n;

        return 0;
}

/* As set_put(); what does not fit goes to "(others)", of the culprits first. */
static int set_put_folding(BlameSet *set, HistoryDict *d, BlameEntry e, size_t max_apart, size_t max) {
        int r = 0;

        if (set_put(set, &e, max_apart))
                return 0;
        r = replace_name(d, &e.culprit, UNIT_OTHERS);
        if (r >= 0 && set_put(set, &e, max))
                return 0;
        e.dev = 0;
        if (r >= 0)
                r = replace_name(d, &e.victim, UNIT_OTHERS);
        if (r >= 0 && set_put(set, &e, max))
                return 0;
        history_name_unref(e.victim);
        history_name_unref(e.culprit);
        set->n_dropped++;

        return r < 0 ? r : -ENOSPC;
}

static int compare_ns(const void *a, const void *b) {
        const BlameEntry *x = a, *y = b;

        return x->ns > y->ns ? -1 : x->ns < y->ns;
}

/* Fewer entries, of the same sum. */
static int set_reduce(BlameSet *set, HistoryDict *d) {
        BlameSet less = { .n_dropped = set->n_dropped };
        int r;

        if (set->n <= BLAME_KEPT_MAX)
                return 0;
        r = set_allocate(&less);
        if (r < 0)
                return r;
        qsort(set->entries, set->n, sizeof(set->entries[0]), compare_ns);
        for (size_t i = 0; i < set->n; i++)
                (void) set_put_folding(&less, d, set->entries[i], BLAME_KEPT_APART_MAX, BLAME_KEPT_MAX);
        set->n = 0; /* the references have moved */
        blame_set_done(set);
        *set = less;

        return 0;
}

int blame_set_add(BlameSet *set, HistoryDict *d, const char *victim, const char *culprit, const BlameEntry *entry) {
        BlameEntry e = *entry;
        int r;

        if (e.phase > BLAME_PHASE_MAX || e.step > BLAME_STEP_MAX || e.step < -1 || e.weight > BLAME_WEIGHT_MAX)
                return -EINVAL;
        r = set_allocate(set);
        if (r < 0)
                return r;
        if (set->n >= BLAME_OPEN_MAX) { /* so that there is room for a large one that comes late */
                r = set_reduce(set, d);
                if (r < 0)
                        return r;
        }
        r = history_dict_name(d, victim, &e.victim);
        if (r < 0)
                return r;
        r = history_dict_name(d, culprit, &e.culprit);
        if (r < 0) {
                history_name_unref(e.victim);
                return r;
        }

        return set_put_folding(set, d, e, BLAME_OPEN_MAX, BLAME_OPEN_MAX);
}

int blame_set_encode(BlameSet *set, HistoryDict *d, Buffer *b) {
        int r;

        r = set_reduce(set, d);
        if (r < 0)
                return r;
        for (size_t i = 0; i < set->n; i++) {
                const BlameEntry *e = &set->entries[i];

                buffer_put_varint(b, e->victim->id);
                buffer_put_varint(b, e->culprit->id);
                buffer_put_varint(b, e->dev);
                buffer_put_varint(b, e->phase);
                buffer_put_varint(b, (uint64_t) (e->step + 1));
                buffer_put_varint(b, (uint64_t) e->weight << 1 | e->estimated);
                buffer_put_varint(b, e->ns);
        }
        if (b->error < 0)
                return b->error;
        set->n = 0; /* as promised */
        blame_set_done(set);

        return 0;
}

bool blame_next(Cursor *c, HistoryDict *d, BlameEntry *ret) {
        uint64_t weight;

        if (c->p == c->end)
                return false;
        ret->victim = history_dict_name_by_id(d, cursor_varint(c));
        ret->culprit = history_dict_name_by_id(d, cursor_varint(c));
        ret->dev = (uint32_t) cursor_number(c, UINT32_MAX);
        ret->phase = (uint8_t) cursor_number(c, BLAME_PHASE_MAX);
        ret->step = (int8_t) cursor_number(c, BLAME_STEP_MAX + 1) - 1;
        weight = cursor_number(c, BLAME_WEIGHT_MAX << 1 | 1);
        ret->weight = (uint8_t) (weight >> 1);
        ret->estimated = weight & 1;
        ret->ns = cursor_varint(c);

        return c->error == 0 && ret->victim && ret->culprit;
}

int blame_set_add_encoded(BlameSet *set, HistoryDict *d, const uint8_t *data, size_t size) {
        Cursor c = cursor(data, size);
        BlameEntry e;
        int r;

        while (blame_next(&c, d, &e)) {
                r = blame_set_add(set, d, e.victim->text, e.culprit->text, &e);
                if (r < 0 && r != -ENOSPC)
                        return r;
        }

        return 0;
}

void blame_forget(HistoryDict *d, const uint8_t *data, size_t size) {
        Cursor c = cursor(data, size);
        BlameEntry e;

        while (blame_next(&c, d, &e)) {
                history_name_unref(e.victim);
                history_name_unref(e.culprit);
        }
}
