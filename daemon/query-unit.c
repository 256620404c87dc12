/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "manager.h"
#include "unit-path.h"

/* The own cgroup of the unit, if one below it exists that was counted. */
typedef struct FindPath {
        const char *unit;
        const Owner *owner;
        unsigned n;
} FindPath;

static int find_path(const Owner *o, void *userdata) {
        FindPath *f = userdata;

        if (!o->path || o->died_ns || !streq(o->unit, f->unit))
                return 0;
        f->n++;
        if (!f->owner)
                f->owner = o;

        return 0;
}

static int add_steps(Manager *m, const char *unit, uint64_t step_ns[_STEP_MAX]) {
        bool known = false;
        Series *const *all;
        size_t n;
        int r;

        all = series_table_all(m->series, &n);
        for (size_t i = 0; i < n; i++) {
                struct op_value v;

                if (!streq(all[i]->unit, unit))
                        continue;
                known = true;
                if (all[i]->is_request || all[i]->is_age)
                        continue;
                r = series_read_op(m->series, all[i], false, &v);
                if (r < 0)
                        return r;
                for (size_t k = 0; k < _STEP_MAX; k++)
                        step_ns[k] += v.step_ns[k];
        }

        return known ? 0 : -ENOENT;
}

/* A unit that has just begun is not in what was read a moment ago. */
static int look_up(Manager *m, const char *unit, uint64_t step_ns[_STEP_MAX]) {
        int r;

        r = manager_refresh(m);
        if (r < 0)
                return r;
        r = add_steps(m, unit, step_ns);
        if (r != -ENOENT || !manager_refresh_again(m))
                return r;

        return add_steps(m, unit, step_ns);
}

int query_unit(Manager *m, const char *unit, UnitSummary *ret) {
        /* Valid until the next call, which is all that the interface promises. */
        static char *control_group = NULL;
        static char invocation_id[33];
        FindPath f = { .unit = unit };
        int r;

        *ret = (UnitSummary){ .unit = unit };
        r = look_up(m, unit, ret->step_ns);
        if (r < 0)
                return r;

        (void) owner_table_foreach(m->owners, find_path, &f);
        ret->current_ids = f.n;
        if (f.owner) {
                free(control_group);
                control_group = NULL;
                if (unit_path_of_unit(f.owner->path, &control_group) >= 0)
                        ret->control_group = control_group;
                if (manager_invocation_id(m, f.owner, invocation_id) >= 0)
                        ret->current_invocation_id = invocation_id;
        }
        ret->description = manager_description(m, unit);

        return 0;
}
