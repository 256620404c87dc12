/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>

#include "alert.h"
#include "journal-send.h"
#include "log.h"
#include "message-ids.h"
#include "names.h"
#include "text-escape.h"

enum {
        ALERT_FIELDS_MAX = 19 + _PHASE_MAX + _STEP_MAX,
        ALERT_TEXT_MAX = 4096, /* bytes of all text of one entry, in IOLAT_*= and in MESSAGE= */
        ALERT_WORD_MAX = 512,  /* bytes of one name from outside */
        SPAN_MAX = 32,
        UNIT_NAME_MAX = 256, /* bytes, with the final NUL: systemd's own limit */
        MOSTLY_PERCENT = 50, /* of the transaction are another unit's: it is named in the message */
};

/* The fields of one entry, and the text that they point to. */
typedef struct Alert {
        JournalField fields[ALERT_FIELDS_MAX];
        size_t n_fields;
        char text[ALERT_TEXT_MAX];
        size_t used;
} Alert;

static void add(Alert *a, const char *name, const char *value) {
        if (a->n_fields < ELEMENTSOF(a->fields))
                a->fields[a->n_fields++] = JOURNAL_FIELD_STRING(name, value);
}

/* Formats into the text of the entry. What does not fit is left out rather than cut. */
static _printf_(2, 3) const char *format_text(Alert *a, const char *format, ...) {
        char *p = a->text + a->used;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vsnprintf(p, sizeof(a->text) - a->used, format, ap);
        va_end(ap);
        if (n < 0 || (size_t) n >= sizeof(a->text) - a->used)
                return NULL;
        a->used += (size_t) n + 1;

        return p;
}

static void add_usec(Alert *a, const char *name, uint64_t ns) {
        const char *value = format_text(a, "%" PRIu64, ns / NSEC_PER_USEC);

        if (name && value)
                add(a, name, value);
}

/* "journal" -> "IOLAT_PHASE_JOURNAL_USEC" */
static const char *usec_field_name(Alert *a, const char *kind, const char *word) {
        char upper[32];
        size_t i;

        for (i = 0; i < sizeof(upper) - 1 && word[i]; i++)
                upper[i] = (char) (isalnum((unsigned char) word[i]) ? toupper((unsigned char) word[i]) : '_');
        upper[i] = 0;

        return format_text(a, "IOLAT_%s_%s_USEC", kind, upper);
}

static void add_parts(Alert *a, const char *kind, const char *(*name_of)(int), const unsigned long long *ns,
                      int n) {
        for (int i = 0; i < n; i++)
                if (ns[i] > 0 && name_of(i))
                        add_usec(a, usec_field_name(a, kind, name_of(i)), ns[i]);
}

/* "1.250s", "340ms", "12us" */
static const char *format_span(uint64_t ns, char buf[static SPAN_MAX]) {
        if (ns >= NSEC_PER_SEC)
                (void) snprintf(buf, SPAN_MAX, "%" PRIu64 ".%03" PRIu64 "s", ns / NSEC_PER_SEC,
                                ns % NSEC_PER_SEC / NSEC_PER_MSEC);
        else if (ns >= NSEC_PER_MSEC)
                (void) snprintf(buf, SPAN_MAX, "%" PRIu64 "ms", ns / NSEC_PER_MSEC);
        else
                (void) snprintf(buf, SPAN_MAX, "%" PRIu64 "us", ns / NSEC_PER_USEC);

        return buf;
}

static uint64_t phase_ns(const StallRow *stall) {
        int phase = phase_from_string(strempty(stall->dominant_phase));

        return phase >= 0 ? stall->record->phase_ns[phase] : 0;
}

/* The journal takes any value of OBJECT_SYSTEMD_UNIT=, but it should only ever be a unit. */
static bool is_unit_name(const char *s) {
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@");

        return s[n] == 0 && n < UNIT_NAME_MAX && strchr(s, '.');
}

/* After a failed sync, data that a program believes written may be gone; a failed read loses nothing. */
static bool is_failed_sync(const struct stall *record) {
        return record->error < 0 && record->op <= OP_SYNCWRITE;
}

