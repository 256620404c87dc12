/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <ini.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "conf-files.h"
#include "conf.h"
#include "log.h"

#define CONF_NAME "iolat/iolatd.conf"
#define UTF8_BOM "\xef\xbb\xbf"
#define DAY (24 * 3600 * NSEC_PER_SEC)
#define THRESHOLD_MIN NSEC_PER_USEC
#define THRESHOLD_MAX DAY
#define KIB ((uint64_t) 1024)
#define MIB (1024 * KIB)

enum {
        CONF_FILE_MAX = 1024 * 1024, /* bytes of one file */
        CONF_WARNINGS_MAX = 32,      /* for one file, so that it cannot flood the log */
};

static const char *const tier_table[_CONFIG_TIER_MAX] = {
        [CONFIG_TIER_AUTO] = "auto",
        [CONFIG_TIER_TRACEPOINT] = "tracepoint",
        [CONFIG_TIER_FUNCTION] = "function",
        [CONFIG_TIER_KPROBE] = "kprobe",
};

const char *config_tier_to_string(int tier) {
        return tier >= 0 && tier < _CONFIG_TIER_MAX ? tier_table[tier] : NULL;
}

int config_tier_from_string(const char *s) {
        for (int i = 0; i < _CONFIG_TIER_MAX; i++)
                if (streq(tier_table[i], s))
                        return i;

        return -EINVAL;
}

/* One assignment that is understood. */
typedef struct Item {
        const char *section;
        const char *name;
        int (*parse)(const struct Item *item, const char *value, void *field);
        size_t offset;            /* of the field in Config */
        const char *default_value;
        uint64_t min, max;        /* inclusive */
        bool infinity;            /* is allowed, beyond the maximum */
} Item;

/* A file while it is read. */
typedef struct Reader {
        Config *config;
        const char *path;
        FILE *f;
        unsigned line;
        unsigned n_warnings;
        char *buffer;
        size_t buffer_size;
        char section[64]; /* the last one that was found to be unknown */
} Reader;

static int parse_tier(const Item *item, const char *value, void *field) {
        enum config_tier *tier = field;
        int t;

        (void) item;
        t = config_tier_from_string(value);
        if (t < 0)
                return t;
        *tier = (enum config_tier) t;

        return 0;
}

int config_parse_bool(const char *s, bool *ret) {
        static const char *const yes[] = { "1", "yes", "y", "true", "t", "on" };
        static const char *const no[] = { "0", "no", "n", "false", "f", "off" };

        for (size_t i = 0; i < ELEMENTSOF(yes); i++) {
                if (strcasecmp(s, yes[i]) == 0)
                        return *ret = true, 0;
                if (strcasecmp(s, no[i]) == 0)
                        return *ret = false, 0;
        }

        return -EINVAL;
}

int config_parse_threshold(const char *s, uint64_t *ret_ns) {
        uint64_t v;
        int r;

        r = timespan_parse(s, &v);
        if (r < 0)
                return r;
        if (v != TIMESPAN_INFINITY && (v < THRESHOLD_MIN || v > THRESHOLD_MAX))
                return -ERANGE;
        *ret_ns = v;

        return 0;
}

static int parse_bool(const Item *item, const char *value, void *field) {
        (void) item;

        return config_parse_bool(value, field);
}

/* "write", "read", both, or nothing. The field is op_write; op_read follows it. */
static int parse_operations(const Item *item, const char *value, void *field) {
        Config *c = (Config *) ((char *) field - item->offset);
        bool write = false, read = false;
        char word[16];

        while (*(value += strspn(value, " ,\t"))) {
                size_t n = strcspn(value, " ,\t");

                if (n >= sizeof(word))
                        return -EINVAL;
                memcpy(word, value, n);
                word[n] = 0;
                value += n;
                if (streq(word, "write"))
                        write = true;
                else if (streq(word, "read"))
                        read = true;
                else
                        return -EINVAL;
        }
        c->op_write = write;
        c->op_read = read;

        return 0;
}

static int parse_in_range(const Item *item, uint64_t v, void *field) {
        bool infinite = item->infinity && v == TIMESPAN_INFINITY;

        if (!infinite && (v < item->min || v > item->max))
                return -ERANGE;
        *(uint64_t *) field = v;

        return 0;
}

static int parse_time(const Item *item, const char *value, void *field) {
        uint64_t v;
        int r;

        r = timespan_parse(value, &v);
        if (r < 0)
                return r;

        return parse_in_range(item, v, field);
}

static int parse_number(const Item *item, const char *value, void *field) {
        uint64_t v = 0;

        if (!*value || strspn(value, "0123456789") != strlen(value))
                return -EINVAL;
        for (; *value; value++)
                if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t) (*value - '0'), &v))
                        return -ERANGE;

        return parse_in_range(item, v, field);
}

