/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Which unit files, drop-ins and aliases there are on the load path, without what is in them. This is I/O on disks, for
 * a child process. */

#include "unit-settings.h"

enum {
        UNIT_DIRS_MAX = 64,     /* directories of the load path */
        UNIT_FILES_MAX = 32768, /* unit files and drop-ins; more are not looked at */
        UNIT_ALIASES_MAX = 8,   /* links from one to the next that are followed, and further names of a unit */
};

/* Where the system manager looks for units, the most important first; NULL-terminated. */
extern const char *const unit_dirs[];

/* One file. A unit file has no file name of its own, a drop-in no target. */
typedef struct UnitEntry {
        unsigned dir;
        char *base;   /* "foo.service", also for drop-ins: "foo@.service", "foo-.service", "service" */
        char *file;   /* "10-x.conf" */
        char *target; /* last component of what it links to, if it is another unit's name */
        bool read;    /* for who reads them */
        UnitSettings settings;
} UnitEntry;

typedef struct UnitEntries {
        UnitEntry *items;
        size_t n;
        size_t n_allocated;
} UnitEntries;

typedef struct UnitAlias {
        const char *unit;
        const char *name;
} UnitAlias;

typedef struct UnitListing {
        const char *const *dirs;
        unsigned n_dirs;
        UnitEntries units;   /* one for each name, by name */
        UnitEntries dropins; /* by base, directory, file */
        UnitAlias *aliases;  /* by unit, name */
        size_t n_aliases;
        size_t n_files;
        bool too_many; /* there are more files than UNIT_FILES_MAX */
} UnitListing;

/* Goes through the directories, NULL-terminated, which need not be there and have to stay valid. The listing is empty
 * before, and to be freed also if that fails. */
int unit_listing_read(UnitListing *l, const char *const *load_path);
void unit_listing_done(UnitListing *l);

/* The file of a unit, which may be its template's; NULL if there is none. */
UnitEntry *unit_listing_file(UnitListing *l, const char *name);

/* The first drop-in of that base and directory, or behind it. */
size_t unit_listing_dropins(const UnitListing *l, const char *base, unsigned dir);

/* What the unit is called that a name is an alias of: the name itself if it is none. */
const char *unit_listing_real_name(UnitListing *l, const char *name);

/* The first alias of the unit, or behind it. */
size_t unit_listing_aliases(const UnitListing *l, const char *name);
