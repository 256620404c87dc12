/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-c/json.h>
#include <systemd/sd-bus.h>

#include "util.h"

/* Dictionaries of the bus (a{sv}) to structures to JSON objects, by a description of their members. */

/* Members of type FIELD_PAIRS and FIELD_STRINGS. */
typedef struct Pair {
        char *name;
        uint64_t value;
} Pair;

typedef struct Pairs {
        Pair *items;
        size_t n;
} Pairs;

typedef struct Strings {
        char **items;
        size_t n;
} Strings;

/* Members of type FIELD_SHARES: units and their parts of a whole, 0 to 1. */
typedef struct UnitShare {
        char *unit;
        double share;
} UnitShare;

typedef struct UnitShares {
        UnitShare *items;
        size_t n;
} UnitShares;

/* Members of type FIELD_PHASE_SPANS and FIELD_STEP_SPANS: named intervals of an operation. */
typedef struct Span {
        char *name;
        uint64_t start_ns; /* from the start of the operation */
        uint64_t end_ns;
} Span;

typedef struct Spans {
        Span *items;
        size_t n;
} Spans;

/* Members of type FIELD_BUCKETS: those of a histogram that are not empty, ascending. */
typedef struct Bucket {
        uint64_t upper_ns; /* UINT64_MAX: no limit */
        uint64_t count;
} Bucket;

typedef struct Buckets {
        Bucket *items;
        size_t n;
} Buckets;

typedef enum FieldType {
        FIELD_STRING,      /* char * */
        FIELD_NUMBER,      /* uint64_t */
        FIELD_UINT32,      /* uint32_t */
        FIELD_INT32,       /* int32_t */
        FIELD_DOUBLE,      /* double, finite */
        FIELD_BOOL,        /* bool */
        FIELD_PAIRS,       /* Pairs */
        FIELD_STRINGS,     /* Strings */
        FIELD_SHARES,      /* UnitShares */
        FIELD_PHASE_SPANS, /* Spans */
        FIELD_STEP_SPANS,  /* Spans */
        FIELD_BUCKETS,     /* Buckets; never printed */
} FieldType;

typedef struct Field {
        const char *bus_key;
        const char *json_key; /* NULL: not printed */
        FieldType type;
        size_t offset;
} Field;

enum {
        FIELDS_MAX = 32,        /* in one description: one bit each says whether the member was there */
        MEMBERS_MAX = 64,       /* of one nested list or dictionary */
        SPANS_MAX = 1024,       /* of one operation */
        BUCKETS_MAX = 4096,     /* of one histogram */
        STRING_LEN_MAX = 16384, /* a path can have 4095 bytes, four times as many when escaped */
};

/* Reads one a{sv} into the structure, which must be all zero. Unknown keys and members of an unexpected type are
 * skipped, an empty string is as good as absent. -EBADMSG if there is more of something than is sane. */
int fields_decode(sd_bus_message *m, const Field *fields, size_t n_fields, void *object, uint32_t *ret_present);
void fields_clear(const Field *fields, size_t n_fields, void *object);

/* All members with a JSON key in the order of the description, null for those that were absent. NULL if out of
 * memory. */
json_object *fields_to_json(const Field *fields, size_t n_fields, const void *object, uint32_t present);

/* Reads a(tt), likewise. */
int buckets_decode(sd_bus_message *m, Buckets *buckets);
void buckets_clear(Buckets *b);

bool field_present(const Field *fields, size_t n_fields, uint32_t present, size_t offset);
