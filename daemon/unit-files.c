/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "text-escape.h"
#include "unit-files.h"
#include "unit-listing.h"
#include "unit-names.h"

enum {
        FILE_PROBLEMS_MAX = 16, /* in one file */
};

typedef struct Reader {
        UnitListing listing;
        char *buffer; /* of UNIT_FILE_SIZE_MAX */
        unit_files_problem problem;
        void *userdata;
        unsigned n_problems;
        /* The file that is being read. */
        const char *path;
        unsigned n_file_problems;
} Reader;

static void reader_done(Reader *r) {
        unit_listing_done(&r->listing);
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

static const UnitSettings *settings_of(Reader *r, UnitEntry *e) {
        static const char section[] = "[X-Iolat]";
        char path[PATH_MAX];
        ssize_t n;
        int k;

        if (e->read)
                return &e->settings;
        e->read = true;
        if (e->file)
                k = snprintf(path, sizeof(path), "%s/%s.d/%s", r->listing.dirs[e->dir], e->base, e->file);
        else
                k = snprintf(path, sizeof(path), "%s/%s", r->listing.dirs[e->dir], e->base);
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

typedef struct Chosen {
        Reader *reader;
        UnitEntry *items[UNIT_DROPINS_MAX];
        size_t n;
        bool too_many;
} Chosen;

/* A file name that was chosen hides all later ones. */
static void choose(Chosen *c, const char *base, unsigned dir) {
        Reader *r = c->reader;

        for (size_t i = unit_listing_dropins(&r->listing, base, dir); i < r->listing.dropins.n; i++) {
                UnitEntry *e = &r->listing.dropins.items[i];
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

/* The drop-ins of a name in one directory, the special ones first: its own, its template's, those of its prefixes. */
static void choose_by_name(Chosen *c, const char *name, unsigned dir) {
        char other[UNIT_NAME_MAX + 1];

        choose(c, name, dir);
        if (unit_name_is_instance(name)) {
                unit_template_of(name, other);
                choose_by_name(c, other, dir);
        }
        if (unit_name_shorten(name, other))
                choose_by_name(c, other, dir);
}

static void choose_by_aliases(Chosen *c, const char *name) {
        const UnitListing *l = &c->reader->listing;
        size_t n = 0;

        for (size_t i = unit_listing_aliases(l, name); i < l->n_aliases && n < UNIT_ALIASES_MAX; i++, n++) {
                if (!streq(l->aliases[i].unit, name))
                        break;
                for (unsigned dir = 0; dir < l->n_dirs; dir++)
                        choose_by_name(c, l->aliases[i].name, dir);
        }
}

static int compare_file(const void *a, const void *b) {
        return strcmp((*(const UnitEntry *const *) a)->file, (*(const UnitEntry *const *) b)->file);
}

static UnitSettings resolve(Reader *r, const char *base) {
        UnitSettings s = { .alert = true };
        Chosen c = { .reader = r };
        bool is_type = !strchr(base, '.');
        UnitEntry *e = NULL;

        if (!is_type) {
                if (!unit_name_is_prefix(base))
                        e = unit_listing_file(&r->listing, base);
                for (unsigned dir = 0; dir < r->listing.n_dirs; dir++)
                        choose_by_name(&c, base, dir);
                choose_by_aliases(&c, base);
        }
        /* The type's are the least special ones, wherever they are. */
        for (unsigned dir = 0; dir < r->listing.n_dirs; dir++)
                choose(&c, unit_type_of(base), dir);
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

        (void) unit_pattern_of(x, p, sizeof(p));
        (void) unit_pattern_of(y, q, sizeof(q));
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

        if (!unit_pattern_of(base, name, sizeof(name)))
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
        _cleanup_free_ const char **bases = calloc(r->listing.units.n + r->listing.dropins.n + 1, sizeof(char *));
        size_t n = 0;
        int k = 0;

        if (!bases)
                return -ENOMEM;
        for (size_t i = 0; i < r->listing.units.n; i++)
                bases[n++] = unit_listing_real_name(&r->listing, r->listing.units.items[i].base);
        for (size_t i = 0; i < r->listing.dropins.n; i++)
                if (n == 0 || !streq(bases[n - 1], r->listing.dropins.items[i].base))
                        bases[n++] = unit_listing_real_name(&r->listing, r->listing.dropins.items[i].base);
        if (n > 0)
                qsort(bases, n, sizeof(char *), compare_base);
        for (size_t i = 0; i < n && k >= 0; i++)
                if (i == 0 || !streq(bases[i], bases[i - 1]))
                        k = note(r, rules, bases[i]);

        return k;
}

int unit_files_read(const char *const *dirs, UnitRules *ret, unit_files_problem problem, void *userdata) {
        _cleanup_(reader_done) Reader r = { .problem = problem, .userdata = userdata };
        UnitRules rules = {};
        int k;

        r.buffer = malloc(UNIT_FILE_SIZE_MAX);
        if (!r.buffer)
                return -ENOMEM;
        k = unit_listing_read(&r.listing, dirs);
        if (r.listing.too_many)
                complain(&r, "There are more than %d unit files, ignoring the rest.", UNIT_FILES_MAX);
        if (k >= 0)
                k = note_all(&r, &rules);
        if (k < 0) {
                unit_rules_done(&rules);
                return k;
        }
        *ret = rules;

        return 0;
}
