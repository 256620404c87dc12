/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-c/json.h>

#include "options.h"

struct Pairs;
struct Strings;
struct UnitShares;
struct Spans;

static inline void json_putp(json_object **o) {
        json_object_put(*o);
}

/* All return NULL if out of memory. Strings may be of any origin; NULL is no string. */
json_object *json_string(const char *s);
json_object *json_pairs(const struct Pairs *pairs);
json_object *json_strings(const struct Strings *strings);
json_object *json_shares(const struct UnitShares *shares);
json_object *json_spans(const struct Spans *spans, const char *name_key);
json_object *json_double(double d); /* finite */

/* Adds a member, the value (NULL: null) is taken over in any case. */
int json_add(json_object *o, const char *key, json_object *value);

/* As json_add() for a value that was just made, where NULL means that this failed. */
int json_add_new(json_object *o, const char *key, json_object *value);

/* For a string that may be absent: null then. */
int json_add_string(json_object *o, const char *key, const char *s);

/* Prints one value, followed by the end of the line. */
int json_print(json_object *o, OutputMode mode);

/* Prints an array element by element: there can be tens of thousands. Elements are taken over, NULL means that
 * making it has failed and gives -ENOMEM. */
typedef struct JsonArray {
        OutputMode mode;
        size_t n;
} JsonArray;

int json_array_add(JsonArray *a, json_object *element);
void json_array_end(JsonArray *a);