/* Who has the largest part in the transaction that was waited for most of the time; NULL if that is not known. */
static const StallOwner *find_culprit(const StallRow *stall) {
        bool journal = stall->dominant_phase && phase_from_string(stall->dominant_phase) == PHASE_JOURNAL;

        return journal && stall->n_owners > 0 ? &stall->owners[0] : NULL;
}

static unsigned percent(double share) {
        return share >= 1 ? 100 : share > 0 ? (unsigned) (share * 100 + .5) : 0;
}

/* ", mostly because of a.service", if it is another unit. */
static const char *format_culprit(const StallRow *stall, char *buf, size_t size) {
        const StallOwner *culprit = find_culprit(stall);
        char name[ALERT_WORD_MAX];

        buf[0] = 0;
        if (culprit && !streq(culprit->unit, stall->unit) && is_unit_name(culprit->unit) &&
            percent(culprit->share) >= MOSTLY_PERCENT)
                (void) snprintf(buf, size, ", mostly because of %s",
                                text_escape(culprit->unit, /* controls= */ true, name, sizeof(name)));

        return buf;
}

static const char *make_message(Alert *a, const StallRow *stall, const char *unit, const char *where) {
        char total[SPAN_MAX], part[SPAN_MAX], most[2 * SPAN_MAX + 32] = "", culprit[ALERT_WORD_MAX + 32];
        const char *op = strempty(stall->op);
        uint64_t ns = phase_ns(stall);

        (void) format_span(stall->record->total_ns, total);
        (void) format_culprit(stall, culprit, sizeof(culprit));
        if (ns > 0)
                (void) snprintf(most, sizeof(most), ", %s of it in phase %s", format_span(ns, part),
                                stall->dominant_phase);

        if (stall->record->error < 0)
                return format_text(a, "%s: %s on %s failed with %s after %s%s%s.", unit, op, where,
                                   stall->error ?: "an error", total, most,
                                   is_failed_sync(stall->record) ? "; written data may be lost" : "");
        if (stall->in_progress)
                return format_text(a, "%s: %s on %s has not returned for %s, now in phase %s for %s%s.", unit, op,
                                   where, total, strempty(stall->dominant_phase),
                                   format_span(stall->record->wait_ns, part), culprit);

        return format_text(a, "%s: %s on %s took %s%s%s.", unit, op, where, total, most, culprit);
}

static void add_culprit(Alert *a, const StallRow *stall) {
        const StallOwner *culprit = find_culprit(stall);
        char buf[ALERT_WORD_MAX];
        const char *name, *share;

        if (!culprit)
                return;
        name = format_text(a, "%s", text_escape(culprit->unit, /* controls= */ true, buf, sizeof(buf)));
        share = format_text(a, "%u", percent(culprit->share));
        if (name && share) {
                add(a, "IOLAT_CULPRIT", name);
                add(a, "IOLAT_CULPRIT_SHARE", share);
        }
}

static void add_device(Alert *a, uint32_t dev, const char *mount_point) {
        char buf[DEVICE_TEXT_MAX];
        const char *device = format_text(a, "%s", device_text(dev, buf));

        if (device)
                add(a, "IOLAT_DEVICE", device);
        if (mount_point)
                add(a, "IOLAT_MOUNT_POINT", mount_point);
}

static void add_unit(Alert *a, const char *unit, const char *escaped, const char *invocation_id) {
        add(a, "SYSLOG_IDENTIFIER", "iolatd");
        if (is_unit_name(unit)) {
                add(a, "OBJECT_SYSTEMD_UNIT", unit);
                if (invocation_id && strlen(invocation_id) == 32)
                        add(a, "OBJECT_SYSTEMD_INVOCATION_ID", invocation_id);
        }
        add(a, "IOLAT_UNIT", escaped);
}

