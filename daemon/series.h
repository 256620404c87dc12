/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "owner.h"

/* A series is what one row (with its phases) of the interfaces shows: everything counted under one unit, user unit,
 * op or request kind, device, origin and way; or the age of dirty data of one unit, user unit and filesystem. Several
 * cgroups may contribute to it, above all those of a unit's earlier runs. */
typedef struct Series {
        uint64_t serial; /* never changes, never used again: pages of a listing refer to it */
        char *unit;
        char *user_unit;
        bool is_request;
        bool is_age; /* of dirty data: op, origin and async say nothing */
        uint8_t op; /* or kind of request */
        uint8_t origin;
        bool async;
        uint32_t dev;
        uint64_t *owners; /* ids that contribute */
        size_t n_owners;
        size_t n_allocated;
        bool present; /* found in the present walk */
} Series;

typedef struct SeriesTable SeriesTable;

int series_table_new(SeriesTable **ret, Maps *maps, OwnerTable *owners);
SeriesTable *series_table_free(SeriesTable *t);
DEFINE_CLEANUP_FUNC(SeriesTable, series_table_free)

/* Looks up which keys the maps hold now. Values are read only when asked for. */
int series_table_refresh(SeriesTable *t);

/* All series in the order of their serials. */
Series *const *series_table_all(SeriesTable *t, size_t *ret_n);

/* First position in that array with a serial of at least that. */
size_t series_table_find(SeriesTable *t, uint64_t serial);

/* Reads and adds up the numbers; only those of owners that exist, if current. */
int series_read_op(SeriesTable *t, const Series *s, bool current, struct op_value *ret);
int series_read_rq(SeriesTable *t, const Series *s, bool current, struct rq_value *ret);
int series_read_age(SeriesTable *t, const Series *s, bool current, struct age_value *ret);

/* Whether it is a control group that exists. */
bool series_owner_is_current(SeriesTable *t, uint64_t id);

struct op_key series_op_key(const Series *s, uint64_t owner);
struct rq_key series_rq_key(const Series *s, uint64_t owner);
struct age_key series_age_key(const Series *s, uint64_t owner);
