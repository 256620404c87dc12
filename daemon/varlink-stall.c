/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "varlink-idl.h"
#include "varlink-methods.h"
#include "varlink-params.h"
#include "varlink-row.h"

/* Stalls come and go while a listing is under way. So what is to be listed is noted first, and looked up again when it
 * is the turn of each. */
typedef struct StallRef {
        uint64_t start_us;
        uint64_t id;
} StallRef;

enum { LISTED_MAX = 4096 };

typedef struct StallListing {
        StallRef *refs;
        size_t n; /* while they are noted: that there are, of which the last LISTED_MAX are kept */
        size_t next; /* the first that was not sent yet */
        uint64_t lost;
        sd_json_variant *found[VARLINK_SLICE]; /* while a slice is put together */
        VarlinkStream *stream;
} StallListing;

static void listing_forget_found(StallListing *l) {
        for (size_t i = 0; i < VARLINK_SLICE; i++)
                l->found[i] = sd_json_variant_unref(l->found[i]);
}

static void listing_free(void *p) {
        StallListing *l = p;

        listing_forget_found(l);
        free(l->refs);
        free(l);
}

static int note(const StallRow *stall, void *userdata) {
        StallListing *l = userdata;

        l->refs[l->n++ % LISTED_MAX] = (StallRef){ stall->start_realtime_us, stall->id };

        return 0;
}

static int compare_refs(const void *a, const void *b) {
        const StallRef *x = a, *y = b;

        if (x->start_us != y->start_us)
                return x->start_us < y->start_us ? -1 : 1;

        return x->id < y->id ? -1 : x->id > y->id;
}

static size_t slice_end(const StallListing *l) {
        return MIN(l->n, l->next + VARLINK_SLICE);
}

static bool is_stall(const StallRef *ref, const StallRow *stall) {
        return ref->start_us == stall->start_realtime_us && ref->id == stall->id;
}

static int pick(const StallRow *stall, void *userdata) {
        StallListing *l = userdata;

        for (size_t i = l->next; i < slice_end(l); i++)
                if (is_stall(&l->refs[i], stall) && !l->found[i - l->next])
                        return varlink_stall(stall, l->stream->privileged, &l->found[i - l->next]);

        return 0;
}

static int add(VarlinkStream *s, sd_json_variant *stall, uint64_t lost) {
        _cleanup_(sd_json_variant_unrefp) sd_json_variant *reply = NULL;
        int r;

        r = sd_json_buildo(&reply,
                           SD_JSON_BUILD_PAIR_VARIANT("stall", stall),
                           SD_JSON_BUILD_PAIR_CONDITION(lost > 0, "lost", SD_JSON_BUILD_UNSIGNED(lost)));
        if (r < 0)
                return r;

        return varlink_stream_add(s, reply);
}

static int fill(VarlinkStream *s) {
        StallListing *l = s->state;
        size_t end = slice_end(l);
        int r = 0;

        l->stream = s;
        if (l->next < end)
                r = query_stalls(s->manager, l->refs[l->next].start_us, UINT32_MAX, pick, l);
        for (size_t i = 0; i < end - l->next && r >= 0; i++)
                if (l->found[i]) /* else it was forgotten meanwhile */
                        r = add(s, l->found[i], 0);
        listing_forget_found(l);
        l->next = end;
        s->waiting = s->follow && l->next >= l->n;
        if (r < 0)
                return r;

        return s->follow || l->next < l->n;
}

int varlink_stalls_follow(VarlinkStream *s, const StallRow *stall, bool announce) {
        _cleanup_(sd_json_variant_unrefp) sd_json_variant *v = NULL;
        StallListing *l = s->state;
        int r;

        for (size_t i = l->next; i < l->n; i++)
                if (is_stall(&l->refs[i], stall))
                        return 0;
        if (!announce) {
                l->lost++;
                return 0;
        }
        r = varlink_stall(stall, s->privileged, &v);
        if (r < 0)
                return r;
        r = sd_varlink_notifybo(s->link,
                                SD_JSON_BUILD_PAIR_VARIANT("stall", v),
                                SD_JSON_BUILD_PAIR_CONDITION(l->lost > 0, "lost", SD_JSON_BUILD_UNSIGNED(l->lost)));
        if (r >= 0)
                l->lost = 0;

        return r;
}

static int listing_new(StallListing **ret, Manager *m, uint64_t since_us, uint32_t limit) {
        StallListing *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        l->refs = calloc(LISTED_MAX, sizeof(l->refs[0]));
        r = l->refs ? query_stalls(m, since_us, limit, note, l) : -ENOMEM;
        if (r < 0) {
                listing_free(l);
                return r;
        }
        l->n = MIN(l->n, (size_t) LISTED_MAX);
        qsort(l->refs, l->n, sizeof(l->refs[0]), compare_refs);
        *ret = l;

        return 0;
}

typedef struct ListStallsParameters {
        uint64_t since_us;
        uint64_t limit;
        bool follow;
} ListStallsParameters;

int varlink_method_list_stalls(sd_varlink *link, sd_json_variant *parameters, sd_varlink_method_flags_t flags,
                               void *userdata) {
        static const sd_json_dispatch_field table[] = {
                { "sinceRealtimeUSec", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_number,
                  offsetof(ListStallsParameters, since_us), SD_JSON_NULLABLE },
                { "limit", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_number,
                  offsetof(ListStallsParameters, limit), SD_JSON_NULLABLE },
                { "follow", _SD_JSON_VARIANT_TYPE_INVALID, varlink_dispatch_bool,
                  offsetof(ListStallsParameters, follow), SD_JSON_NULLABLE },
                {},
        };
        ListStallsParameters p = {};
        VarlinkClient *c = userdata;
        StallListing *l;
        int r;

        r = sd_varlink_dispatch(link, parameters, table, &p);
        if (r != 0)
                return r;

        /* One who follows wants the newest, others can ask for what comes after the last one. */
        if (p.limit == 0 || (p.limit > LISTED_MAX && !p.follow))
                p.limit = p.follow ? UINT32_MAX : LISTED_MAX;
        r = listing_new(&l, c->manager, p.since_us, (uint32_t) MIN(p.limit, (uint64_t) UINT32_MAX));
        if (r < 0)
                return r;
        r = varlink_stream_new(c, link, parameters, fill, listing_free, l);
        if (r < 0)
                return r;
        c->stream->follow = p.follow;

        return 0;
}
