/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>

#include "bus-names.h"
#include "query-summary.h"
#include "varlink-methods.h"
#include "varlink-row.h"

/* systemd-report takes 4096 metrics of all sources together and drops the rest. */
enum {
        METRICS_MAX = 2000,
        FAMILIES_OF_ROW = 6, /* at most */
        ROWS_MAX = METRICS_MAX / FAMILIES_OF_ROW - 1,
        ROWS_PER_SLICE = 8,
};

typedef struct Family {
        const char *name;
        bool is_counter;
        const char *description;
        size_t offset; /* of the number in a SummaryRow */
        bool of_times; /* not there if nothing was timed */
} Family;

#define NUMBER(member) offsetof(SummaryRow, member)
#define MAY_FALL "and may fall when one gets its own"
#define SINCE \
        " since counting began. Fields: op. Object: the unit; \"(others)\" is all that have no place here, " MAY_FALL
#define SINCE_REQUESTS                                                                                           \
        " since counting began. Fields: op, device. Object: the unit; \"(others)\" is all that have no place here, " \
        "then on all devices, " MAY_FALL

static const Family operation_families[] = {
        { VARLINK_METRICS_PREFIX "Operations", true, "Storage operations (fsync, direct I/O, slow writes ...)" SINCE,
          NUMBER(count), false },
        { VARLINK_METRICS_PREFIX "OperationErrors", true, "Storage operations that failed" SINCE,
          NUMBER(errors), false },
        { VARLINK_METRICS_PREFIX "OperationTimeNSec", true, "Time spent in storage operations in nanoseconds" SINCE,
          NUMBER(sum_ns), true },
        { VARLINK_METRICS_PREFIX "OperationP50NSec", false, "Median time of a storage operation in nanoseconds" SINCE,
          NUMBER(p50_ns), true },
        { VARLINK_METRICS_PREFIX "OperationP99NSec", false,
          "99th percentile of the times of storage operations in nanoseconds" SINCE, NUMBER(p99_ns), true },
        { VARLINK_METRICS_PREFIX "OperationMaxNSec", false, "Longest time of a storage operation in nanoseconds" SINCE,
          NUMBER(max_ns), true },
};

static const Family request_families[] = {
        { VARLINK_METRICS_PREFIX "Requests", true, "Requests to block devices" SINCE_REQUESTS, NUMBER(count), false },
        { VARLINK_METRICS_PREFIX "RequestErrors", true, "Requests to block devices that failed" SINCE_REQUESTS,
          NUMBER(errors), false },
        { VARLINK_METRICS_PREFIX "RequestBytes", true, "Bytes of requests to block devices" SINCE_REQUESTS,
          NUMBER(bytes), false },
        { VARLINK_METRICS_PREFIX "RequestDeviceP50NSec", false,
          "Median of the time that the device took for a request in nanoseconds" SINCE_REQUESTS, NUMBER(p50_ns), true },
        { VARLINK_METRICS_PREFIX "RequestDeviceP99NSec", false,
          "99th percentile of the times that the device took for a request in nanoseconds" SINCE_REQUESTS,
          NUMBER(p99_ns), true },
        { VARLINK_METRICS_PREFIX "RequestDeviceMaxNSec", false,
          "Longest time that the device took for a request in nanoseconds" SINCE_REQUESTS, NUMBER(max_ns), true },
};

static const Family general_families[] = {
        { VARLINK_METRICS_PREFIX "Lost", true, "Events that the measurement has lost", 0, false },
        { VARLINK_METRICS_PREFIX "Degraded", false,
          "1 if something was lost, or a probe is not there that should be, else 0", 0, false },
        { VARLINK_METRICS_PREFIX "UnitsInOthers", false, "Units that have no metrics of their own here, but are in "
                                                         "\"(others)\", because there are too many", 0, false },
};

static_assert(ELEMENTSOF(operation_families) <= FAMILIES_OF_ROW, "more metrics than there is place for");
static_assert(ELEMENTSOF(request_families) <= FAMILIES_OF_ROW, "more metrics than there is place for");
static_assert(ELEMENTSOF(general_families) <= FAMILIES_OF_ROW, "more metrics than there is place for");
static_assert((int) ROWS_MAX > (int) SUMMARY_ROWS_OF_OTHERS, "no place for others");

typedef struct Metrics {
        Summary summary;
        size_t next; /* row */
} Metrics;

static void metrics_free(void *p) {
        Metrics *x = p;

        summary_done(&x->summary);
        free(x);
}

