/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "unit-listing.h"
#include "unit-names.h"

const char *const unit_dirs[] = {
        "/etc/systemd/system.control",
        "/run/systemd/system.control",
        "/run/systemd/transient",
        "/run/systemd/generator.early",
        "/etc/systemd/system",
        "/etc/systemd/system.attached",
        "/run/systemd/system",
        "/run/systemd/system.attached",
        "/run/systemd/generator",
        "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
        "/run/systemd/generator.late",
        NULL,
};

static void entries_done(UnitEntries *e) {
        for (size_t i = 0; i < e->n; i++) {
                free(e->items[i].base);
                free(e->items[i].file);
                free(e->items[i].target);
        }
        free(e->items);
}

void unit_listing_done(UnitListing *l) {
        entries_done(&l->units);
        entries_done(&l->dropins);
        free(l->aliases);
}

/* Takes over the strings, also on failure. */
static int add_entry(UnitListing *l, UnitEntries *e, unsigned dir, char *base, char *file, char *target) {
        if (!base || (e == &l->dropins && !file))
                goto fail;
        if (e->n >= e->n_allocated) {
                size_t n = MAX(e->n_allocated * 2, (size_t) 64);
                UnitEntry *items = reallocarray(e->items, n, sizeof(UnitEntry));

                if (!items)
                        goto fail;
                e->items = items;
                e->n_allocated = n;
        }
        e->items[e->n++] = (UnitEntry){ .dir = dir, .base = base, .file = file, .target = target };

        return 0;

fail:
        free(base);
        free(file);
        free(target);

        return -ENOMEM;
}

static bool may_have_more(UnitListing *l) {
        l->n_files++;
        l->too_many = l->n_files >= UNIT_FILES_MAX;

        return !l->too_many;
}

static int list_dropins(UnitListing *l, unsigned dir, int fd, const char *name, size_t n_base) {
        _cleanup_closedir_ DIR *d = NULL;
        _cleanup_close_ int sub = -EBADF;
        const struct dirent *de;
        int k;

        sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (sub < 0)
                return 0;
        d = fdopendir(sub);
        if (!d)
                return -errno;
        (void) take_fd(&sub);
        while ((de = readdir(d))) {
                if (de->d_name[0] == '.' || !endswith(de->d_name, ".conf"))
                        continue;
                if (!may_have_more(l))
                        break;
                k = add_entry(l, &l->dropins, dir, strndup(name, n_base), strdup(de->d_name), NULL);
                if (k < 0)
                        return k;
        }

        return 0;
}

/* The unit that a file of that name is a link to; NULL if it is none, or to itself. */
static int link_target(int fd, const char *name, char **ret) {
        char link[PATH_MAX], instance[UNIT_NAME_MAX + 1];
        const char *target;
        ssize_t n;

        *ret = NULL;
        n = readlinkat(fd, name, link, sizeof(link) - 1);
        if (n < 0)
                return 0;
        link[n] = 0;
        target = strrchr(link, '/');
        target = target ? target + 1 : link;
        if (!unit_or_template_is_valid(target) || !streq(unit_type_of(target), unit_type_of(name)))
                return 0;
        if (unit_name_is_instance(name) && unit_name_is_template(target)) {
                if (!unit_instance_of(target, name, instance))
                        return 0;
                target = instance;
        }
        if (streq(target, name))
                return 0;
        *ret = strdup(target);

        return *ret ? 0 : -ENOMEM;
}

static int list_unit(UnitListing *l, unsigned dir, int fd, const char *name) {
        char *target;
        int k;

        k = link_target(fd, name, &target);
        if (k < 0)
                return k;

        return add_entry(l, &l->units, dir, strdup(name), NULL, target);
}

static int list_dir(UnitListing *l, unsigned dir) {
        _cleanup_closedir_ DIR *d = opendir(l->dirs[dir]);
        const struct dirent *de;
        int k = 0;

        if (!d)
                return 0;
        while ((de = readdir(d)) && k >= 0) {
                const char *end = endswith(de->d_name, ".d");
                char base[UNIT_NAME_MAX + 1];

                if (de->d_name[0] == '.')
                        continue;
                if (!end && unit_or_template_is_valid(de->d_name)) {
                        if (!may_have_more(l))
                                break;
                        k = list_unit(l, dir, dirfd(d), de->d_name);
                }
                if (!end || end - de->d_name > UNIT_NAME_MAX)
                        continue;
                (void) snprintf(base, sizeof(base), "%.*s", (int) (end - de->d_name), de->d_name);
                if (unit_or_template_is_valid(base) || unit_type_is_valid(base))
                        k = list_dropins(l, dir, dirfd(d), de->d_name, strlen(base));
        }

        return k;
}

