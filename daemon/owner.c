/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <search.h>
#include <time.h>

#include "cgroup-tree.h"
#include "names.h"
#include "owner.h"
#include "unit-path.h"

#define WALK_INTERVAL_NS (5 * NSEC_PER_SEC)

struct OwnerTable {
        Maps *maps;
        char *cgroup_root;
        void *tree; /* of Owner, by id (tsearch) */
        uint64_t walked_ns;
        uint64_t serial;
};

static int compare_owner(const void *a, const void *b) {
        const Owner *x = a, *y = b;

        return x->id < y->id ? -1 : x->id > y->id;
}

static void owner_free(void *p) {
        Owner *o = p;

        free(o->unit);
        free(o->user_unit);
        free(o->path);
        free(o);
}

int owner_table_new(OwnerTable **ret, Maps *maps) {
        OwnerTable *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        t->maps = maps;
        (void) cgroup_root(&t->cgroup_root); /* without one there are no owners but the kernel's */
        *ret = t;

        return 0;
}

OwnerTable *owner_table_free(OwnerTable *t) {
        if (!t)
                return NULL;
        tdestroy(t->tree, owner_free);
        free(t->cgroup_root);
        free(t);

        return NULL;
}

const char *owner_table_cgroup_root(OwnerTable *t) {
        return t->cgroup_root;
}

static int set_names(Owner *o, const char *unit, const char *user_unit) {
        char *u = strdup(unit), *v = NULL;

        if (!u)
                return -ENOMEM;
        if (!isempty(user_unit)) {
                v = strdup(user_unit);
                if (!v) {
                        free(u);
                        return -ENOMEM;
                }
        }
        free(o->unit);
        free(o->user_unit);
        o->unit = u;
        o->user_unit = v;

        return 0;
}

/* A folded id's name is "unit\nuserUnit". */
static int name_folded(Owner *o, const char *text) {
        _cleanup_free_ char *copy = strdup(text);
        char *nl;

        if (!copy)
                return -ENOMEM;
        nl = strchr(copy, '\n');
        if (nl)
                *nl++ = 0;

        return set_names(o, copy, nl);
}

static int name_cgroup(Owner *o, const char *path) {
        _cleanup_free_ char *unit = NULL, *user_unit = NULL;
        char *copy;
        int r;

        r = unit_path_decode(path, &unit, &user_unit, NULL);
        if (r == -ENOMEM)
                return r;
        copy = strdup(path);
        if (!copy)
                return -ENOMEM;
        free(o->path);
        o->path = copy;

        return set_names(o, r < 0 ? UNIT_UNKNOWN : unit, user_unit);
}

/* What is left of the path below the namespace that the loader ran in. */
static const char *skip_components(const char *path, unsigned n) {
        for (; n > 0; n--) {
                const char *next = *path ? strchr(path + 1, '/') : NULL;

                if (!next)
                        return "/";
                path = next;
        }

        return path;
}

static int name_from_map(OwnerTable *t, Owner *o) {
        struct cgroup_name n;

        if (bpf_map_lookup_elem(t->maps->names, &o->id, &n) < 0)
                return -errno;
        n.path[NAME_MAX_LEN - 1] = 0;
        if (n.len == 0) /* the birth is being recorded just now */
                return -ENOENT;
        o->died_ns = n.died_ns;
        if (!n.seen) {
                /* Counted before it had a name, so BPF could not note it. */
                n.seen = 1;
                (void) bpf_map_update_elem(t->maps->names, &o->id, &n, BPF_EXIST);
        }

        return o->id & OWNER_FOLDED ? name_folded(o, n.path) : name_cgroup(o, skip_components(n.path, n.skip));
}

static int walk_callback(uint64_t id, const char *path, void *userdata) {
        OwnerTable *t = userdata;
        struct cgroup_name n = {};

        n.len = MIN(strlen(path), (size_t) NAME_MAX_LEN - 1);
        memcpy(n.path, path, n.len);
        (void) bpf_map_update_elem(t->maps->names, &id, &n, BPF_NOEXIST);

        return 0;
}

/* Cgroups older than the programs whose name was lost or never known. Rarely, because it costs. */
static bool walk_tree(OwnerTable *t) {
        uint64_t now = now_ns();

        if (!t->cgroup_root || (t->walked_ns && now < t->walked_ns + WALK_INTERVAL_NS))
                return false;
        t->walked_ns = now;

        return cgroup_tree_walk(t->cgroup_root, walk_callback, t) >= 0;
}

typedef struct UnitSearch {
        OwnerTable *table;
        owner_unit_predicate wanted;
        void *userdata;
} UnitSearch;

