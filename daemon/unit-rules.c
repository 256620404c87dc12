/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fnmatch.h>
#include <search.h>

#include "unit-rules.h"

static int compare_rule(const void *a, const void *b) {
        const UnitRule *x = a, *y = b;

        return strcmp(x->name, y->name);
}

static void rule_free(void *p) {
        UnitRule *rule = p;

        free(rule->name);
        free(rule);
}

void unit_rules_done(UnitRules *r) {
        tdestroy(r->units, rule_free);
        for (size_t i = 0; i < r->n_patterns; i++)
                free(r->patterns[i].name);
        *r = (UnitRules){};
}

static int add_pattern(UnitRules *r, const char *name, const UnitSettings *settings) {
        size_t i;
        char *copy;

        for (i = 0; i < r->n_patterns && strlen(r->patterns[i].name) >= strlen(name); i++)
                if (streq(r->patterns[i].name, name)) {
                        r->patterns[i].settings = *settings;
                        return 0;
                }
        if (r->n_patterns >= ELEMENTSOF(r->patterns))
                return -ENOBUFS;
        copy = strdup(name);
        if (!copy)
                return -ENOMEM;
        memmove(&r->patterns[i + 1], &r->patterns[i], (r->n_patterns - i) * sizeof(r->patterns[0]));
        r->patterns[i] = (UnitRule){ copy, *settings };
        r->n_patterns++;

        return 0;
}

int unit_rules_add(UnitRules *r, const char *name, const UnitSettings *settings) {
        UnitRule key = { .name = (char *) name }, **found, *rule;

        if (isempty(name) || strlen(name) > UNIT_RULE_NAME_MAX)
                return -EINVAL;
        if (strpbrk(name, "*?["))
                return add_pattern(r, name, settings);

        found = tfind(&key, &r->units, compare_rule);
        if (found) {
                (*found)->settings = *settings;
                return 0;
        }
        if (r->n_units >= UNIT_RULES_MAX)
                return -ENOBUFS;
        rule = calloc(1, sizeof(*rule));
        if (!rule)
                return -ENOMEM;
        *rule = (UnitRule){ strdup(name), *settings };
        if (!rule->name || !tsearch(rule, &r->units, compare_rule)) {
                rule_free(rule);
                return -ENOMEM;
        }
        r->n_units++;

        return 0;
}

static const UnitRule *match(const UnitRules *r, const char *unit) {
        for (size_t i = 0; i < r->n_patterns; i++)
                if (!streq(r->patterns[i].name, unit) && fnmatch(r->patterns[i].name, unit, FNM_NOESCAPE) == 0)
                        return &r->patterns[i];

        return NULL;
}

static const UnitRule *find(const UnitRules *r, const char *unit) {
        UnitRule key = { .name = (char *) unit }, **found = tfind(&key, &r->units, compare_rule);

        return found ? *found : match(r, unit);
}

const UnitSettings *unit_rules_match(const UnitRules *r, const char *unit) {
        const UnitRule *rule = match(r, unit);

        return rule ? &rule->settings : NULL;
}

const UnitSettings *unit_rules_get(const UnitRules *r, const char *unit) {
        const UnitRule *rule = find(r, unit);

        return rule ? &rule->settings : NULL;
}

const char *unit_rules_name(const UnitRules *r, const char *unit) {
        const UnitRule *rule = find(r, unit);

        return rule && rule->name[0] != '*' ? rule->name : NULL;
}

typedef struct Walk {
        unit_rule_callback callback;
        void *userdata;
        int result;
} Walk;

static void walk_node(const void *node, VISIT visit, void *closure) {
        const UnitRule *rule = *(const UnitRule *const *) node;
        Walk *w = closure;

        if ((visit == postorder || visit == leaf) && w->result == 0)
                w->result = w->callback(rule->name, &rule->settings, w->userdata);
}

int unit_rules_foreach(const UnitRules *r, unit_rule_callback callback, void *userdata) {
        Walk w = { .callback = callback, .userdata = userdata };

        twalk_r(r->units, walk_node, &w);
        for (size_t i = 0; i < r->n_patterns && w.result == 0; i++)
                w.result = callback(r->patterns[i].name, &r->patterns[i].settings, userdata);

        return w.result;
}
