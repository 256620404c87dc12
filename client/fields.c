/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <math.h>

#include "fields.h"
#include "json.h"

#define DOUBLE_SANE_MAX 1e12 /* there are no more requests in flight than that, or any other thing */

static const char *const signatures[] = {
        [FIELD_STRING] = "s",
        [FIELD_NUMBER] = "t",
        [FIELD_UINT32] = "u",
        [FIELD_INT32] = "i",
        [FIELD_DOUBLE] = "d",
        [FIELD_BOOL] = "b",
        [FIELD_PAIRS] = "a{st}",
        [FIELD_STRINGS] = "as",
        [FIELD_SHARES] = "a(sd)",
        [FIELD_PHASE_SPANS] = "a(stt)",
        [FIELD_STEP_SPANS] = "a(stt)",
        [FIELD_BUCKETS] = "a(tt)",
};

static void *member(const void *object, const Field *f) {
        return (char *) (uintptr_t) object + f->offset;
}

static void member_clear(const Field *f, void *object) {
        void *p = member(object, f);

        switch (f->type) {
        case FIELD_STRING:
                free(TAKE_PTR(*(char **) p));
                break;
        case FIELD_PAIRS: {
                Pairs *pairs = p;

                for (size_t i = 0; i < pairs->n; i++)
                        free(pairs->items[i].name);
                free(pairs->items);
                *pairs = (Pairs){};
                break;
        }
        case FIELD_STRINGS: {
                Strings *strings = p;

                for (size_t i = 0; i < strings->n; i++)
                        free(strings->items[i]);
                free(strings->items);
                *strings = (Strings){};
                break;
        }
        case FIELD_SHARES: {
                UnitShares *shares = p;

                for (size_t i = 0; i < shares->n; i++)
                        free(shares->items[i].unit);
                free(shares->items);
                *shares = (UnitShares){};
                break;
        }
        case FIELD_PHASE_SPANS:
        case FIELD_STEP_SPANS: {
                Spans *spans = p;

                for (size_t i = 0; i < spans->n; i++)
                        free(spans->items[i].name);
                free(spans->items);
                *spans = (Spans){};
                break;
        }
        case FIELD_BUCKETS:
                buckets_clear(p);
                break;
        default:
                break;
        }
}

void fields_clear(const Field *fields, size_t n_fields, void *object) {
        for (size_t i = 0; i < n_fields; i++)
                member_clear(&fields[i], object);
}

static int copy_string(const char *s, char **ret) {
        if (strlen(s) > STRING_LEN_MAX)
                return -EBADMSG;
        *ret = strdup(s);

        return *ret ? 0 : -ENOMEM;
}

static int pairs_decode(sd_bus_message *m, Pairs *pairs) {
        const char *name;
        uint64_t value;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{st}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(m, "{st}", &name, &value)) > 0) {
                Pair *items;

                if (pairs->n >= MEMBERS_MAX)
                        return -EBADMSG;
                items = reallocarray(pairs->items, pairs->n + 1, sizeof(Pair));
                if (!items)
                        return -ENOMEM;
                pairs->items = items;
                r = copy_string(name, &items[pairs->n].name);
                if (r < 0)
                        return r;
                items[pairs->n++].value = value;
        }
        if (r < 0)
                return r;

        return sd_bus_message_exit_container(m);
}

static int strings_decode(sd_bus_message *m, Strings *strings) {
        const char *s;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "s");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(m, "s", &s)) > 0) {
                char **items;

                if (strings->n >= MEMBERS_MAX)
                        return -EBADMSG;
                items = reallocarray(strings->items, strings->n + 1, sizeof(char *));
                if (!items)
                        return -ENOMEM;
                strings->items = items;
                r = copy_string(s, &items[strings->n]);
                if (r < 0)
                        return r;
                strings->n++;
        }
        if (r < 0)
                return r;

        return sd_bus_message_exit_container(m);
}

