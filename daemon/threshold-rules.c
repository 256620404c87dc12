/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fnmatch.h>
#include <search.h>

#include "threshold-rules.h"

void threshold_rules_init(ThresholdRules *r) {
        *r = (ThresholdRules){ .sync_ns = UINT64_MAX, .write_ns = UINT64_MAX, .trace_all_ns = UINT64_MAX };
}

static void rule_free(void *p) {
        ThresholdRule *rule = p;

        free(rule->unit);
        free(rule);
}

static void forget_traces(ThresholdRules *r) {
        for (size_t i = 0; i < r->n_traced; i++)
                free(r->traced[i]);
        r->n_traced = 0;
        r->trace_all_ns = UINT64_MAX;
}

void threshold_rules_done(ThresholdRules *r) {
        tdestroy(r->units, rule_free);
        for (size_t i = 0; i < r->n_patterns; i++)
                rule_free(r->patterns[i]);
        forget_traces(r);
        threshold_rules_init(r);
}

static int compare_rule(const void *a, const void *b) {
        const ThresholdRule *x = a, *y = b;

        return strcmp(x->unit, y->unit);
}

static ThresholdRule *find_unit(const ThresholdRules *r, const char *unit) {
        ThresholdRule key = { .unit = (char *) unit }, **found = tfind(&key, &r->units, compare_rule);

        return found ? *found : NULL;
}

static bool is_pattern(const char *s) {
        return strpbrk(s, "*?[");
}

static int set_pattern(ThresholdRules *r, ThresholdRule *rule, bool forget) {
        size_t i;

        for (i = 0; i < r->n_patterns; i++)
                if (streq(r->patterns[i]->unit, rule->unit))
                        break;
        if (forget) {
                if (i < r->n_patterns) {
                        rule_free(r->patterns[i]);
                        memmove(&r->patterns[i], &r->patterns[i + 1],
                                (r->n_patterns - i - 1) * sizeof(r->patterns[0]));
                        r->n_patterns--;
                }
                rule_free(rule);
                return 0;
        }
        if (i >= ELEMENTSOF(r->patterns)) {
                rule_free(rule);
                return -ENOBUFS;
        }
        if (i < r->n_patterns)
                rule_free(r->patterns[i]);
        else
                r->n_patterns++;
        r->patterns[i] = rule;

        return 0;
}

static void forget_unit(ThresholdRules *r, const char *unit) {
        ThresholdRule *old = find_unit(r, unit);

        if (!old)
                return;
        tdelete(old, &r->units, compare_rule);
        r->n_units--;
        rule_free(old);
}

int threshold_rules_set_unit(ThresholdRules *r, const char *unit, uint64_t sync_ns, uint64_t write_ns) {
        bool forget = sync_ns == THRESHOLD_GENERAL && write_ns == THRESHOLD_GENERAL;
        ThresholdRule *rule = calloc(1, sizeof(*rule));

        if (!rule)
                return -ENOMEM;
        *rule = (ThresholdRule){ .unit = strdup(unit), .sync_ns = sync_ns, .write_ns = write_ns };
        if (!rule->unit) {
                rule_free(rule);
                return -ENOMEM;
        }
        if (is_pattern(unit))
                return set_pattern(r, rule, forget);

        forget_unit(r, unit);
        if (forget || r->n_units >= THRESHOLD_UNITS_MAX) {
                rule_free(rule);
                return forget ? 0 : -ENOBUFS;
        }
        if (!tsearch(rule, &r->units, compare_rule)) {
                rule_free(rule);
                return -ENOMEM;
        }
        r->n_units++;

        return 0;
}

int threshold_rules_set_traces(ThresholdRules *r, const ThresholdTrace *traces, size_t n) {
        forget_traces(r);
        for (size_t i = 0; i < n; i++) {
                if (traces[i].unit[0] == 0) {
                        r->trace_all_ns = MIN(r->trace_all_ns, traces[i].min_ns);
                        continue;
                }
                if (r->n_traced >= ELEMENTSOF(r->traced))
                        return -ENOBUFS;
                r->traced[r->n_traced] = strdup(traces[i].unit);
                if (!r->traced[r->n_traced])
                        return -ENOMEM;
                r->traced_ns[r->n_traced++] = traces[i].min_ns;
        }

        return 0;
}

bool threshold_rules_any(const ThresholdRules *r) {
        return r->n_units > 0 || r->n_patterns > 0 || r->n_traced > 0;
}

static const ThresholdRule *find_rule(const ThresholdRules *r, const char *unit) {
        const ThresholdRule *rule = find_unit(r, unit);

        for (size_t i = 0; i < r->n_patterns && !rule; i++)
                if (fnmatch(r->patterns[i]->unit, unit, FNM_NOESCAPE) == 0)
                        rule = r->patterns[i];

        return rule;
}

bool threshold_rules_get(const ThresholdRules *r, const char *unit, const char *user_unit,
                         struct owner_settings *ret) {
        const ThresholdRule *rule = find_rule(r, unit);
        bool said = rule;

        *ret = (struct owner_settings){ r->sync_ns, r->write_ns, r->trace_all_ns };
        if (rule && rule->sync_ns != THRESHOLD_GENERAL)
                ret->sync_record_ns = rule->sync_ns;
        if (rule && rule->write_ns != THRESHOLD_GENERAL)
                ret->write_record_ns = rule->write_ns;
        for (size_t i = 0; i < r->n_traced; i++)
                if (streq(r->traced[i], unit) || (user_unit && streq(r->traced[i], user_unit))) {
                        ret->trace_ns = MIN((uint64_t) ret->trace_ns, r->traced_ns[i]);
                        said = true;
                }

        return said;
}

uint64_t threshold_rules_floor(const ThresholdRules *r, const struct owner_settings *own, size_t n) {
        uint64_t floor = UINT64_MAX;

        for (size_t i = 0; i < n; i++) {
                floor = MIN(floor, (uint64_t) own[i].sync_record_ns);
                floor = MIN(floor, (uint64_t) own[i].write_record_ns);
                floor = MIN(floor, (uint64_t) own[i].trace_ns);
        }

        return n > 0 ? MIN(floor, MIN(r->sync_ns, r->write_ns)) : floor;
}
