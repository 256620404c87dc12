/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names.h"
#include "span.h"

/* Appends what of the time stamps lies within the operation. */
static size_t add(const struct stall *s, const char *name, uint64_t from, uint64_t to, Span *ret, size_t n,
                  size_t max) {
        uint64_t start = s->end_ns > s->total_ns ? s->end_ns - s->total_ns : 0;

        if (from == 0 || to == 0 || !name || n >= max)
                return n;
        from = MIN(MAX(from, start) - start, (uint64_t) s->total_ns);
        to = MIN(MAX(to, start) - start, (uint64_t) s->total_ns);
        if (to <= from)
                return n;
        ret[n] = (Span){ name, from, to };

        return n + 1;
}

size_t spans_of_phases(const struct stall *s, Span ret[static INTERVALS_MAX]) {
        size_t n = 0;

        for (size_t i = 0; i < MIN(s->n_intervals, (unsigned) INTERVALS_MAX); i++) {
                const struct interval *v = &s->interval[i];

                if (v->phase < _PHASE_MAX)
                        n = add(s, phase_to_string((int) v->phase), v->start_ns, v->end_ns, ret, n, INTERVALS_MAX);
        }

        return n;
}

size_t spans_of_journal(const struct stall *s, Span ret[static JOURNAL_SPANS_MAX]) {
        const struct tx *tx = &s->tx;
        uint64_t previous = s->step_ns[STEP_PREVIOUS];
        const struct {
                int step;
                uint64_t from, to;
        } edges[] = {
                { STEP_PREVIOUS, tx->start_ns > previous ? tx->start_ns - previous : 0, tx->start_ns },
                { STEP_LOCKED, tx->start_ns, tx->flushing_ns },
                { STEP_FLUSHING, tx->flushing_ns, tx->logging_ns },
                { STEP_LOG, tx->logging_ns, tx->record_ns ?: tx->end_ns },
                /* Inside the one before: the wait for ordered data, where that is seen. */
                { STEP_FLUSHING, tx->data_wait_ns, tx->data_wait_end_ns },
                { STEP_RECORD, tx->record_ns, tx->end_ns },
        };
        size_t n = 0;

        _Static_assert(ELEMENTSOF(edges) == JOURNAL_SPANS_MAX, "spans of the journal");
        if (tx->tid == 0)
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(edges); i++)
                n = add(s, journal_step_to_string(edges[i].step), edges[i].from, edges[i].to, ret, n,
                        JOURNAL_SPANS_MAX);

        return n;
}
