/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "manager.h"
#include "query-rows.h"

enum {
        BATCH = 32,       /* series that are added up together */
        BATCHES_MAX = 32, /* in one call, so that others do not have to wait; there may be no row in all of that */
};

/* As the live series of the same kind. The number takes the place of the serial: in cursors. */
static Series range_series(const HistorySeries *s) {
        return (Series){
                .serial = s->id,
                .unit = s->unit->text,
                .user_unit = s->user_unit ? s->user_unit->text : NULL,
                .is_request = s->is_request,
                .op = s->op,
                .origin = s->origin,
                .async = s->async,
                .dev = s->dev,
        };
}

/* The next series that match, from *position on. */
static size_t take_batch(const History *h, const RowFilter *filter, size_t *position, HistorySum sums[static BATCH]) {
        size_t n = 0;

        for (; *position < h->dict.n_series && n < BATCH; (*position)++) {
                const HistorySeries *s = h->dict.series[*position];
                Series like = range_series(s);

                if (s->refs == 0 || !row_filter_matches(filter, &like))
                        continue;
                memset(&sums[n], 0, sizeof(sums[n]));
                sums[n++].series = s;
        }

        return n;
}

static int sink_sum(Manager *m, RowSink *k, const HistorySum *sum) {
        Series s = range_series(sum->series);

        return s.is_request ? row_sink_rq(m, k, &s, &sum->rq) : row_sink_op(m, k, &s, &sum->op);
}

int query_range(Manager *m, const RowFilter *filter, uint64_t since_us, uint64_t until_us, uint64_t cursor,
                uint32_t limit, row_callback callback, void *userdata, RangeResult *ret) {
        _cleanup_free_ HistorySum *sums = NULL;
        RowSink k = {
                .filter = filter,
                .cursor = cursor,
                .left = limit,
                .callback = callback,
                .userdata = userdata,
        };
        History *h = m->history;
        size_t position, n = 0;
        int r;

        *ret = (RangeResult){};
        history_covered(h, since_us, until_us, &ret->first_us, &ret->last_us);
        k.span_ns = (ret->last_us - ret->first_us) * NSEC_PER_USEC;
        /* Mount points may have changed; the rest is in memory. */
        r = device_table_refresh(m->devices);
        if (r < 0)
                return r;
        sums = malloc(BATCH * sizeof(sums[0]));
        if (!sums)
                return -ENOMEM;

        position = history_dict_series_position(&h->dict, cursor >> CURSOR_SHIFT);
        for (int batch = 0; batch < BATCHES_MAX && !k.more; batch++) {
                n = take_batch(h, filter, &position, sums);
                if (n == 0)
                        return 0;
                r = history_sum(h, since_us, until_us, sums, n);
                for (size_t i = 0; i < n && !k.more && r >= 0; i++)
                        r = sink_sum(m, &k, &sums[i]);
                if (r < 0)
                        return r;
        }
        /* Either the page is full, or it was enough for one call: on behind the last series. */
        ret->next = k.more ? k.last : sums[n - 1].series->id << CURSOR_SHIFT | CURSOR_ROW_MAX;

        return 0;
}

uint64_t query_history_since(Manager *m) {
        return history_since(m->history);
}
