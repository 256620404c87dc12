/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "changes.h"
#include "iter.h"
#include "key-table.h"

enum {
        KEYS_MAX = 131072,      /* more than the maps can hold */
        RECORDS_MAX = 2 * KEYS_MAX, /* in one reading, should an iterator not come to its end */
};

/* The numbers of both kinds lie behind the key, one after the other. */
enum {
        OP_VALUES = (sizeof(struct changed_op) - sizeof(struct op_key)) / sizeof(uint64_t),
        RQ_VALUES = (sizeof(struct changed_rq) - sizeof(struct rq_key)) / sizeof(uint64_t),
};
_Static_assert(sizeof(struct op_key) == KEY_TABLE_KEY_SIZE && sizeof(struct rq_key) == KEY_TABLE_KEY_SIZE, "keys");
_Static_assert((int) OP_VALUES <= (int) KEY_TABLE_VALUES_MAX, "numbers of operations");
_Static_assert((int) RQ_VALUES <= (int) KEY_TABLE_VALUES_MAX, "numbers of requests");

struct Changes {
        Maps *maps;
        KeyTable *ops;
        KeyTable *rqs;
        bool started; /* what is seen for the first time was not there before */

        /* Of the last reading. */
        struct changed_op *op_list;
        size_t n_ops;
        size_t n_ops_allocated;
        struct changed_rq *rq_list;
        size_t n_rqs;
        size_t n_rqs_allocated;
        bool complete;
};

int changes_new(Changes **ret, Maps *maps) {
        _cleanup_(changes_freep) Changes *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        c->maps = maps;
        r = key_table_new(&c->ops, OP_VALUES, KEYS_MAX);
        if (r >= 0)
                r = key_table_new(&c->rqs, RQ_VALUES, KEYS_MAX);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);

        return 0;
}

Changes *changes_free(Changes *c) {
        if (!c)
                return NULL;
        key_table_free(c->ops);
        key_table_free(c->rqs);
        changes_drop(c);
        free(c);

        return NULL;
}

/* Puts the differences in place of the numbers, and remembers these. Returns 1 if there are differences. */
static int take_differences(Changes *c, KeyTable *t, const void *key, uint64_t *numbers, size_t n) {
        bool grew = false, anew = false;
        uint64_t *before;
        int r;

        r = key_table_get(t, key, &before);
        if (r < 0)
                return r;
        if (r > 0 && !c->started) {
                memcpy(before, numbers, n * sizeof(before[0]));
                return 0;
        }
        for (size_t i = 0; i < n; i++) /* removed, and made again */
                anew = anew || numbers[i] < before[i];
        for (size_t i = 0; i < n; i++) {
                uint64_t now = numbers[i];

                if (!anew)
                        numbers[i] -= before[i];
                before[i] = now;
                grew = grew || numbers[i] > 0;
        }

        return grew;
}

int changes_note_op(Changes *c, const struct changed_op *now, struct changed_op *ret_difference) {
        uint64_t numbers[OP_VALUES];
        int r;

        if (now->key.owner & OWNER_FOLDED)
                return 0;
        memcpy(numbers, &now->count, sizeof(numbers));
        r = take_differences(c, c->ops, &now->key, numbers, OP_VALUES);
        ret_difference->key = now->key;
        memcpy(&ret_difference->count, numbers, sizeof(numbers));

        return r;
}

int changes_note_rq(Changes *c, const struct changed_rq *now, struct changed_rq *ret_difference) {
        uint64_t numbers[RQ_VALUES];
        int r;

        if (now->key.owner & OWNER_FOLDED)
                return 0;
        memcpy(numbers, &now->count, sizeof(numbers));
        r = take_differences(c, c->rqs, &now->key, numbers, RQ_VALUES);
        ret_difference->key = now->key;
        memcpy(&ret_difference->count, numbers, sizeof(numbers));

        return r;
}

static int on_op(const void *record, void *userdata) {
        struct changed_op now, difference;
        Changes *c = userdata;
        int r;

        memcpy(&now, record, sizeof(now));
        if (now.key.op >= _OP_MAX || now.key.origin >= _ORIGIN_MAX)
                return 0;
        r = changes_note_op(c, &now, &difference);
        if (r <= 0)
                return r;
        r = array_reserve((void **) &c->op_list, &c->n_ops_allocated, c->n_ops, sizeof(c->op_list[0]));
        if (r >= 0)
                c->op_list[c->n_ops++] = difference;

        return r;
}

static int on_rq(const void *record, void *userdata) {
        struct changed_rq now, difference;
        Changes *c = userdata;
        int r;

        memcpy(&now, record, sizeof(now));
        if (now.key.kind >= _RQ_KIND_MAX || now.key.origin >= _ORIGIN_MAX)
                return 0;
        r = changes_note_rq(c, &now, &difference);
        if (r <= 0)
                return r;
        r = array_reserve((void **) &c->rq_list, &c->n_rqs_allocated, c->n_rqs, sizeof(c->rq_list[0]));
        if (r >= 0)
                c->rq_list[c->n_rqs++] = difference;

        return r;
}

int changes_read(Changes *c) {
        int r;

        changes_drop(c);
        r = iter_read(c->maps, "changed_ops", sizeof(struct changed_op), RECORDS_MAX, on_op, c);
        if (r == 0)
                r = iter_read(c->maps, "changed_rqs", sizeof(struct changed_rq), RECORDS_MAX, on_rq, c);
        if (r != 0)
                return r > 0 ? -E2BIG : r;
        c->started = c->complete = true;

        return 0;
}

int changes_start(Changes *c) {
        int r;

        r = changes_read(c);
        changes_drop(c);

        return r;
}

const struct changed_op *changes_ops(const Changes *c, size_t *ret_n) {
        *ret_n = c->n_ops;

        return c->op_list;
}

const struct changed_rq *changes_rqs(const Changes *c, size_t *ret_n) {
        *ret_n = c->n_rqs;

        return c->rq_list;
}

bool changes_complete(const Changes *c) {
        return c->complete;
}

void changes_drop(Changes *c) {
        free(c->op_list);
        free(c->rq_list);
        c->op_list = NULL;
        c->rq_list = NULL;
        c->n_ops = c->n_ops_allocated = c->n_rqs = c->n_rqs_allocated = 0;
        c->complete = false;
}

static int note_present(const void *key, void *userdata) {
        uint64_t *unused;
        int r;

        r = key_table_get(userdata, key, &unused);

        return r == -ENOSPC ? r : MIN(r, 0);
}

static bool is_present(const void *key, uint64_t *values, void *userdata) {
        return key_table_find(userdata, key) != NULL;
}

static int forget_gone(KeyTable *t, int map_fd) {
        _cleanup_(key_table_freep) KeyTable *present = NULL;
        int r;

        r = key_table_new(&present, 1, KEYS_MAX);
        if (r >= 0)
                r = maps_foreach_key(map_fd, note_present, present);
        if (r >= 0)
                key_table_filter(t, is_present, present);

        return r;
}

int changes_forget_gone(Changes *c) {
        int r;

        r = forget_gone(c->ops, c->maps->ops);

        return r < 0 ? r : forget_gone(c->rqs, c->maps->rqs);
}
