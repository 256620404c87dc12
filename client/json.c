/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "fields.h"
#include "json.h"
#include "text.h"

json_object *json_string(const char *s) {
        _cleanup_free_ char *valid = NULL;

        valid = text_make_utf8(s);
        if (!valid)
                return NULL;

        return json_object_new_string(valid);
}

json_object *json_pairs(const Pairs *pairs) {
        _cleanup_(json_putp) json_object *o = NULL;

        o = json_object_new_object();
        if (!o)
                return NULL;
        for (size_t i = 0; i < pairs->n; i++) {
                _cleanup_free_ char *name = NULL;

                name = text_make_utf8(pairs->items[i].name);
                if (!name || json_add_new(o, name, json_object_new_uint64(pairs->items[i].value)) < 0)
                        return NULL;
        }

        return TAKE_PTR(o);
}

json_object *json_strings(const Strings *strings) {
        _cleanup_(json_putp) json_object *array = NULL;

        array = json_object_new_array();
        if (!array)
                return NULL;
        for (size_t i = 0; i < strings->n; i++) {
                _cleanup_(json_putp) json_object *j = NULL;

                j = json_string(strings->items[i]);
                if (!j || json_object_array_add(array, j) < 0)
                        return NULL;
                TAKE_PTR(j);
        }

        return TAKE_PTR(array);
}

json_object *json_double(double d) {
        json_object *j = json_object_new_double(d);

        /* No 0.81000000000000005; it writes a point in every locale. */
        if (j)
                json_object_set_serializer(j, json_object_double_to_json_string, (char *) "%.6g", NULL);

        return j;
}

json_object *json_shares(const UnitShares *shares) {
        _cleanup_(json_putp) json_object *array = NULL;

        array = json_object_new_array();
        if (!array)
                return NULL;
        for (size_t i = 0; i < shares->n; i++) {
                _cleanup_(json_putp) json_object *j = NULL;

                j = json_object_new_object();
                if (!j || json_add_string(j, "unit", shares->items[i].unit) < 0 ||
                    json_add_new(j, "share", json_double(shares->items[i].share)) < 0 ||
                    json_object_array_add(array, j) < 0)
                        return NULL;
                TAKE_PTR(j);
        }

        return TAKE_PTR(array);
}

json_object *json_spans(const Spans *spans, const char *name_key) {
        _cleanup_(json_putp) json_object *array = NULL;

        array = json_object_new_array();
        if (!array)
                return NULL;
        for (size_t i = 0; i < spans->n; i++) {
                _cleanup_(json_putp) json_object *j = NULL;
                const Span *s = &spans->items[i];

                j = json_object_new_object();
                if (!j || json_add_string(j, name_key, s->name) < 0 ||
                    json_add_new(j, "startNSec", json_object_new_uint64(s->start_ns)) < 0 ||
                    json_add_new(j, "endNSec", json_object_new_uint64(s->end_ns)) < 0 ||
                    json_object_array_add(array, j) < 0)
                        return NULL;
                TAKE_PTR(j);
        }

        return TAKE_PTR(array);
}

int json_add(json_object *o, const char *key, json_object *value) {
        if (json_object_object_add(o, key, value) < 0) {
                json_object_put(value);
                return -ENOMEM;
        }

        return 0;
}

int json_add_new(json_object *o, const char *key, json_object *value) {
        return value ? json_add(o, key, value) : -ENOMEM;
}

int json_add_string(json_object *o, const char *key, const char *s) {
        return s ? json_add_new(o, key, json_string(s)) : json_add(o, key, NULL);
}

static const char *to_string(json_object *o, OutputMode mode) {
        return json_object_to_json_string_ext(
                o,
                JSON_C_TO_STRING_NOSLASHESCAPE |
                        (mode == OUTPUT_JSON_PRETTY ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED :
                                                      JSON_C_TO_STRING_PLAIN));
}

int json_print(json_object *o, OutputMode mode) {
        const char *s = to_string(o, mode);

        if (!s)
                return -ENOMEM;
        fputs(s, stdout);
        fputc('\n', stdout);

        return 0;
}

int json_array_add(JsonArray *a, json_object *element) {
        _cleanup_(json_putp) json_object *o = element;
        const char *s;

        s = o ? to_string(o, a->mode) : NULL;
        if (!s)
                return -ENOMEM;

        fputs(a->n++ > 0 ? "," : "[", stdout);
        if (a->mode == OUTPUT_JSON_SHORT) {
                fputs(s, stdout);
                return 0;
        }

        /* No string of JSON has a line break in it, so every one is the printer's. */
        for (;;) {
                size_t n = strcspn(s, "\n");

                printf("\n  %.*s", (int) n, s);
                if (!s[n])
                        return 0;
                s += n + 1;
        }
}

void json_array_end(JsonArray *a) {
        if (a->n == 0)
                fputs("[", stdout);
        else if (a->mode == OUTPUT_JSON_PRETTY)
                fputs("\n", stdout);
        fputs("]\n", stdout);
}