static int add_metric(VarlinkStream *s, const Family *f, sd_json_variant *object, sd_json_variant *fields,
                      uint64_t value) {
        _cleanup_(sd_json_variant_unrefp) sd_json_variant *v = NULL;
        int r;

        r = sd_json_buildo(&v,
                           SD_JSON_BUILD_PAIR_STRING("name", f->name),
                           SD_JSON_BUILD_PAIR_CONDITION(!!object, "object", SD_JSON_BUILD_VARIANT(object)),
                           SD_JSON_BUILD_PAIR_CONDITION(!!fields, "fields", SD_JSON_BUILD_VARIANT(fields)),
                           SD_JSON_BUILD_PAIR_UNSIGNED("value", value));

        return r < 0 ? r : varlink_stream_add(s, v);
}

static int add_general(VarlinkStream *s, const Summary *summary) {
        const uint64_t values[] = {
                query_lost(s->manager),
                query_degraded(s->manager),
                summary->n_folded,
        };
        int r = 0;

        static_assert(ELEMENTSOF(values) == ELEMENTSOF(general_families), "a value each");
        for (size_t i = 0; i < ELEMENTSOF(values) && r >= 0; i++)
                r = add_metric(s, &general_families[i], NULL, NULL, values[i]);

        return r;
}

static int add_row(VarlinkStream *s, const SummaryRow *row) {
        _cleanup_(sd_json_variant_unrefp) sd_json_variant *object = NULL, *fields = NULL;
        const Family *families = row->is_request ? request_families : operation_families;
        size_t n = row->is_request ? ELEMENTSOF(request_families) : ELEMENTSOF(operation_families);
        char device[DEVICE_TEXT_MAX];
        int r;

        (void) device_text(row->dev, device);
        r = varlink_text(row->unit, &object);
        if (r >= 0)
                r = sd_json_buildo(&fields,
                                   SD_JSON_BUILD_PAIR_STRING("op", row->op),
                                   SD_JSON_BUILD_PAIR_CONDITION(row->dev != 0, "device", SD_JSON_BUILD_STRING(device)));
        for (size_t i = 0; i < n && r >= 0; i++) {
                uint64_t value;

                if (families[i].of_times && row->timed == 0)
                        continue;
                memcpy(&value, (const char *) row + families[i].offset, sizeof(value));
                r = add_metric(s, &families[i], object, fields, value);
        }

        return r;
}

static int fill_metrics(VarlinkStream *s) {
        Metrics *x = s->state;
        size_t end = MIN(x->summary.n, x->next + ROWS_PER_SLICE);
        int r = 0;

        if (x->next == 0)
                r = add_general(s, &x->summary);
        for (; x->next < end && r >= 0; x->next++)
                r = add_row(s, &x->summary.rows[x->next]);
        if (r < 0)
                return r;

        return x->next < x->summary.n;
}

int varlink_method_metrics_list(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                                void *userdata) {
        VarlinkClient *c = userdata;
        Metrics *x;
        int r;

        r = sd_varlink_dispatch(link, parameters, (const sd_json_dispatch_field[]){ {} }, NULL);
        if (r != 0)
                return r;
        x = calloc(1, sizeof(*x));
        if (!x)
                return -ENOMEM;
        r = query_summary(c->manager, ROWS_MAX, &x->summary);
        if (r < 0) {
                free(x);
                return r;
        }

        return varlink_stream_new(c, link, parameters, fill_metrics, metrics_free, x);
}

static int describe(VarlinkStream *s, const Family *families, size_t n) {
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++) {
                _cleanup_(sd_json_variant_unrefp) sd_json_variant *v = NULL;

                r = sd_json_buildo(&v,
                                   SD_JSON_BUILD_PAIR_STRING("name", families[i].name),
                                   SD_JSON_BUILD_PAIR_STRING("description", families[i].description),
                                   SD_JSON_BUILD_PAIR_STRING("type", families[i].is_counter ? "counter" : "gauge"));
                if (r >= 0)
                        r = varlink_stream_add(s, v);
        }

        return r;
}

static int fill_description(VarlinkStream *s) {
        int r;

        r = describe(s, general_families, ELEMENTSOF(general_families));
        if (r >= 0)
                r = describe(s, operation_families, ELEMENTSOF(operation_families));
        if (r >= 0)
                r = describe(s, request_families, ELEMENTSOF(request_families));

        return r < 0 ? r : 0;
}

int varlink_method_metrics_describe(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                                    void *userdata) {
        VarlinkClient *c = userdata;
        int r;

        r = sd_varlink_dispatch(link, parameters, (const sd_json_dispatch_field[]){ {} }, NULL);
        if (r != 0)
                return r;

        return varlink_stream_new(c, link, parameters, fill_description, free, NULL);
}