static int shares_decode(sd_bus_message *m, UnitShares *shares) {
        const char *unit;
        double share;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "(sd)");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(m, "(sd)", &unit, &share)) > 0) {
                UnitShare *items;

                if (shares->n >= MEMBERS_MAX || !isfinite(share) || share < 0)
                        return -EBADMSG;
                items = reallocarray(shares->items, shares->n + 1, sizeof(UnitShare));
                if (!items)
                        return -ENOMEM;
                shares->items = items;
                r = copy_string(unit, &items[shares->n].unit);
                if (r < 0)
                        return r;
                items[shares->n++].share = MIN(share, 1.0);
        }
        if (r < 0)
                return r;

        return sd_bus_message_exit_container(m);
}

static int spans_decode(sd_bus_message *m, Spans *spans) {
        const char *name;
        uint64_t start, end;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "(stt)");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(m, "(stt)", &name, &start, &end)) > 0) {
                Span *items;

                if (spans->n >= SPANS_MAX || end < start)
                        return -EBADMSG;
                items = reallocarray(spans->items, spans->n + 1, sizeof(Span));
                if (!items)
                        return -ENOMEM;
                spans->items = items;
                items[spans->n] = (Span){ .start_ns = start, .end_ns = end };
                r = copy_string(name, &items[spans->n].name);
                if (r < 0)
                        return r;
                spans->n++;
        }
        if (r < 0)
                return r;

        return sd_bus_message_exit_container(m);
}

void buckets_clear(Buckets *b) {
        free(b->items);
        *b = (Buckets){};
}

int buckets_decode(sd_bus_message *m, Buckets *buckets) {
        size_t allocated = 0;
        Bucket b;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "(tt)");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(m, "(tt)", &b.upper_ns, &b.count)) > 0) {
                bool ascends = buckets->n == 0 || b.upper_ns > buckets->items[buckets->n - 1].upper_ns;

                if (buckets->n >= BUCKETS_MAX || !ascends)
                        return -EBADMSG;
                r = array_reserve((void **) &buckets->items, &allocated, buckets->n, sizeof(Bucket));
                if (r < 0)
                        return r;
                buckets->items[buckets->n++] = b;
        }
        if (r < 0)
                return r;

        return sd_bus_message_exit_container(m);
}

/* Reads what is inside the variant. Returns 0 if it is as good as absent. */
static int member_decode(sd_bus_message *m, const Field *f, void *object) {
        void *p = member(object, f);
        int r;

        member_clear(f, object);

        switch (f->type) {
        case FIELD_STRING: {
                const char *s;

                r = sd_bus_message_read(m, "s", &s);
                if (r < 0)
                        return r;
                if (isempty(s))
                        return 0;
                r = copy_string(s, p);
                break;
        }
        case FIELD_NUMBER:
                r = sd_bus_message_read(m, "t", (uint64_t *) p);
                break;
        case FIELD_UINT32:
                r = sd_bus_message_read(m, "u", (uint32_t *) p);
                break;
        case FIELD_INT32:
                r = sd_bus_message_read(m, "i", (int32_t *) p);
                break;
        case FIELD_DOUBLE: {
                double d;

                r = sd_bus_message_read(m, "d", &d);
                if (r < 0)
                        return r;
                if (!isfinite(d) || d < 0 || d > DOUBLE_SANE_MAX)
                        return 0;
                *(double *) p = d;
                break;
        }
        case FIELD_BOOL: {
                int b;

                r = sd_bus_message_read(m, "b", &b);
                if (r >= 0)
                        *(bool *) p = b;
                break;
        }
        case FIELD_PAIRS:
                r = pairs_decode(m, p);
                break;
        case FIELD_STRINGS:
                r = strings_decode(m, p);
                break;
        case FIELD_SHARES:
                r = shares_decode(m, p);
                break;
        case FIELD_PHASE_SPANS:
        case FIELD_STEP_SPANS:
                r = spans_decode(m, p);
                break;
        case FIELD_BUCKETS:
                r = buckets_decode(m, p);
                break;
        default:
                return -EINVAL;
        }

        return r < 0 ? r : 1;
}

