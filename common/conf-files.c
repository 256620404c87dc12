/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/stat.h>

#include "conf-files.h"

const char *const conf_dirs[] = { "/etc", "/run", "/usr/local/lib", "/usr/lib", NULL };

typedef struct Dropin {
        char *name;
        char *path;
        bool masked;
} Dropin;

typedef struct DropinArray {
        Dropin *items;
        size_t n;
} DropinArray;

void conf_files_done(ConfFiles *f) {
        for (size_t i = 0; i < f->n; i++)
                free(f->paths[i]);
        free(f->paths);
        *f = (ConfFiles) {};
}

static void dropin_array_done(DropinArray *a) {
        for (size_t i = 0; i < a->n; i++) {
                free(a->items[i].name);
                free(a->items[i].path);
        }
        free(a->items);
}

/* Whether there is something at path that counts as a configuration file; a device (/dev/null) hides others. */
static bool looks_like_file(const char *path, bool *ret_masked) {
        struct stat st;

        if (stat(path, &st) < 0)
                return false;
        *ret_masked = S_ISCHR(st.st_mode);

        return S_ISREG(st.st_mode) || S_ISCHR(st.st_mode);
}

/* Takes over the path, on failure too. */
static int conf_files_append(ConfFiles *f, char *path) {
        char **paths;

        paths = reallocarray(f->paths, f->n + 1, sizeof(char *));
        if (!paths) {
                free(path);
                return -ENOMEM;
        }
        f->paths = paths;
        f->paths[f->n++] = path;

        return 0;
}

static int add_main_file(const char *const *dirs, const char *name, ConfFiles *f) {
        for (; *dirs; dirs++) {
                _cleanup_free_ char *path = NULL;
                bool masked;

                if (asprintf(&path, "%s/%s", *dirs, name) < 0) {
                        path = NULL;
                        return -ENOMEM;
                }
                if (!looks_like_file(path, &masked))
                        continue;

                return masked ? 0 : conf_files_append(f, TAKE_PTR(path));
        }

        return 0;
}

static bool dropin_array_contains(const DropinArray *a, const char *name) {
        for (size_t i = 0; i < a->n; i++)
                if (streq(a->items[i].name, name))
                        return true;

        return false;
}

static int add_dropin(DropinArray *a, const char *dir, const char *name) {
        _cleanup_free_ char *path = NULL, *copy = NULL;
        Dropin *items;
        bool masked;

        if (asprintf(&path, "%s/%s", dir, name) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        if (!looks_like_file(path, &masked))
                return 0;
        if (a->n >= CONF_DROPINS_MAX)
                return -E2BIG;

        copy = strdup(name);
        if (!copy)
                return -ENOMEM;
        items = reallocarray(a->items, a->n + 1, sizeof(Dropin));
        if (!items)
                return -ENOMEM;
        a->items = items;
        a->items[a->n++] = (Dropin) { .name = TAKE_PTR(copy), .path = TAKE_PTR(path), .masked = masked };

        return 0;
}

static int add_dropins(DropinArray *a, const char *dir) {
        _cleanup_closedir_ DIR *d = NULL;
        const struct dirent *de;
        int r;

        d = opendir(dir);
        if (!d)
                return 0;

        while ((de = readdir(d))) {
                /* Hidden files are backups and the like. */
                if (de->d_name[0] == '.' || !endswith(de->d_name, ".conf"))
                        continue;
                if (dropin_array_contains(a, de->d_name))
                        continue;
                r = add_dropin(a, dir, de->d_name);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int dropin_compare(const void *a, const void *b) {
        return strcmp(((const Dropin *) a)->name, ((const Dropin *) b)->name);
}

int conf_files_list(const char *const *dirs, const char *name, ConfFiles *ret) {
        _cleanup_(dropin_array_done) DropinArray a = {};
        _cleanup_(conf_files_done) ConfFiles f = {};
        int r;

        r = add_main_file(dirs, name, &f);
        if (r < 0)
                return r;

        for (; *dirs; dirs++) {
                _cleanup_free_ char *dir = NULL;

                if (asprintf(&dir, "%s/%s.d", *dirs, name) < 0) {
                        dir = NULL;
                        return -ENOMEM;
                }
                r = add_dropins(&a, dir);
                if (r < 0)
                        return r;
        }

        if (a.n > 0)
                qsort(a.items, a.n, sizeof(Dropin), dropin_compare);
        for (size_t i = 0; i < a.n; i++) {
                if (a.items[i].masked)
                        continue;
                r = conf_files_append(&f, TAKE_PTR(a.items[i].path));
                if (r < 0)
                        return r;
        }

        *ret = f;
        f = (ConfFiles) {};

        return 0;
}