static int find_callback(uint64_t id, const char *path, void *userdata) {
        _cleanup_free_ char *unit = NULL, *user_unit = NULL;
        UnitSearch *s = userdata;
        const Owner *o;
        int r;

        r = unit_path_decode(path, &unit, &user_unit, NULL);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        if (!s->wanted(unit, s->userdata) && !(user_unit && s->wanted(user_unit, s->userdata)))
                return 0;
        (void) walk_callback(id, path, s->table);

        return owner_table_get(s->table, id, &o);
}

int owner_table_find_units(OwnerTable *t, owner_unit_predicate wanted, void *userdata) {
        UnitSearch s = { .table = t, .wanted = wanted, .userdata = userdata };

        return t->cgroup_root ? cgroup_tree_walk(t->cgroup_root, find_callback, &s) : 0;
}

static bool is_same(const char *unit, void *userdata) {
        return streq(unit, userdata);
}

int owner_table_find_unit(OwnerTable *t, const char *unit) {
        return owner_table_find_units(t, is_same, (char *) unit);
}

static int resolve(OwnerTable *t, Owner *o) {
        int r;

        if (o->id == OWNER_KERNEL)
                return set_names(o, UNIT_KERNEL, NULL);
        r = name_from_map(t, o);
        if (r == -ENOENT && !(o->id & OWNER_FOLDED) && walk_tree(t))
                r = name_from_map(t, o);
        o->unknown = r == -ENOENT;
        if (r < 0 && r != -ENOMEM)
                r = set_names(o, UNIT_UNKNOWN, NULL);

        return r;
}

int owner_table_get(OwnerTable *t, uint64_t id, const Owner **ret) {
        Owner key = { .id = id }, *o, **found;
        int r;

        found = tfind(&key, &t->tree, compare_owner);
        if (found) {
                *ret = *found;
                return 0;
        }

        o = calloc(1, sizeof(*o));
        if (!o)
                return -ENOMEM;
        o->id = id;
        r = resolve(t, o);
        if (r < 0) {
                owner_free(o);
                return r;
        }
        if (!tsearch(o, &t->tree, compare_owner)) {
                owner_free(o);
                return -ENOMEM;
        }
        t->serial++;
        *ret = o;

        return 0;
}

typedef struct Walk {
        OwnerTable *table;
        owner_callback callback;
        void *userdata;
        int result;
} Walk;

static void walk_node(const void *node, VISIT visit, void *closure) {
        Walk *w = closure;

        if ((visit == postorder || visit == leaf) && w->result == 0)
                w->result = w->callback(*(const Owner *const *) node, w->userdata);
}

int owner_table_foreach(OwnerTable *t, owner_callback callback, void *userdata) {
        Walk w = { .table = t, .callback = callback, .userdata = userdata };

        twalk_r(t->tree, walk_node, &w);

        return w.result;
}

static int refresh_one(const Owner *o, void *userdata) {
        OwnerTable *t = userdata;
        struct cgroup_name n;

        if (o->id == OWNER_KERNEL || o->died_ns)
                return 0;
        if (o->unknown) {
                t->serial++;
                return resolve(t, (Owner *) o);
        }
        if (bpf_map_lookup_elem(t->maps->names, &o->id, &n) >= 0)
                ((Owner *) o)->died_ns = n.died_ns;
        if (o->died_ns)
                t->serial++;

        return 0;
}

int owner_table_refresh(OwnerTable *t) {
        return owner_table_foreach(t, refresh_one, t);
}

void owner_table_forget(OwnerTable *t, uint64_t id) {
        Owner key = { .id = id }, **found = tfind(&key, &t->tree, compare_owner), *o;

        if (!found)
                return;
        o = *found;
        tdelete(&key, &t->tree, compare_owner);
        owner_free(o);
        t->serial++;
}

uint64_t owner_table_serial(const OwnerTable *t) {
        return t->serial;
}

int owner_table_folded_id(OwnerTable *t, const char *unit, const char *user_unit, uint64_t *ret) {
        struct cgroup_name n = { .seen = 1 };
        uint64_t id;
        int len;

        len = snprintf(n.path, sizeof(n.path), "%s%s%s", unit, user_unit ? "\n" : "", strempty(user_unit));
        n.len = MIN(len, NAME_MAX_LEN - 1);
        id = hash_bytes(n.path, strlen(n.path)) | OWNER_FOLDED;
        n.died_ns = now_ns();
        if (bpf_map_update_elem(t->maps->names, &id, &n, BPF_ANY) < 0)
                return -errno;
        *ret = id;

        return 0;
}