/* A number of bytes, or with K, M or G (powers of 1024). */
static int parse_size(const Item *item, const char *value, void *field) {
        static const char suffixes[] = "BKMG";
        size_t n = strspn(value, "0123456789");
        const char *suffix = suffixes;
        char digits[21];
        uint64_t v;

        if (n == 0)
                return -EINVAL;
        if (n >= sizeof(digits))
                return -ERANGE;
        if (value[n]) {
                suffix = strchr(suffixes, value[n]);
                if (!suffix || value[n + 1])
                        return -EINVAL;
        }
        memcpy(digits, value, n);
        digits[n] = 0;
        errno = 0;
        v = strtoull(digits, NULL, 10);
        if (errno > 0 || __builtin_mul_overflow(v, UINT64_C(1) << (10 * (suffix - suffixes)), &v))
                return -ERANGE;

        return parse_in_range(item, v, field);
}

#define FIELD(f) .offset = offsetof(Config, f)
#define THRESHOLD .parse = parse_time, .min = THRESHOLD_MIN, .max = THRESHOLD_MAX, .infinity = true

static const Item items[] = {
        { "Daemon", "Tier", parse_tier, FIELD(tier), .default_value = "auto" },
        { "Daemon", "Operations", parse_operations, FIELD(op_write), .default_value = "" },
        { "Daemon", "DirtyTracking", parse_bool, FIELD(dirty_tracking), .default_value = "no" },
        { "Daemon", "MaxUnits", parse_number, FIELD(max_units), .default_value = "4096", .min = 16, .max = 65536 },
        { "Daemon", "HistoryMaxBytes", parse_size, FIELD(history_max_bytes), .default_value = "8M",
          .min = 64 * KIB, .max = 32 * MIB },
        { "Stall", "FsyncRecordSec", THRESHOLD, FIELD(fsync_record_ns), .default_value = "100ms" },
        { "Stall", "FsyncAlertSec", THRESHOLD, FIELD(fsync_alert_ns), .default_value = "1s" },
        { "Stall", "WriteRecordSec", THRESHOLD, FIELD(write_record_ns), .default_value = "100ms" },
        { "Stall", "WriteAlertSec", THRESHOLD, FIELD(write_alert_ns), .default_value = "1s" },
        { "Stall", "AlertBurst", parse_number, FIELD(alert_burst), .default_value = "5", .min = 1, .max = 1000 },
        { "Stall", "AlertIntervalSec", parse_time, FIELD(alert_interval_ns), .default_value = "30s",
          .min = NSEC_PER_SEC, .max = DAY },
        { "Metrics", "MaxSeries", parse_number, FIELD(max_series), .default_value = "20000", .min = 1000,
          .max = 1000000 },
};

static int item_assign(const Item *item, Config *c, const char *value) {
        /* An empty assignment takes back what was read before. */
        return item->parse(item, isempty(value) ? item->default_value : value, (char *) c + item->offset);
}

void config_init(Config *c) {
        *c = (Config) {};
        for (size_t i = 0; i < ELEMENTSOF(items); i++)
                (void) item_assign(items + i, c, NULL);
}

static const Item *item_find(const char *section, const char *name, bool *ret_section_known) {
        *ret_section_known = false;
        for (size_t i = 0; i < ELEMENTSOF(items); i++) {
                if (!streq(items[i].section, section))
                        continue;
                *ret_section_known = true;
                if (streq(items[i].name, name))
                        return items + i;
        }

        return NULL;
}

/* Whether the next warning about that file may be shown. */
static bool reader_may_warn(Reader *rd) {
        rd->n_warnings++;
        if (rd->n_warnings == CONF_WARNINGS_MAX)
                log_warning("%s:%u: Too many problems, not showing more of them.", rd->path, rd->line);

        return rd->n_warnings < CONF_WARNINGS_MAX;
}

#define reader_warning(rd, format, ...)                                                                      \
        do {                                                                                                 \
                if (reader_may_warn(rd))                                                                     \
                        log_warning("%s:%u: " format, (rd)->path, (rd)->line __VA_OPT__(, ) __VA_ARGS__);    \
        } while (false)

static void warn_unknown_section(Reader *rd, const char *section) {
        /* Once, not for each of its lines. */
        if (streq(rd->section, section) && *section)
                return;
        snprintf(rd->section, sizeof(rd->section), "%s", section);
        if (*section)
                reader_warning(rd, "Unknown section [%s], ignoring.", section);
        else
                reader_warning(rd, "Assignment outside of a section, ignoring.");
}

