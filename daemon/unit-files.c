/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "text-escape.h"
#include "unit-files.h"
#include "unit-path.h"

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

enum {
        ALIASES_MAX = 8,        /* links from one to the next that are followed, and further names of a unit */
        FILE_PROBLEMS_MAX = 16, /* in one file */
};

/* One file. A unit file has no file name of its own, a drop-in no target. */
typedef struct Entry {
        unsigned dir;
        char *base;   /* "foo.service", also for drop-ins: "foo@.service", "foo-.service", "service" */
        char *file;   /* "10-x.conf" */
        char *target; /* last component of what it links to, if it is another unit's name */
        bool read;
        UnitSettings settings;
} Entry;

typedef struct Entries {
        Entry *items;
        size_t n;
        size_t n_allocated;
} Entries;

typedef struct Alias {
        const char *unit;
        const char *name;
} Alias;

typedef struct Reader {
        const char *const *dirs;
        unsigned n_dirs;
        Entries units;   /* one for each name, by name */
        Entries dropins; /* by base, directory, file */
        Alias *aliases;  /* by unit, name */
        size_t n_aliases;
        size_t n_files;
        char *buffer; /* of UNIT_FILE_SIZE_MAX */
        unit_files_problem problem;
        void *userdata;
        unsigned n_problems;
        /* The file that is being read. */
        const char *path;
        unsigned n_file_problems;
} Reader;

static void entries_done(Entries *e) {
        for (size_t i = 0; i < e->n; i++) {
                free(e->items[i].base);
                free(e->items[i].file);
                free(e->items[i].target);
        }
        free(e->items);
}

static void reader_done(Reader *r) {
        entries_done(&r->units);
        entries_done(&r->dropins);
        free(r->aliases);
        free(r->buffer);
}

static _printf_(2, 3) void complain(Reader *r, const char *format, ...) {
        char text[PATH_MAX + UNIT_LINE_MAX], escaped[PATH_MAX + UNIT_LINE_MAX];
        va_list ap;

        r->n_problems++;
        if (r->n_problems > UNIT_PROBLEMS_MAX)
                return;
        if (r->n_problems == UNIT_PROBLEMS_MAX) {
                r->problem("Too many problems in unit files, not showing more of them.", r->userdata);
                return;
        }
        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        r->problem(text_escape(text, /* controls= */ true, escaped, sizeof(escaped)), r->userdata);
}

/* --- names --- */

/* Only these have processes. */
static bool type_is_valid(const char *s) {
        static const char *const types[] = { "service", "scope", "slice", "socket", "mount", "swap" };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (streq(types[i], s))
                        return true;

        return false;
}

static const char *type_of(const char *name) {
        const char *dot = strrchr(name, '.');

        return dot ? dot + 1 : name;
}

static bool is_template(const char *name) {
        const char *at = strchr(name, '@');

        return at && at + 1 == strrchr(name, '.');
}

static bool is_instance(const char *name) {
        const char *at = strchr(name, '@'), *dot = strrchr(name, '.');

        return at && dot && at + 1 < dot;
}

static bool is_prefix(const char *name) {
        const char *dot = strrchr(name, '.');

        return dot && dot - name > 1 && dot[-1] == '-' && !strchr(name, '@');
}

/* A unit's name, or that of a template. */
static bool name_is_valid(const char *name) {
        char instance[UNIT_NAME_MAX + 2];
        const char *dot = strrchr(name, '.');

        if (!dot || !type_is_valid(dot + 1) || strlen(name) > UNIT_NAME_MAX)
                return false;
        if (!is_template(name))
                return unit_name_is_valid(name);
        (void) snprintf(instance, sizeof(instance), "%.*sx%s", (int) (dot - name), name, dot);

        return strlen(name) < UNIT_NAME_MAX && unit_name_is_valid(instance);
}

/* "foo@x.service" -> "foo@.service" */
static void template_of(const char *name, char ret[static UNIT_NAME_MAX + 1]) {
        (void) snprintf(ret, UNIT_NAME_MAX + 1, "%.*s@.%s", (int) (strchr(name, '@') - name), name, type_of(name));
}

