/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-list.h"
#include "bus-manager.h"
#include "varlink-idl.h"
#include "varlink-methods.h"
#include "varlink-params.h"
#include "varlink-row.h"

enum { BLAMED_MAX = 1000 }; /* rows in one reply */

#define NO_PARAMETERS ((const sd_json_dispatch_field[]){ {} })

/* An array that a query fills. */
typedef struct Array {
        sd_json_variant **items;
        size_t n;
        size_t n_allocated;
} Array;

static void array_done(Array *a) {
        for (size_t i = 0; i < a->n; i++)
                sd_json_variant_unref(a->items[i]);
        free(a->items);
}

/* Takes over the item, also if it fails. */
static int array_add(Array *a, sd_json_variant *item) {
        if (a->n >= a->n_allocated) {
                size_t n = MAX(a->n_allocated * 2, (size_t) 64);
                sd_json_variant **items = reallocarray(a->items, n, sizeof(items[0]));

                if (!items) {
                        sd_json_variant_unref(item);
                        return -ENOMEM;
                }
                a->items = items;
                a->n_allocated = n;
        }
        a->items[a->n++] = item;

        return 0;
}

static int array_reply(const Array *a, sd_varlink *link, const char *key) {
        return sd_varlink_replybo(link, SD_JSON_BUILD_PAIR_VARIANT_ARRAY(key, a->items, a->n));
}

static int no_such_unit_error(sd_varlink *link, const char *unit) {
        _cleanup_(sd_json_variant_unrefp) sd_json_variant *v = NULL;
        int r;

        r = varlink_text(unit, &v);
        if (r < 0)
                return r;

        return sd_varlink_errorbo(link, VARLINK_ERROR_NO_SUCH_UNIT, SD_JSON_BUILD_PAIR_VARIANT("unit", v));
}

static int method_get_status(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                             void *userdata) {
        VarlinkClient *c = userdata;
        uint64_t history = query_history_since(c->manager);
        int r;

        r = sd_varlink_dispatch(link, parameters, NO_PARAMETERS, NULL);
        if (r != 0)
                return r;

        return sd_varlink_replybo(
                        link,
                        SD_JSON_BUILD_PAIR_STRING("version", IOLAT_VERSION),
                        SD_JSON_BUILD_PAIR_STRING("tier", strempty(query_tier(c->manager))),
                        SD_JSON_BUILD_PAIR_BOOLEAN("degraded", query_degraded(c->manager)),
                        SD_JSON_BUILD_PAIR_UNSIGNED("lost", query_lost(c->manager)),
                        SD_JSON_BUILD_PAIR_UNSIGNED("sinceRealtimeUSec", query_since_realtime_us(c->manager)),
                        SD_JSON_BUILD_PAIR_CONDITION(history > 0, "historySinceRealtimeUSec",
                                                     SD_JSON_BUILD_UNSIGNED(history)));
}

static int add_unit(const char *unit, void *userdata) {
        sd_json_variant *v;
        int r;

        r = varlink_text(unit, &v);

        return r < 0 ? r : array_add(userdata, v);
}

static int method_list_units(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                             void *userdata) {
        _cleanup_(array_done) Array units = {};
        VarlinkClient *c = userdata;
        int r;

        r = sd_varlink_dispatch(link, parameters, NO_PARAMETERS, NULL);
        if (r != 0)
                return r;
        r = query_units(c->manager, add_unit, &units);
        if (r < 0)
                return r;

        return array_reply(&units, link, "units");
}

static int add_probe(const ProbeRow *probe, void *userdata) {
        sd_json_variant *v;
        int r;

        r = varlink_probe(probe, &v);

        return r < 0 ? r : array_add(userdata, v);
}

static int method_list_probes(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                              void *userdata) {
        _cleanup_(array_done) Array probes = {};
        VarlinkClient *c = userdata;
        int r;

        r = sd_varlink_dispatch(link, parameters, NO_PARAMETERS, NULL);
        if (r != 0)
                return r;
        r = query_probes(c->manager, add_probe, &probes);
        if (r < 0)
                return r;

        return array_reply(&probes, link, "probes");
}

typedef struct HistogramParameters {
        const char *unit;
        const char *op;
        const char *phase;
        const char *device;
} HistogramParameters;

static int add_bucket(uint64_t upper_ns, uint64_t count, void *userdata) {
        sd_json_variant *v;
        int r;

        r = sd_json_buildo(&v,
                           SD_JSON_BUILD_PAIR_CONDITION(upper_ns != UINT64_MAX, "upperNSec",
                                                        SD_JSON_BUILD_UNSIGNED(upper_ns)),
                           SD_JSON_BUILD_PAIR_UNSIGNED("count", count));

        return r < 0 ? r : array_add(userdata, v);
}

