/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "maps.h"
#include "util.h"

/* Who an owner id is. Ids are those of cgroups of the default hierarchy, the kernel's 0, and those that the daemon
 * makes (OWNER_FOLDED) for the sums of a unit's dead cgroups. */
typedef struct Owner {
        uint64_t id;
        char *unit;      /* never NULL */
        char *user_unit; /* NULL: none */
        char *path;      /* NULL: not a cgroup, or unknown */
        uint64_t died_ns; /* 0: exists */
        bool unknown;    /* no name yet: may be found by the next walk */
} Owner;

typedef struct OwnerTable OwnerTable;

/* maps is borrowed. */
int owner_table_new(OwnerTable **ret, Maps *maps);
OwnerTable *owner_table_free(OwnerTable *t);
DEFINE_CLEANUP_FUNC(OwnerTable, owner_table_free)

/* Finds the owner, asking the map of names once and the cgroup tree at most every few seconds. The result belongs to
 * the table, until owner_table_forget(). Returns -ENOMEM only: an owner without a name is "(unknown)". */
int owner_table_get(OwnerTable *t, uint64_t id, const Owner **ret);

/* Looks for control groups of the unit (or user unit) under which nothing was counted yet, and makes them known. Walks
 * the whole tree. */
int owner_table_find_unit(OwnerTable *t, const char *unit);

/* Likewise for all units whose name is wanted. */
typedef bool (*owner_unit_predicate)(const char *unit, void *userdata);
int owner_table_find_units(OwnerTable *t, owner_unit_predicate wanted, void *userdata);

/* Asks the kernel again which of the known owners are dead, and who the unknown ones are. */
int owner_table_refresh(OwnerTable *t);

/* The owner is gone and so are its numbers. */
void owner_table_forget(OwnerTable *t, uint64_t id);

/* Id for the sum of dead cgroups of that unit; its name is put into the map of names. */
int owner_table_folded_id(OwnerTable *t, const char *unit, const char *user_unit, uint64_t *ret);

/* The cgroup2 mount, NULL if there is none. */
const char *owner_table_cgroup_root(OwnerTable *t);

typedef int (*owner_callback)(const Owner *o, void *userdata);
int owner_table_foreach(OwnerTable *t, owner_callback callback, void *userdata);

/* Changes whenever an owner comes, gets its name, dies or is forgotten. */
uint64_t owner_table_serial(const OwnerTable *t);