/* "foo@.service" and "bar@x.service" -> "foo@x.service" */
static bool instance_of(const char *template, const char *other, char ret[static UNIT_NAME_MAX + 1]) {
        const char *at = strchr(template, '@');

        return snprintf(ret, UNIT_NAME_MAX + 1, "%.*s%s", (int) (at - template), template, strchr(other, '@')) <=
                UNIT_NAME_MAX;
}

/* The pattern of what a template, prefix or type is about, else the name itself. */
static bool pattern_of(const char *base, char *ret, size_t size) {
        const char *dot = strrchr(base, '.');

        if (!dot)
                return snprintf(ret, size, "*.%s", base) < (int) size;
        if (is_template(base) || is_prefix(base))
                return snprintf(ret, size, "%.*s*%s", (int) (dot - base), base, dot) < (int) size;

        return snprintf(ret, size, "%s", base) < (int) size;
}

/* --- what there is --- */

/* Takes over the strings, also on failure. */
static int add_entry(Reader *r, Entries *e, unsigned dir, char *base, char *file, char *target) {
        if (!base || (e == &r->dropins && !file))
                goto fail;
        if (e->n >= e->n_allocated) {
                size_t n = MAX(e->n_allocated * 2, (size_t) 64);
                Entry *items = reallocarray(e->items, n, sizeof(Entry));

                if (!items)
                        goto fail;
                e->items = items;
                e->n_allocated = n;
        }
        e->items[e->n++] = (Entry){ .dir = dir, .base = base, .file = file, .target = target };

        return 0;

fail:
        free(base);
        free(file);
        free(target);

        return -ENOMEM;
}

static bool may_have_more(Reader *r) {
        r->n_files++;
        if (r->n_files == UNIT_FILES_MAX)
                complain(r, "There are more than %d unit files, ignoring the rest.", UNIT_FILES_MAX);

        return r->n_files < UNIT_FILES_MAX;
}

static int list_dropins(Reader *r, unsigned dir, int fd, const char *name, size_t n_base) {
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
                if (!may_have_more(r))
                        break;
                k = add_entry(r, &r->dropins, dir, strndup(name, n_base), strdup(de->d_name), NULL);
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
        if (!name_is_valid(target) || !streq(type_of(target), type_of(name)))
                return 0;
        if (is_instance(name) && is_template(target)) {
                if (!instance_of(target, name, instance))
                        return 0;
                target = instance;
        }
        if (streq(target, name))
                return 0;
        *ret = strdup(target);

        return *ret ? 0 : -ENOMEM;
}

static int list_unit(Reader *r, unsigned dir, int fd, const char *name) {
        char *target;
        int k;

        k = link_target(fd, name, &target);
        if (k < 0)
                return k;

        return add_entry(r, &r->units, dir, strdup(name), NULL, target);
}

static int list_dir(Reader *r, unsigned dir) {
        _cleanup_closedir_ DIR *d = opendir(r->dirs[dir]);
        const struct dirent *de;
        int k = 0;

        if (!d)
                return 0;
        while ((de = readdir(d)) && k >= 0) {
                const char *end = endswith(de->d_name, ".d");
                char base[UNIT_NAME_MAX + 1];

                if (de->d_name[0] == '.')
                        continue;
                if (!end && name_is_valid(de->d_name)) {
                        if (!may_have_more(r))
                                break;
                        k = list_unit(r, dir, dirfd(d), de->d_name);
                }
                if (!end || end - de->d_name > UNIT_NAME_MAX)
                        continue;
                (void) snprintf(base, sizeof(base), "%.*s", (int) (end - de->d_name), de->d_name);
                if (name_is_valid(base) || type_is_valid(base))
                        k = list_dropins(r, dir, dirfd(d), de->d_name, strlen(base));
        }

        return k;
}

static int compare_entry(const void *a, const void *b) {
        const Entry *x = a, *y = b;
        int c = strcmp(x->base, y->base);

        if (c == 0)
                c = x->dir < y->dir ? -1 : x->dir > y->dir;

        return c ?: strcmp(strempty(x->file), strempty(y->file));
}