static int method_get_histogram(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                                void *userdata) {
        static const sd_json_dispatch_field table[] = {
                { "unit", SD_JSON_VARIANT_STRING, sd_json_dispatch_const_string, offsetof(HistogramParameters, unit),
                  SD_JSON_MANDATORY },
                { "op", SD_JSON_VARIANT_STRING, sd_json_dispatch_const_string, offsetof(HistogramParameters, op),
                  SD_JSON_MANDATORY },
                { "phase", SD_JSON_VARIANT_STRING, sd_json_dispatch_const_string,
                  offsetof(HistogramParameters, phase), SD_JSON_NULLABLE },
                { "device", SD_JSON_VARIANT_STRING, sd_json_dispatch_const_string,
                  offsetof(HistogramParameters, device), SD_JSON_NULLABLE },
                {},
        };
        _cleanup_(array_done) Array buckets = {};
        HistogramParameters p = {};
        VarlinkClient *c = userdata;
        UnitSummary summary;
        int r;

        r = sd_varlink_dispatch(link, parameters, table, &p);
        if (r != 0)
                return r;
        if (!p.phase)
                p.phase = "total";
        if (!bus_is_op(p.op))
                return sd_varlink_error_invalid_parameter_name(link, "op");
        if (!bus_is_phase(p.phase))
                return sd_varlink_error_invalid_parameter_name(link, "phase");
        r = query_unit(c->manager, p.unit, &summary);
        if (r == -ENOENT)
                return no_such_unit_error(link, p.unit);
        if (r < 0)
                return r;
        r = query_histogram(c->manager, p.unit, p.op, p.phase, strempty(p.device), add_bucket, &buckets);
        if (r == -EINVAL) /* no device, or a phase that this operation does not have */
                return sd_varlink_error_invalid_parameter_name(link, isempty(p.device) ? "phase" : "device");
        if (r < 0 && r != -ENOENT) /* the unit is known, but did none of these: an empty histogram */
                return r;

        return array_reply(&buckets, link, "buckets");
}

typedef struct BlameParameters {
        const char *unit;
        uint64_t since_us;
        uint64_t until_us;
        uint64_t limit;
} BlameParameters;

static int add_blamed(const BlamedRow *row, void *userdata) {
        sd_json_variant *v;
        int r;

        r = varlink_blamed(row, &v);

        return r < 0 ? r : array_add(userdata, v);
}

static int method_get_blame(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                            void *userdata) {
        static const sd_json_dispatch_field table[] = {
                { "unit", SD_JSON_VARIANT_STRING, sd_json_dispatch_const_string, offsetof(BlameParameters, unit),
                  SD_JSON_NULLABLE },
                { "sinceRealtimeUSec", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_number,
                  offsetof(BlameParameters, since_us), SD_JSON_NULLABLE },
                { "untilRealtimeUSec", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_number,
                  offsetof(BlameParameters, until_us), SD_JSON_NULLABLE },
                { "limit", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_number,
                  offsetof(BlameParameters, limit), SD_JSON_NULLABLE },
                {},
        };
        BlameParameters p = { .until_us = UINT64_MAX };
        _cleanup_(array_done) Array rows = {};
        VarlinkClient *c = userdata;
        UnitSummary summary;
        int r;

        r = sd_varlink_dispatch(link, parameters, table, &p);
        if (r != 0)
                return r;
        if (p.since_us > p.until_us)
                return sd_varlink_error_invalid_parameter_name(link, "untilRealtimeUSec");
        if (!isempty(p.unit)) {
                r = query_unit(c->manager, p.unit, &summary);
                if (r == -ENOENT)
                        return no_such_unit_error(link, p.unit);
                if (r < 0)
                        return r;
        }
        if (p.limit == 0 || p.limit > BLAMED_MAX)
                p.limit = BLAMED_MAX;
        r = query_blame(c->manager, strempty(p.unit), p.since_us, p.until_us, (uint32_t) p.limit, add_blamed, &rows);
        if (r < 0)
                return r;

        return array_reply(&rows, link, "rows");
}

/* What is listed and how far that has come. Strings are those of the call's parameters. */
typedef struct Listing {
        const char *units[LIST_FILTER_MAX + 1];
        const char *ops[LIST_FILTER_MAX + 1];
        const char *phases[LIST_FILTER_MAX + 1];
        RowFilter filter;
        bool is_range;
        uint64_t since_us;
        uint64_t until_us;
        uint64_t cursor;
        uint64_t left;
        RangeResult range;   /* of this slice */
        RangeResult covered; /* as it was at the beginning: the history goes on meanwhile */
} Listing;

static int add_row(const Row *row, void *userdata) {
        _cleanup_(sd_json_variant_unrefp) sd_json_variant *v = NULL, *reply = NULL;
        VarlinkStream *s = userdata;
        Listing *l = s->state;
        int r;

        if (l->covered.last_us == 0)
                l->covered = l->range;
        r = varlink_row(row, &v);
        if (r >= 0)
                r = sd_json_buildo(&reply,
                                   SD_JSON_BUILD_PAIR_VARIANT("row", v),
                                   SD_JSON_BUILD_PAIR_CONDITION(l->is_range, "firstRealtimeUSec",
                                                                SD_JSON_BUILD_UNSIGNED(l->covered.first_us)),
                                   SD_JSON_BUILD_PAIR_CONDITION(l->is_range, "lastRealtimeUSec",
                                                                SD_JSON_BUILD_UNSIGNED(l->covered.last_us)));
        if (r < 0)
                return r;
        l->left--;

        return varlink_stream_add(s, reply);
}