static int compare_entry(const void *a, const void *b) {
        const UnitEntry *x = a, *y = b;
        int c = strcmp(x->base, y->base);

        if (c == 0)
                c = x->dir < y->dir ? -1 : x->dir > y->dir;

        return c ?: strcmp(strempty(x->file), strempty(y->file));
}

static void sort_entries(UnitEntries *e) {
        if (e->n > 0)
                qsort(e->items, e->n, sizeof(UnitEntry), compare_entry);
}

/* Of unit files the first one of a name is the only one. */
static void keep_first(UnitEntries *e) {
        size_t n = 0;

        for (size_t i = 0; i < e->n; i++) {
                if (n > 0 && streq(e->items[n - 1].base, e->items[i].base)) {
                        free(e->items[i].base);
                        free(e->items[i].target);
                        continue;
                }
                e->items[n++] = e->items[i];
        }
        e->n = n;
}

static UnitEntry *find_unit(UnitListing *l, const char *name) {
        size_t low = 0, high = l->units.n;

        while (low < high) {
                size_t middle = (low + high) / 2;
                int c = strcmp(l->units.items[middle].base, name);

                if (c == 0)
                        return &l->units.items[middle];
                if (c < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return NULL;
}

size_t unit_listing_dropins(const UnitListing *l, const char *base, unsigned dir) {
        size_t low = 0, high = l->dropins.n;
        const UnitEntry key = { .base = (char *) base, .dir = dir };

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (compare_entry(&l->dropins.items[middle], &key) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return low;
}

UnitEntry *unit_listing_file(UnitListing *l, const char *name) {
        char template[UNIT_NAME_MAX + 1];
        UnitEntry *e = find_unit(l, name);

        if (e || !unit_name_is_instance(name))
                return e;
        unit_template_of(name, template);

        return find_unit(l, template);
}

const char *unit_listing_real_name(UnitListing *l, const char *name) {
        const char *real = name;

        for (unsigned i = 0; i < UNIT_ALIASES_MAX; i++) {
                const UnitEntry *e = find_unit(l, real);

                /* What links to a file of another name outside of the load path is no alias, but has its text
                 * there. */
                if (!e || !e->target || !unit_listing_file(l, e->target))
                        return real;
                real = e->target;
        }

        return name; /* in a circle */
}

static int compare_alias(const void *a, const void *b) {
        const UnitAlias *x = a, *y = b;

        return strcmp(x->unit, y->unit) ?: strcmp(x->name, y->name);
}

static int collect_aliases(UnitListing *l) {
        l->aliases = calloc(l->units.n + 1, sizeof(UnitAlias));
        if (!l->aliases)
                return -ENOMEM;
        for (size_t i = 0; i < l->units.n; i++) {
                const char *name = l->units.items[i].base, *real = unit_listing_real_name(l, name);

                if (!streq(real, name))
                        l->aliases[l->n_aliases++] = (UnitAlias){ real, name };
        }
        qsort(l->aliases, l->n_aliases, sizeof(UnitAlias), compare_alias);

        return 0;
}

size_t unit_listing_aliases(const UnitListing *l, const char *name) {
        size_t low = 0, high = l->n_aliases;

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (strcmp(l->aliases[middle].unit, name) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return low;
}

int unit_listing_read(UnitListing *l, const char *const *load_path) {
        struct stat seen[UNIT_DIRS_MAX], st;
        int k;

        l->dirs = load_path;
        for (unsigned n = 0; l->dirs[n] && n < UNIT_DIRS_MAX; n++) {
                bool again = false;

                l->n_dirs = n + 1;
                seen[n] = (struct stat){};
                if (stat(l->dirs[n], &st) < 0)
                        continue;
                for (unsigned i = 0; i < n; i++) /* /lib can be a link to /usr/lib */
                        again = again || (seen[i].st_dev == st.st_dev && seen[i].st_ino == st.st_ino);
                seen[n] = st;
                if (again)
                        continue;
                k = list_dir(l, n);
                if (k < 0)
                        return k;
        }
        sort_entries(&l->units);
        keep_first(&l->units);
        sort_entries(&l->dropins);

        return collect_aliases(l);
}
