/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz.h"
#include "timespan.h"
#include "timestamp.h"

/* A time zone, and a time span or a point in time as users write them. */

#define NOW_US (1796040000 * USEC_PER_SEC)

static void check_span(const char *s) {
        char text[TIMESPAN_FORMAT_MAX], small[8];
        uint64_t ns, again;

        if (timespan_parse(s, &ns) < 0)
                return;
        fuzz_check(strlen(timespan_format(ns, small, sizeof(small))) < sizeof(small));
        fuzz_check(timespan_parse(timespan_format(ns, text, sizeof(text)), &again) == 0);
        fuzz_check(again == ns);
}

static void check_stamp(const char *s) {
        char text[TIMESTAMP_FORMAT_MAX];
        uint64_t us, again;

        if (timestamp_parse(s, NOW_US, &us) < 0)
                return;
        (void) timestamp_format_short(us, text, sizeof(text));
        if (streq(timestamp_format(us, text, sizeof(text)), "-"))
                return;
        fuzz_check(timestamp_parse(text, NOW_US, &again) == 0);
        fuzz_check(again / USEC_PER_SEC == us / USEC_PER_SEC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const zones[] = { "UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "<-03>3", "EST5EDT,M3.2.0,M11.1.0" };
        static size_t zone = SIZE_MAX;
        _cleanup_free_ char *s = NULL;

        if (size == 0)
                return 0;
        if (zone != data[0] % ELEMENTSOF(zones)) {
                zone = data[0] % ELEMENTSOF(zones);
                fuzz_check(setenv("TZ", zones[zone], 1) == 0);
                tzset();
        }
        s = fuzz_string(data + 1, size - 1);
        check_span(s);
        check_stamp(s);

        return 0;
}
