/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/mman.h>

#include "conf.h"
#include "fuzz.h"

/* iolatd.conf, as a file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_close_ int fd = memfd_create("conf", MFD_CLOEXEC);
        char path[64];
        Config c;

        fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t) size);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        memset(&c, 0xff, sizeof(c));
        fuzz_check(config_load(&c, NULL, path) == 0);

        fuzz_check(config_tier_to_string((int) c.tier));
        fuzz_check(c.max_units >= 16 && c.max_units <= 65536);
        fuzz_check(c.history_max_bytes >= 65536 && c.history_max_bytes <= 32 * 1024 * 1024);
        fuzz_check(c.fsync_record_ns >= NSEC_PER_USEC && c.fsync_record_ns <= c.fsync_alert_ns);
        fuzz_check(c.write_record_ns >= NSEC_PER_USEC && c.write_record_ns <= c.write_alert_ns);
        fuzz_check(c.alert_burst >= 1 && c.alert_burst <= 1000);
        fuzz_check(c.alert_interval_ns >= NSEC_PER_SEC && c.alert_interval_ns <= 24 * 3600 * NSEC_PER_SEC);
        fuzz_check(c.max_series >= 1000 && c.max_series <= 1000000);

        return 0;
}