static int fill_list(VarlinkStream *s) {
        Listing *l = s->state;
        uint32_t limit = (uint32_t) MIN(l->left, (uint64_t) VARLINK_SLICE);
        int r;

        if (l->is_range) {
                r = query_range(s->manager, &l->filter, l->since_us, l->until_us, l->cursor, limit, add_row, s,
                                &l->range);
                if (r >= 0)
                        l->cursor = l->range.next;
        } else
                r = query_rows(s->manager, &l->filter, l->cursor, limit, add_row, s, &l->cursor);
        if (r < 0)
                return r;

        return l->cursor != 0 && l->left > 0;
}

typedef struct ListParameters {
        sd_json_variant *patterns;
        sd_json_variant *ops;
        sd_json_variant *phases;
        uint64_t since_us;
        uint64_t until_us;
        uint64_t limit;
} ListParameters;

/* Reads an array of strings into ret, which is NULL-terminated by being one longer than the limit. */
static bool read_filter(sd_json_variant *array, bool (*valid)(const char *),
                        const char *ret[static LIST_FILTER_MAX + 1]) {
        size_t n;

        if (!array || sd_json_variant_is_null(array))
                return true;
        n = sd_json_variant_elements(array);
        if (n > LIST_FILTER_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                const char *s = sd_json_variant_string(sd_json_variant_by_index(array, i));

                if (!s || strlen(s) > LIST_PATTERN_MAX || (valid && !valid(s)))
                        return false;
                ret[i] = s;
        }

        return true;
}

/* Returns the name of a parameter that is not right, or NULL. */
static const char *listing_init(Listing *l, const ListParameters *p) {
        if (!read_filter(p->patterns, NULL, l->units))
                return "patterns";
        if (!read_filter(p->ops, bus_is_op, l->ops))
                return "ops";
        if (!read_filter(p->phases, bus_is_phase, l->phases))
                return "phases";
        if (p->since_us > p->until_us)
                return "untilRealtimeUSec";
        l->filter = (RowFilter){ (char **) l->units, (char **) l->ops, (char **) l->phases };
        l->is_range = p->since_us > 0 || p->until_us < UINT64_MAX;
        l->since_us = p->since_us;
        l->until_us = p->until_us;
        l->left = p->limit ?: UINT64_MAX;

        return NULL;
}

static int method_list(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                       void *userdata) {
        static const sd_json_dispatch_field table[] = {
                { "patterns", SD_JSON_VARIANT_ARRAY, sd_json_dispatch_variant_noref,
                  offsetof(ListParameters, patterns), SD_JSON_NULLABLE },
                { "ops", SD_JSON_VARIANT_ARRAY, sd_json_dispatch_variant_noref, offsetof(ListParameters, ops),
                  SD_JSON_NULLABLE },
                { "phases", SD_JSON_VARIANT_ARRAY, sd_json_dispatch_variant_noref, offsetof(ListParameters, phases),
                  SD_JSON_NULLABLE },
                { "sinceRealtimeUSec", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_number,
                  offsetof(ListParameters, since_us), SD_JSON_NULLABLE },
                { "untilRealtimeUSec", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_number,
                  offsetof(ListParameters, until_us), SD_JSON_NULLABLE },
                { "limit", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_number,
                  offsetof(ListParameters, limit), SD_JSON_NULLABLE },
                {},
        };
        ListParameters p = { .until_us = UINT64_MAX };
        VarlinkClient *c = userdata;
        const char *bad;
        Listing *l;
        int r;

        r = sd_varlink_dispatch(link, parameters, table, &p);
        if (r != 0)
                return r;
        l = calloc(1, sizeof(*l));
        if (!l)
                return -ENOMEM;
        bad = listing_init(l, &p);
        if (bad) {
                free(l);
                return sd_varlink_error_invalid_parameter_name(link, bad);
        }

        return varlink_stream_new(c, link, parameters, fill_list, free, l);
}

int varlink_bind_methods(sd_varlink_server *server) {
        return sd_varlink_server_bind_method_many(
                        server,
                        VARLINK_INTERFACE ".GetStatus",     method_get_status,
                        VARLINK_INTERFACE ".ListUnits",     method_list_units,
                        VARLINK_INTERFACE ".List",          method_list,
                        VARLINK_INTERFACE ".GetHistogram",  method_get_histogram,
                        VARLINK_INTERFACE ".ListStalls",    varlink_method_list_stalls,
                        VARLINK_INTERFACE ".GetBlame",      method_get_blame,
                        VARLINK_INTERFACE ".ListProbes",    method_list_probes,
                        "io.systemd.Metrics.List",          varlink_method_metrics_list,
                        "io.systemd.Metrics.Describe",      varlink_method_metrics_describe);
}
