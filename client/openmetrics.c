/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>

#include "openmetrics.h"

enum {
        SCIENTIFIC_BELOW = 100000, /* ns: 1e-4 s, as Go does, so that edges are spelt as by everyone else */
        FRACTION_DIGITS = 9,
};

const char *metric_format_content_type(MetricFormat format) {
        return format == METRIC_FORMAT_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8" :
                                                     "text/plain; version=0.0.4; charset=utf-8";
}

static void strip_zeros(char *s) {
        for (size_t n = strlen(s); n > 0 && s[n - 1] == '0'; n--)
                s[n - 1] = 0;
}

const char *metric_format_seconds(char buf[static METRIC_SECONDS_MAX], uint64_t ns) {
        char digits[METRIC_SECONDS_MAX / 2 + 8];

        if (ns % NSEC_PER_SEC == 0) {
                (void) snprintf(buf, METRIC_SECONDS_MAX, "%" PRIu64, ns / NSEC_PER_SEC);
                return buf;
        }
        if (ns >= SCIENTIFIC_BELOW) {
                (void) snprintf(digits, sizeof(digits), "%0*" PRIu64, FRACTION_DIGITS, ns % NSEC_PER_SEC);
                strip_zeros(digits);
                (void) snprintf(buf, METRIC_SECONDS_MAX, "%" PRIu64 ".%s", ns / NSEC_PER_SEC, digits);
                return buf;
        }
        {
                int exponent = (int) snprintf(digits, sizeof(digits), "%" PRIu64, ns) - 1 - FRACTION_DIGITS;

                strip_zeros(digits);
                (void) snprintf(buf, METRIC_SECONDS_MAX, "%c%s%se-%02d", digits[0], digits[1] ? "." : "", digits + 1,
                                -exponent);
        }

        return buf;
}

/* What ends the name of a sample, and in the older format the name of the metric as well. */
static const char *suffix(const MetricDef *d) {
        return streq(d->type, "counter") ? "_total" : streq(d->type, "info") ? "_info" : "";
}

static void write_escaped(const char *s, bool quotes, FILE *f) {
        for (; *s; s++)
                switch (*s) {
                case '\n':
                        fputs("\\n", f);
                        break;
                case '\\':
                        fputs("\\\\", f);
                        break;
                case '"':
                        fputs(quotes ? "\\\"" : "\"", f);
                        break;
                default:
                        fputc(*s, f);
                }
}

static void write_head(const MetricDef *d, MetricFormat format, FILE *f) {
        bool open = format == METRIC_FORMAT_OPENMETRICS;
        const char *end = open ? "" : suffix(d);

        fprintf(f, "# HELP %s%s ", d->name, end);
        write_escaped(d->help, open, f);
        fprintf(f, "\n# TYPE %s%s %s\n", d->name, end, open || !streq(d->type, "info") ? d->type : "gauge");
        if (open && d->unit)
                fprintf(f, "# UNIT %s %s\n", d->name, d->unit);
}

/* Name and labels. le: the one of a bucket, or NULL. */
static void write_name(const MetricSet *s, const MetricPoint *p, const char *end, const char *le, FILE *f) {
        const MetricDef *d = &metric_defs[p->family];
        unsigned n = metric_n_labels(p->family);

        fprintf(f, "%s%s", d->name, end);
        if (n == 0 && !le) {
                fputc(' ', f);
                return;
        }
        for (unsigned i = 0; i < n; i++) {
                fprintf(f, "%c%s=\"", i == 0 ? '{' : ',', d->labels[i]);
                write_escaped(metric_set_text(s, p->labels[i]), true, f);
                fputc('"', f);
        }
        if (le)
                fprintf(f, "%cle=\"%s\"", n == 0 ? '{' : ',', le);
        fputs("} ", f);
}

/* The count is that of the buckets, because the last one must not differ from it. */
static void write_histogram(const MetricSet *s, const MetricPoint *p, FILE *f) {
        char seconds[METRIC_SECONDS_MAX];
        uint64_t count = 0;

        for (unsigned i = 0; i < METRIC_BUCKETS; i++) {
                bool last = i == METRIC_BUCKETS - 1;

                count += p->buckets[i];
                write_name(s, p, "_bucket", last ? "+Inf" : metric_format_seconds(seconds, bucket_short_upper(i)), f);
                fprintf(f, "%" PRIu64 "\n", count);
        }
        write_name(s, p, "_sum", NULL, f);
        fprintf(f, "%s\n", metric_format_seconds(seconds, p->value));
        write_name(s, p, "_count", NULL, f);
        fprintf(f, "%" PRIu64 "\n", count);
}

static void write_number(const MetricSet *s, const MetricPoint *p, FILE *f) {
        const MetricDef *d = &metric_defs[p->family];
        char seconds[METRIC_SECONDS_MAX];

        write_name(s, p, suffix(d), NULL, f);
        if (d->unit && streq(d->unit, "seconds"))
                fprintf(f, "%s\n", metric_format_seconds(seconds, p->value));
        else
                fprintf(f, "%" PRIu64 "\n", p->value);
}

void openmetrics_write(const MetricSet *s, MetricFormat format, FILE *f) {
        const MetricPoint *points;
        size_t n;

        points = metric_set_points(s, &n);
        for (size_t i = 0; i < n; i++) {
                if (i == 0 || points[i].family != points[i - 1].family)
                        write_head(&metric_defs[points[i].family], format, f);
                if (points[i].buckets)
                        write_histogram(s, &points[i], f);
                else
                        write_number(s, &points[i], f);
        }
        if (format == METRIC_FORMAT_OPENMETRICS)
                fputs("# EOF\n", f);
}
