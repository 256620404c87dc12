/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history.h"

static size_t stall_bytes(const HistoryStall *s) {
        return strlen(s->unit) + 1 + s->size + 2 * ALLOCATION_OVERHEAD;
}

void history_drop_oldest_stall(History *h) {
        h->stalls_bytes -= stall_bytes(&h->stalls[0]);
        free(h->stalls[0].unit);
        free(h->stalls[0].record);
        memmove(&h->stalls[0], &h->stalls[1], --h->n_stalls * sizeof(h->stalls[0]));
}

static bool is_same_stall(const HistoryStall *a, const HistoryStall *b) {
        return a->id == b->id && MAX(a->start_us, b->start_us) - MIN(a->start_us, b->start_us) < USEC_PER_SEC;
}

/* Makes room for one, and tells where. */
static int stall_place(History *h, uint64_t start_us, size_t *ret) {
        size_t i;

        if (h->n_stalls == HISTORY_STALLS_MAX)
                history_drop_oldest_stall(h);
        if (h->n_stalls == h->n_stalls_allocated) {
                size_t m = MAX(h->n_stalls_allocated * 2, (size_t) 8);
                void *p = reallocarray(h->stalls, m, sizeof(h->stalls[0]));

                if (!p)
                        return -ENOMEM;
                h->stalls = p;
                h->n_stalls_allocated = m;
        }
        for (i = h->n_stalls; i > 0 && h->stalls[i - 1].start_us > start_us; i--)
                h->stalls[i] = h->stalls[i - 1];
        h->n_stalls++;
        *ret = i;

        return 0;
}

int history_add_stall(History *h, uint64_t id, uint64_t start_us, const char *unit, const void *record,
                      size_t size) {
        HistoryStall s = { .id = id, .start_us = start_us, .size = (uint32_t) size };
        size_t i;
        int r = 0;

        if (size == 0 || size > HISTORY_STALL_RECORD_MAX || strlen(unit) >= HISTORY_NAME_MAX)
                return -EINVAL;
        s.unit = strdup(unit);
        s.record = malloc(size);
        if (!s.unit || !s.record) {
                free(s.unit);
                free(s.record);
                return -ENOMEM;
        }
        memcpy(s.record, record, size);

        for (i = h->n_stalls; i > 0 && !is_same_stall(&h->stalls[i - 1], &s); i--)
                ;
        if (i > 0) {
                HistoryStall *old = &h->stalls[--i];

                h->stalls_bytes -= stall_bytes(old);
                free(old->unit);
                free(old->record);
        } else
                r = stall_place(h, start_us, &i);
        if (r < 0) {
                free(s.unit);
                free(s.record);
                return r;
        }
        s.seq = ++h->seq;
        h->stalls[i] = s;
        h->stalls_bytes += stall_bytes(&s);

        return 0;
}

int history_foreach_stall(History *h, uint64_t since_us, uint64_t until_us, history_stall_callback callback,
                          void *userdata) {
        int r;

        for (size_t i = 0; i < h->n_stalls; i++) {
                if (h->stalls[i].start_us < since_us || h->stalls[i].start_us > until_us)
                        continue;
                r = callback(&h->stalls[i], userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}
