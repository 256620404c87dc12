/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-metrics.h"
#include "bus-names.h"
#include "bus-reply.h"
#include "bus-row.h"
#include "query-metrics.h"

static int append_histogram(sd_bus_message *m, const MetricHistogram *h) {
        size_t n = BUCKETS_SHORT;
        int r;

        while (n > 0 && h->bucket[n - 1] == 0)
                n--;
        r = sd_bus_message_open_container(m, 'r', BUS_METRIC_HISTOGRAM);
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "st", h->phase, h->sum_ns);
        if (r < 0)
                return r;
        r = sd_bus_message_append_array(m, 't', h->bucket, n * sizeof(h->bucket[0]));
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}

static int append_names(sd_bus_message *m, const MetricSeries *s) {
        char device[DEVICE_TEXT_MAX] = "";
        int r;

        if (s->dev != 0)
                (void) device_text(s->dev, device);
        r = bus_append_text(m, s->unit);
        if (r < 0)
                return r;

        return sd_bus_message_append(m, "sss", s->op, device, strempty(s->origin));
}

static int append_series(const MetricSeries *s, void *userdata) {
        sd_bus_message *m = userdata;
        int r;

        r = sd_bus_message_open_container(m, 'r', BUS_METRIC_SERIES);
        if (r < 0)
                return r;
        r = append_names(m, s);
        if (r < 0)
                return r;
        r = sd_bus_message_append(m, "tt", s->errors, s->bytes);
        if (r < 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', "(" BUS_METRIC_HISTOGRAM ")");
        if (r < 0)
                return r;
        for (size_t i = 0; i < s->n_histograms; i++) {
                r = append_histogram(m, &s->histograms[i]);
                if (r < 0)
                        return r;
        }
        r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;

        return sd_bus_message_close_container(m);
}

int bus_method_list_histograms(sd_bus_message *call, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
        BusContext *c = userdata;
        BusPage page;
        int r;

        r = page_read(call, LIST_HISTOGRAMS_MAX, &page);
        if (r < 0)
                return r;
        r = reply_open(call, "(" BUS_METRIC_SERIES ")", &reply);
        if (r < 0)
                return r;
        r = query_metrics(c->manager, page.cursor, page.limit, append_series, reply, &page.next);
        if (r < 0)
                return r;

        return page_send(reply, &page);
}

int bus_property_max_series(sd_bus *bus, const char *path, const char *interface, const char *property,
                            sd_bus_message *reply, void *userdata, sd_bus_error *reterr_error) {
        const BusContext *c = userdata;

        return sd_bus_message_append(reply, "t", query_max_series(c->manager));
}
