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

typedef enum FieldType {
        FIELD_STRING,  /* char * */
        FIELD_NUMBER,  /* uint64_t */
        FIELD_BOOL,    /* bool */
        FIELD_PAIRS,   /* Pairs */
        FIELD_STRINGS, /* Strings */
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
        STRING_LEN_MAX = 16384, /* a path can have 4095 bytes, four times as many when escaped */
};

/* Reads one a{sv} into the structure, which must be all zero. Unknown keys and members of an unexpected type are
 * skipped, an empty string is as good as absent. -EBADMSG if there is more of something than is sane. */
int fields_decode(sd_bus_message *m, const Field *fields, size_t n_fields, void *object, uint32_t *ret_present);
void fields_clear(const Field *fields, size_t n_fields, void *object);

/* All members with a JSON key in the order of the description, null for those that were absent. NULL if out of
 * memory. */
json_object *fields_to_json(const Field *fields, size_t n_fields, const void *object, uint32_t present);

bool field_present(const Field *fields, size_t n_fields, uint32_t present, size_t offset);
