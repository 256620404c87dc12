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
        ALERT_FIELDS_MAX = 17 + _PHASE_MAX + _STEP_MAX,
        ALERT_TEXT_MAX = 4096, /* bytes of all text of one entry, in IOLAT_*= and in MESSAGE= */
        ALERT_WORD_MAX = 512,  /* bytes of one name from outside */
        SPAN_MAX = 32,
        UNIT_NAME_MAX = 256, /* bytes, with the final NUL: systemd's own limit */
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

static const char *make_message(Alert *a, const StallRow *stall, const char *unit, const char *where) {
        char total[SPAN_MAX], part[SPAN_MAX], most[2 * SPAN_MAX + 32] = "";
        const char *op = strempty(stall->op);
        uint64_t ns = phase_ns(stall);

        (void) format_span(stall->record->total_ns, total);
        if (ns > 0)
                (void) snprintf(most, sizeof(most), ", %s of it in phase %s", format_span(ns, part),
                                stall->dominant_phase);

        if (stall->record->error < 0)
                return format_text(a, "%s: %s on %s failed with %s after %s%s%s.", unit, op, where,
                                   stall->error ?: "an error", total, most,
                                   is_failed_sync(stall->record) ? "; written data may be lost" : "");
        if (stall->in_progress)
                return format_text(a, "%s: %s on %s has not returned for %s, now in phase %s for %s.", unit, op, where,
                                   total, strempty(stall->dominant_phase),
                                   format_span(stall->record->wait_ns, part));

        return format_text(a, "%s: %s on %s took %s%s.", unit, op, where, total, most);
}

int alert_send(const StallRow *stall, const char *invocation_id) {
        const struct stall *record = stall->record;
        char unit_buf[ALERT_WORD_MAX], mount_buf[ALERT_WORD_MAX], device[32];
        const char *unit = text_escape(stall->unit, /* controls= */ true, unit_buf, sizeof(unit_buf));
        const char *mount_point = NULL, *message;
        bool failed = is_failed_sync(record);
        Alert a;

        a.n_fields = a.used = 0;
        (void) snprintf(device, sizeof(device), "%u:%u", record->dev >> 20, record->dev & 0xfffffU);
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
        add(&a, "SYSLOG_IDENTIFIER", "iolatd");
        if (is_unit_name(stall->unit)) {
                add(&a, "OBJECT_SYSTEMD_UNIT", stall->unit);
                if (invocation_id && strlen(invocation_id) == 32)
                        add(&a, "OBJECT_SYSTEMD_INVOCATION_ID", invocation_id);
        }
        add(&a, "IOLAT_UNIT", unit);
        add(&a, "IOLAT_OP", strempty(stall->op));
        add_usec(&a, "IOLAT_TOTAL_USEC", record->total_ns);
        if (stall->dominant_phase)
                add(&a, "IOLAT_PHASE", stall->dominant_phase);
        if (stall->in_progress)
                add_usec(&a, "IOLAT_WAIT_USEC", record->wait_ns);
        add_parts(&a, "PHASE", phase_to_string, record->phase_ns, _PHASE_MAX);
        add_parts(&a, "STEP", journal_step_to_string, record->step_ns, _STEP_MAX);
        add(&a, "IOLAT_DEVICE", device);
        if (mount_point)
                add(&a, "IOLAT_MOUNT_POINT", mount_point);
        if (stall->error)
                add(&a, "IOLAT_ERROR", stall->error);

        return journal_send(a.fields, a.n_fields);
}