static const Field *find_field(const Field *fields, size_t n_fields, const char *key) {
        for (size_t i = 0; i < n_fields; i++)
                if (streq(fields[i].bus_key, key))
                        return &fields[i];

        return NULL;
}

int fields_decode(sd_bus_message *m, const Field *fields, size_t n_fields, void *object, uint32_t *ret_present) {
        uint32_t present = 0;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        if (r < 0)
                return r;

        while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                const char *key, *contents;
                const Field *f;

                r = sd_bus_message_read(m, "s", &key);
                if (r < 0)
                        return r;
                r = sd_bus_message_peek_type(m, NULL, &contents);
                if (r < 0)
                        return r;

                f = find_field(fields, n_fields, key);
                if (f && streq(contents, signatures[f->type])) {
                        r = sd_bus_message_enter_container(m, 'v', contents);
                        if (r < 0)
                                return r;
                        r = member_decode(m, f, object);
                        if (r < 0)
                                return r;
                        if (r > 0)
                                present |= UINT32_C(1) << (f - fields);
                        else /* and what a key that came twice said before is gone */
                                present &= ~(UINT32_C(1) << (f - fields));
                        r = sd_bus_message_exit_container(m);
                } else
                        r = sd_bus_message_skip(m, "v");
                if (r < 0)
                        return r;

                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;

        r = sd_bus_message_exit_container(m);
        if (r < 0)
                return r;
        if (ret_present)
                *ret_present = present;

        return 0;
}

static int member_to_json(const Field *f, const void *object, json_object **ret) {
        const void *p = member(object, f);
        json_object *j;

        switch (f->type) {
        case FIELD_STRING:
                j = json_string(*(char *const *) p);
                break;
        case FIELD_NUMBER:
                j = json_object_new_uint64(*(const uint64_t *) p);
                break;
        case FIELD_UINT32:
                j = json_object_new_uint64(*(const uint32_t *) p);
                break;
        case FIELD_INT32:
                j = json_object_new_int(*(const int32_t *) p);
                break;
        case FIELD_DOUBLE:
                j = json_double(*(const double *) p);
                break;
        case FIELD_BOOL:
                j = json_object_new_boolean(*(const bool *) p);
                break;
        case FIELD_PAIRS:
                j = json_pairs(p);
                break;
        case FIELD_STRINGS:
                j = json_strings(p);
                break;
        case FIELD_SHARES:
                j = json_shares(p);
                break;
        case FIELD_PHASE_SPANS:
                j = json_spans(p, "phase");
                break;
        case FIELD_STEP_SPANS:
                j = json_spans(p, "step");
                break;
        default:
                return -EINVAL;
        }
        if (!j)
                return -ENOMEM;
        *ret = j;

        return 0;
}

json_object *fields_to_json(const Field *fields, size_t n_fields, const void *object, uint32_t present) {
        _cleanup_(json_putp) json_object *o = NULL;

        o = json_object_new_object();
        if (!o)
                return NULL;

        for (size_t i = 0; i < n_fields; i++) {
                json_object *j = NULL;

                if (!fields[i].json_key)
                        continue;
                if (present & UINT32_C(1) << i && member_to_json(&fields[i], object, &j) < 0)
                        return NULL;
                if (json_add(o, fields[i].json_key, j) < 0)
                        return NULL;
        }

        return TAKE_PTR(o);
}

bool field_present(const Field *fields, size_t n_fields, uint32_t present, size_t offset) {
        for (size_t i = 0; i < n_fields; i++)
                if (fields[i].offset == offset)
                        return present & UINT32_C(1) << i;

        return false;
}