static void warn_out_of_range(Reader *rd, const Item *item, const char *value) {
        char min[TIMESPAN_FORMAT_MAX], max[TIMESPAN_FORMAT_MAX];

        if (item->parse == parse_time) {
                timespan_format(item->min, min, sizeof(min));
                timespan_format(item->max, max, sizeof(max));
        } else if (item->parse == parse_size) {
                snprintf(min, sizeof(min), "%" PRIu64 "K", item->min / KIB);
                snprintf(max, sizeof(max), "%" PRIu64 "M", item->max / MIB);
        } else {
                snprintf(min, sizeof(min), "%" PRIu64, item->min);
                snprintf(max, sizeof(max), "%" PRIu64, item->max);
        }
        reader_warning(rd, "%s=%s is out of range, which is %s to %s%s, ignoring.", item->name, value, min, max,
                       item->infinity ? " or infinity" : "");
}

/* Called for each assignment; non-zero means that it was dealt with, if only by a warning. */
static int on_assignment(void *userdata, const char *section, const char *name, const char *value) {
        Reader *rd = userdata;
        bool section_known;
        const Item *item;
        int r;

        /* As in systemd's own files, others may keep things there. */
        if (startswith(section, "X-") || startswith(name, "X-"))
                return 1;

        item = item_find(section, name, &section_known);
        if (!section_known) {
                warn_unknown_section(rd, section);
                return 1;
        }
        if (!item) {
                reader_warning(rd, "Unknown key %s= in section [%s], ignoring.", name, section);
                return 1;
        }

        r = item_assign(item, rd->config, value);
        if (r == -ERANGE)
                warn_out_of_range(rd, item, value);
        else if (r < 0)
                reader_warning(rd, "%s=%s is not a valid %s, ignoring.", name, value,
                               item->parse == parse_time ? "time span" :
                               item->parse == parse_tier ? "tier" :
                               item->parse == parse_bool ? "boolean" :
                               item->parse == parse_size ? "size" :
                               item->parse == parse_operations ? "list of operations (write, read)" : "number");

        return 1;
}

/* Hands the parser one line like fgets(). Not every build of the parser has line numbers, it tells only the first
 * wrong line and takes indented lines for continuations, so all of this is settled here. */
static char *read_line(char *buf, int size, void *userdata) {
        Reader *rd = userdata;
        const char *p;
        ssize_t n;
        size_t len;

        n = getline(&rd->buffer, &rd->buffer_size, rd->f);
        if (n < 0)
                return NULL;
        rd->line++;

        p = rd->buffer;
        if (rd->line == 1)
                p = startswith(p, UTF8_BOM) ?: p;
        p += strspn(p, " \t");
        len = strcspn(p, "\r\n");

        if (strlen(rd->buffer) != (size_t) n) {
                reader_warning(rd, "Line contains a NUL byte, ignoring.");
                len = 0;
        } else if (*p == '#' || *p == ';')
                len = 0;
        else if (*p == '[' && !memchr(p, ']', len)) {
                reader_warning(rd, "Section header without \"]\", ignoring.");
                len = 0;
        } else if (len > 0 && *p != '[' && (*p == '=' || !memchr(p, '=', len))) {
                reader_warning(rd, "Neither a section header nor an assignment, ignoring.");
                len = 0;
        } else if (len + 3 > (size_t) size) {
                reader_warning(rd, "Line is too long, ignoring.");
                len = 0;
        }

        memcpy(buf, p, len);
        buf[len] = '\n';
        buf[len + 1] = 0;

        return buf;
}

static int load_file(Config *c, const char *path) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_fclose_ FILE *f = NULL;
        Reader rd = { .config = c, .path = path };
        struct stat st;
        int r;

        /* Not blocking, in case that it is a fifo. */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        if (S_ISCHR(st.st_mode)) /* /dev/null */
                return 0;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        if (st.st_size > CONF_FILE_MAX)
                return -EFBIG;

        f = fdopen(fd, "r");
        if (!f)
                return -errno;
        (void) take_fd(&fd);

        rd.f = f;
        r = ini_parse_stream(read_line, &rd, on_assignment, &rd);
        free(rd.buffer);
        if (r == -2) /* how it says that memory ran out */
                return -ENOMEM;

        return ferror(f) ? -EIO : 0;
}

int config_load(Config *c, const char *const *dirs, const char *file) {
        _cleanup_(conf_files_done) ConfFiles files = {};
        int r = 0;

        config_init(c);
        if (file)
                r = load_file(c, file);
        else
                r = conf_files_list(dirs ?: conf_dirs, CONF_NAME, &files);

        for (size_t i = 0; i < files.n; i++) {
                int k = load_file(c, files.paths[i]);

                if (k < 0)
                        log_warning_errno(k, "%s: Cannot be read, ignoring: %m", files.paths[i]);
        }

        /* An alert is made of the record. */
        c->fsync_record_ns = MIN(c->fsync_record_ns, c->fsync_alert_ns);
        c->write_record_ns = MIN(c->write_record_ns, c->write_alert_ns);

        return r;
}