static void sort_entries(Entries *e) {
        if (e->n > 0)
                qsort(e->items, e->n, sizeof(Entry), compare_entry);
}

/* Of unit files the first one of a name is the only one. */
static void keep_first(Entries *e) {
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

static Entry *find_unit(Reader *r, const char *name) {
        size_t low = 0, high = r->units.n;

        while (low < high) {
                size_t middle = (low + high) / 2;
                int c = strcmp(r->units.items[middle].base, name);

                if (c == 0)
                        return &r->units.items[middle];
                if (c < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return NULL;
}

/* The first drop-in of that base and directory, or behind it. */
static size_t find_dropin(Reader *r, const char *base, unsigned dir) {
        size_t low = 0, high = r->dropins.n;
        const Entry key = { .base = (char *) base, .dir = dir };

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (compare_entry(&r->dropins.items[middle], &key) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return low;
}

/* Whether there is a file for the unit, by itself or by its template. One that links to a file of another name outside
 * of the load path is no alias, but has its text there. */
static bool unit_exists(Reader *r, const char *name) {
        char template[UNIT_NAME_MAX + 1];

        if (find_unit(r, name))
                return true;
        if (!is_instance(name))
                return false;
        template_of(name, template);

        return find_unit(r, template);
}

/* What the unit is called that a name is an alias of: the name itself if it is none. */
static const char *real_name(Reader *r, const char *name) {
        const char *real = name;

        for (unsigned i = 0; i < ALIASES_MAX; i++) {
                const Entry *e = find_unit(r, real);

                if (!e || !e->target || !unit_exists(r, e->target))
                        return real;
                real = e->target;
        }

        return name; /* in a circle */
}

static int compare_alias(const void *a, const void *b) {
        const Alias *x = a, *y = b;

        return strcmp(x->unit, y->unit) ?: strcmp(x->name, y->name);
}

static int collect_aliases(Reader *r) {
        r->aliases = calloc(r->units.n + 1, sizeof(Alias));
        if (!r->aliases)
                return -ENOMEM;
        for (size_t i = 0; i < r->units.n; i++) {
                const char *name = r->units.items[i].base, *real = real_name(r, name);

                if (!streq(real, name))
                        r->aliases[r->n_aliases++] = (Alias){ real, name };
        }
        qsort(r->aliases, r->n_aliases, sizeof(Alias), compare_alias);

        return 0;
}

static int list_all(Reader *r) {
        struct stat seen[UNIT_DIRS_MAX], st;
        int k;

        for (unsigned n = 0; r->dirs[n] && n < UNIT_DIRS_MAX; n++) {
                bool again = false;

                r->n_dirs = n + 1;
                seen[n] = (struct stat){};
                if (stat(r->dirs[n], &st) < 0)
                        continue;
                for (unsigned i = 0; i < n; i++) /* /lib can be a link to /usr/lib */
                        again = again || (seen[i].st_dev == st.st_dev && seen[i].st_ino == st.st_ino);
                seen[n] = st;
                if (again)
                        continue;
                k = list_dir(r, n);
                if (k < 0)
                        return k;
        }
        sort_entries(&r->units);
        keep_first(&r->units);
        sort_entries(&r->dropins);

        return collect_aliases(r);
}

/* --- what is in them --- */

static void on_problem(unsigned line, const char *text, void *userdata) {
        Reader *r = userdata;

        r->n_file_problems++;
        if (r->n_file_problems < FILE_PROBLEMS_MAX)
                complain(r, "%s:%u: %s", r->path, line, text);
        else if (r->n_file_problems == FILE_PROBLEMS_MAX)
                complain(r, "%s:%u: Too many problems, not showing more of them.", r->path, line);
}

/* Returns the size, 0 for what is no file: a link to /dev/null, or to nothing. */
static ssize_t read_file(const char *path, char *buf) {
        _cleanup_close_ int fd = -EBADF;
        struct stat st;
        size_t size = 0;
        ssize_t n;

        /* Not blocking, in case that it is a fifo. */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 0 : -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return 0;
        if (st.st_size > UNIT_FILE_SIZE_MAX)
                return -EFBIG;
        while (size < UNIT_FILE_SIZE_MAX) {
                n = read(fd, buf + size, UNIT_FILE_SIZE_MAX - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t) n;
        }

        return (ssize_t) size;
}

static const UnitSettings *settings_of(Reader *r, Entry *e) {
        static const char section[] = "[X-Iolat]";
        char path[PATH_MAX];
        ssize_t n;
        int k;

        if (e->read)
                return &e->settings;
        e->read = true;
        if (e->file)
                k = snprintf(path, sizeof(path), "%s/%s.d/%s", r->dirs[e->dir], e->base, e->file);
        else
                k = snprintf(path, sizeof(path), "%s/%s", r->dirs[e->dir], e->base);
        if (k >= (int) sizeof(path))
                return &e->settings;
        n = read_file(path, r->buffer);
        if (n < 0)
                complain(r, "%s: Cannot be read, ignoring: %s", path, strerror((int) -n));
        if (n <= 0 || !memmem(r->buffer, (size_t) n, section, sizeof(section) - 1))
                return &e->settings;
        r->path = path;
        r->n_file_problems = 0;
        (void) unit_settings_parse(r->buffer, (size_t) n, &e->settings, on_problem, r);

        return &e->settings;
}

/* --- what goes for a unit --- */

typedef struct Chosen {
        Reader *reader;
        Entry *items[UNIT_DROPINS_MAX];
        size_t n;
        bool too_many;
} Chosen;

/* A file name that was chosen hides all later ones. */
static void choose(Chosen *c, const char *base, unsigned dir) {
        Reader *r = c->reader;

        for (size_t i = find_dropin(r, base, dir); i < r->dropins.n; i++) {
                Entry *e = &r->dropins.items[i];
                bool hidden = false;

                if (e->dir != dir || !streq(e->base, base))
                        break;
                for (size_t k = 0; k < c->n && !hidden; k++)
                        hidden = streq(c->items[k]->file, e->file);
                if (hidden)
                        continue;
                if (c->n >= UNIT_DROPINS_MAX) {
                        c->too_many = true;
                        return;
                }
                c->items[c->n++] = e;
        }
}

/* "foo-bar@x.service" -> "foo-@x.service", "foo-bar-.service" -> "foo-.service" */
static bool shorten(const char *name, char ret[static UNIT_NAME_MAX + 1]) {
        const char *dot = strrchr(name, '.'), *at = strchr(name, '@');
        const char *rest = is_instance(name) ? at : dot;
        size_t n = (size_t) ((at ?: dot) - name);

        if (n > 0 && name[n - 1] == '-')
                n--;
        while (n > 0 && name[n - 1] != '-')
                n--;
        if (n <= 1) /* no dash, or one at the beginning */
                return false;

        return snprintf(ret, UNIT_NAME_MAX + 1, "%.*s%s", (int) n, name, rest) <= UNIT_NAME_MAX;
}

/* The drop-ins of a name in one directory, the special ones first: its own, its template's, those of its prefixes. */
static void choose_by_name(Chosen *c, const char *name, unsigned dir) {
        char other[UNIT_NAME_MAX + 1];

        choose(c, name, dir);
        if (is_instance(name)) {
                template_of(name, other);
                choose_by_name(c, other, dir);
        }
        if (shorten(name, other))
                choose_by_name(c, other, dir);
}

static void choose_by_aliases(Chosen *c, const char *name) {
        Reader *r = c->reader;
        size_t low = 0, high = r->n_aliases, n = 0;

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (strcmp(r->aliases[middle].unit, name) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (; low < r->n_aliases && streq(r->aliases[low].unit, name) && n < ALIASES_MAX; low++, n++)
                for (unsigned dir = 0; dir < r->n_dirs; dir++)
                        choose_by_name(c, r->aliases[low].name, dir);
}

static int compare_file(const void *a, const void *b) {
        return strcmp((*(const Entry *const *) a)->file, (*(const Entry *const *) b)->file);
}

static Entry *unit_file(Reader *r, const char *name) {
        char template[UNIT_NAME_MAX + 1];
        Entry *e = find_unit(r, name);

        if (e || !is_instance(name))
                return e;
        template_of(name, template);

        return find_unit(r, template);
}

static UnitSettings resolve(Reader *r, const char *base) {
        UnitSettings s = { .alert = true };
        Chosen c = { .reader = r };
        bool is_type = !strchr(base, '.');
        Entry *e = NULL;

        if (!is_type) {
                if (!is_prefix(base))
                        e = unit_file(r, base);
                for (unsigned dir = 0; dir < r->n_dirs; dir++)
                        choose_by_name(&c, base, dir);
                choose_by_aliases(&c, base);
        }
        /* The type's are the least special ones, wherever they are. */
        for (unsigned dir = 0; dir < r->n_dirs; dir++)
                choose(&c, type_of(base), dir);
        if (c.too_many)
                complain(r, "%s has more than %d drop-ins, ignoring the rest.", base, UNIT_DROPINS_MAX);

        if (c.n > 0)
                qsort(c.items, c.n, sizeof(c.items[0]), compare_file);
        if (e)
                unit_settings_merge(&s, settings_of(r, e));
        for (size_t i = 0; i < c.n; i++)
                unit_settings_merge(&s, settings_of(r, c.items[i]));

        return s;
}

/* Patterns before names, and those that are about more units before others: only what differs is noted. */
static int compare_base(const void *a, const void *b) {
        const char *x = *(const char *const *) a, *y = *(const char *const *) b;
        char p[UNIT_NAME_MAX + 3] = "", q[UNIT_NAME_MAX + 3] = "";
        bool is_pattern[2];

        (void) pattern_of(x, p, sizeof(p));
        (void) pattern_of(y, q, sizeof(q));
        is_pattern[0] = strchr(p, '*');
        is_pattern[1] = strchr(q, '*');
        if (is_pattern[0] != is_pattern[1])
                return is_pattern[0] ? -1 : 1;
        if (is_pattern[0] && strlen(p) != strlen(q))
                return strlen(p) < strlen(q) ? -1 : 1;

        return strcmp(x, y);
}

static int note(Reader *r, UnitRules *rules, const char *base) {
        char name[UNIT_NAME_MAX + 3];
        const UnitSettings *general;
        UnitSettings s;
        int k;

        if (!pattern_of(base, name, sizeof(name)))
                return 0;
        s = resolve(r, base);
        general = unit_rules_match(rules, name);
        if (general ? unit_settings_equal(&s, general) : s.set == 0)
                return 0;
        k = unit_rules_add(rules, name, &s);
        if (k == -ENOBUFS || k == -EINVAL) {
                complain(r, "There are too many units with settings of their own, ignoring %s.", base);
                k = 0;
        }

        return k;
}

static int note_all(Reader *r, UnitRules *rules) {
        _cleanup_free_ const char **bases = calloc(r->units.n + r->dropins.n + 1, sizeof(char *));
        size_t n = 0;
        int k = 0;

        if (!bases)
                return -ENOMEM;
        for (size_t i = 0; i < r->units.n; i++)
                bases[n++] = real_name(r, r->units.items[i].base);
        for (size_t i = 0; i < r->dropins.n; i++)
                if (n == 0 || !streq(bases[n - 1], r->dropins.items[i].base))
                        bases[n++] = real_name(r, r->dropins.items[i].base);
        if (n > 0)
                qsort(bases, n, sizeof(char *), compare_base);
        for (size_t i = 0; i < n && k >= 0; i++)
                if (i == 0 || !streq(bases[i], bases[i - 1]))
                        k = note(r, rules, bases[i]);

        return k;
}

int unit_files_read(const char *const *dirs, UnitRules *ret, unit_files_problem problem, void *userdata) {
        _cleanup_(reader_done) Reader r = { .dirs = dirs, .problem = problem, .userdata = userdata };
        UnitRules rules = {};
        int k;

        r.buffer = malloc(UNIT_FILE_SIZE_MAX);
        if (!r.buffer)
                return -ENOMEM;
        k = list_all(&r);
        if (k >= 0)
                k = note_all(&r, &rules);
        if (k < 0) {
                unit_rules_done(&rules);
                return k;
        }
        *ret = rules;

        return 0;
}