int alert_send(const StallRow *stall, const char *invocation_id) {
        const struct stall *record = stall->record;
        char unit_buf[ALERT_WORD_MAX], mount_buf[ALERT_WORD_MAX], device[DEVICE_TEXT_MAX];
        const char *unit = text_escape(stall->unit, /* controls= */ true, unit_buf, sizeof(unit_buf));
        const char *mount_point = NULL, *message;
        bool failed = is_failed_sync(record);
        Alert a;

        a.n_fields = a.used = 0;
        (void) device_text(record->dev, device);
        if (stall->mount_point)
                mount_point = text_escape(stall->mount_point, /* controls= */ true, mount_buf, sizeof(mount_buf));

        message = make_message(&a, stall, unit, mount_point ?: device);
        if (!message)
                return -E2BIG;
        add(&a, "MESSAGE", message);
        add(&a, "MESSAGE_ID", failed             ? MESSAGE_ID_SYNC_FAILED :
                            stall->in_progress ? MESSAGE_ID_STALL_IN_PROGRESS :
                                                 MESSAGE_ID_STALL);
        a.fields[a.n_fields++] = JOURNAL_FIELD_PRIORITY(failed ? LOG_ERR : LOG_WARNING);
        add_unit(&a, stall->unit, unit, invocation_id);
        add(&a, "IOLAT_OP", strempty(stall->op));
        add_usec(&a, "IOLAT_TOTAL_USEC", record->total_ns);
        if (stall->dominant_phase)
                add(&a, "IOLAT_PHASE", stall->dominant_phase);
        if (stall->in_progress)
                add_usec(&a, "IOLAT_WAIT_USEC", record->wait_ns);
        add_parts(&a, "PHASE", phase_to_string, record->phase_ns, _PHASE_MAX);
        add_parts(&a, "STEP", journal_step_to_string, record->step_ns, _STEP_MAX);
        add_culprit(&a, stall);
        add_device(&a, record->dev, mount_point);
        if (stall->error)
                add(&a, "IOLAT_ERROR", stall->error);

        return journal_send(a.fields, a.n_fields);
}

static void add_number(Alert *a, const char *name, uint64_t n) {
        const char *value = format_text(a, "%" PRIu64, n);

        if (value)
                add(a, name, value);
}

int alert_send_suppressed(const char *unit, const Suppressed *suppressed, uint64_t span_ns, const char *mount_point) {
        char unit_buf[ALERT_WORD_MAX], mount_buf[ALERT_WORD_MAX], device[DEVICE_TEXT_MAX], total[SPAN_MAX], span[SPAN_MAX];
        const char *escaped = text_escape(unit, /* controls= */ true, unit_buf, sizeof(unit_buf)), *message;
        const AlertSubject *worst = &suppressed->worst;
        const char *op = op_to_string(worst->op) ?: "unknown";
        Alert a;

        a.n_fields = a.used = 0;
        (void) device_text(worst->dev, device);
        if (mount_point)
                mount_point = text_escape(mount_point, /* controls= */ true, mount_buf, sizeof(mount_buf));
        (void) format_span(worst->total_ns, total);
        (void) format_span(span_ns, span);
        if (suppressed->n_failed > 0)
                message = format_text(&a, "%s: %" PRIu64 " more entries about storage within %s were left out, "
                                          "%" PRIu64 " of them about syncs that failed; written data may be lost. "
                                          "The longest of these: %s on %s, after %s.",
                                      escaped, suppressed->n, span, suppressed->n_failed, op, mount_point ?: device,
                                      total);
        else
                message = format_text(&a, "%s: %" PRIu64 " more entries about storage within %s were left out. "
                                          "The longest stall: %s on %s took %s.",
                                      escaped, suppressed->n, span, op, mount_point ?: device, total);
        if (!message)
                return -E2BIG;
        add(&a, "MESSAGE", message);
        add(&a, "MESSAGE_ID", MESSAGE_ID_ALERTS_SUPPRESSED);
        a.fields[a.n_fields++] = JOURNAL_FIELD_PRIORITY(suppressed->n_failed > 0 ? LOG_ERR : LOG_WARNING);
        add_unit(&a, unit, escaped, NULL);
        add_number(&a, "IOLAT_SUPPRESSED", suppressed->n);
        add_number(&a, "IOLAT_SUPPRESSED_FAILED", suppressed->n_failed);
        add_usec(&a, "IOLAT_SUPPRESSED_USEC", span_ns);
        add(&a, "IOLAT_OP", op);
        add_usec(&a, "IOLAT_TOTAL_USEC", worst->total_ns);
        if (phase_to_string(worst->phase))
                add(&a, "IOLAT_PHASE", phase_to_string(worst->phase));
        add_device(&a, worst->dev, mount_point);

        return journal_send(a.fields, a.n_fields);
}
