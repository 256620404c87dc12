/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/socket.h>

#include "blame-rows.h"
#include "bus-names.h"
#include "fuzz.h"
#include "growth.h"
#include "json.h"
#include "openmetrics.h"
#include "query-internal.h"
#include "query-metrics.h"
#include "stall-text.h"
#include "text.h"
#include "waterfall.h"

/* What iolatctl and the exporter are told by a daemon that lies. The input says what is asked, and what each of the
 * replies is: either made by the rules of D-Bus out of what follows (so that it goes deep), or any bytes. */

enum {
        BODY_MAX = 48 * 1024,
        REPLIES_MAX = 4,
        STARTUP_STEPS_MAX = 32,
        NAMES_LEN_MAX = 32,
        DEPTH_MAX = 16,
        KIND_ERROR = 0x80,
        KIND_RAW = 0x40,
        COUNT_LARGE = 0xff, /* instead of the number of an array's members, before two bytes of it */
        TYPE_METHOD_RETURN = 2,
        TYPE_ERROR = 3,
};

static const char *const signatures[] = {
        "aa{sv}", "aa{sv}t", "aa{sv}ttt", "a{sv}", "a(so)", "a(tt)", "o", "t", "s", "",
        "a(" BUS_METRIC_SERIES ")t", "a(sv)", "aa{st}",
};

static const char *const variants[] = {
        "s", "t", "u", "i", "d", "b", "a{st}", "as", "a(sd)", "a(stt)", "v", "(sv)", "ay", "o", "g",
};

static const char *const words[] = {
        "", "unit", "userUnit", "op", "phase", "device", "fsType", "mountPoint", "origin", "async", "count", "errors",
        "bytes", "sumNSec", "p50NSec", "p90NSec", "p99NSec", "maxNSec", "ownedBy", "source", "untimed", "inFlight",
        "id", "startRealtimeUSec", "state", "error", "totalNSec", "phases", "steps", "requests", "transaction",
        "owners", "waitNSec", "file", "pid", "comm", "thread", "spans", "journal", "lost", "victim", "culprit", "step",
        "estimated", "weight", "probe", "attached", "reason", "kind", "hits", "misses", "nsPerHit", "hitsPerSec",
        "cpuShare", "sampledHits", "addedNSec", "share", "bias", "floor", "Version", "Tier",
        "Degraded", "Lost", "Since", "HistorySince", "MaxSeries", "Name", "ControlGroup", "Description",
        "InvocationID", "JournalSteps", "fsync", "rq-write", "rq-flush", "total", "in-progress", "loss", "a.service",
        "b.service", "(others)", "8:1", "loop", "/org/iolat1/unit/a", "written-bytes", "queue", "done", "writeback",
};

/* A body of a message. */
typedef struct Body {
        uint8_t bytes[BODY_MAX + 1024];
        size_t size;
} Body;

static bool is_full(const Body *b) {
        return b->size >= BODY_MAX;
}

static void put(Body *b, const void *data, size_t size) {
        if (size <= sizeof(b->bytes) - b->size) {
                memcpy(b->bytes + b->size, data, size);
                b->size += size;
        }
}

static void align(Body *b, size_t to) {
        while (b->size % to != 0 && b->size < sizeof(b->bytes))
                b->bytes[b->size++] = 0;
}

static void put_u32(Body *b, uint32_t v) {
        align(b, 4);
        put(b, &v, sizeof(v));
}

static size_t alignment(char c) {
        return strchr("ygv", c) ? 1 : strchr("tdx({", c) ? 8 : 4;
}

/* The end of the one type that s begins with. */
static const char *type_end(const char *s) {
        int depth = 0;

        while (*s == 'a')
                s++;
        do {
                depth += (*s == '(' || *s == '{') - (*s == ')' || *s == '}');
                s++;
        } while (depth > 0);

        return s;
}

static void put_text(Body *b, FuzzInput *in, bool is_long) {
        uint8_t word = (uint8_t) fuzz_number(in, 1);
        char text[256] = "";
        const char *s = text;

        if (word < ELEMENTSOF(words))
                s = words[word];
        else {
                FuzzInput part = fuzz_take(in, word - ELEMENTSOF(words));

                if (part.size > 0)
                        memcpy(text, part.p, part.size);
                for (size_t i = 0; i < part.size; i++)
                        text[i] = text[i] ?: 'x';
        }
        if (is_long)
                put_u32(b, (uint32_t) strlen(s));
        else
                put(b, &(uint8_t){ (uint8_t) strlen(s) }, 1);
        put(b, s, strlen(s) + 1);
}

static uint64_t number(FuzzInput *in) {
        static const size_t widths[] = { 0, 1, 1, 2, 4, 8, 8, 8 };
        uint8_t width = (uint8_t) fuzz_number(in, 1);

        return width == UINT8_MAX ? UINT64_MAX : fuzz_number(in, widths[width % ELEMENTSOF(widths)]);
}

static const char *put_value(Body *b, FuzzInput *in, const char *s, unsigned depth);

static void put_array(Body *b, FuzzInput *in, const char *element, unsigned depth) {
        size_t n = fuzz_number(in, 1), at, start;
        uint32_t length;

        if (n == COUNT_LARGE)
                n = fuzz_number(in, 2);
        else
                n %= NAMES_LEN_MAX;
        put_u32(b, 0);
        at = b->size - sizeof(uint32_t);
        align(b, alignment(*element));
        start = b->size;
        for (; n > 0 && !is_full(b); n--)
                put_value(b, in, element, depth + 1);
        length = (uint32_t) (b->size - start);
        memcpy(b->bytes + at, &length, sizeof(length));
}

/* Appends a value of the type that s begins with. Returns what follows that type. */
static const char *put_value(Body *b, FuzzInput *in, const char *s, unsigned depth) {
        const char *end = type_end(s);
        uint64_t v;

        switch (*s) {

        case 's':
        case 'o':
                put_text(b, in, /* is_long= */ true);
                break;

        case 'g':
                put_text(b, in, /* is_long= */ false);
                break;

        case 'y':
                put(b, &(uint8_t){ (uint8_t) fuzz_number(in, 1) }, 1);
                break;

        case 'b':
                put_u32(b, (uint32_t) fuzz_number(in, 1) & 3);
                break;

        case 'u':
        case 'i':
                put_u32(b, (uint32_t) number(in));
                break;

        case 't':
        case 'd':
                align(b, 8);
                v = number(in);
                put(b, &v, sizeof(v));
                break;

        case 'a':
                put_array(b, in, s + 1, depth);
                break;

        case '(':
        case '{':
                align(b, 8);
                for (s++; *s != ')' && *s != '}';)
                        s = put_value(b, in, s, depth + 1);
                break;

        case 'v': {
                const char *type = variants[fuzz_number(in, 1) % ELEMENTSOF(variants)];

                if (depth > DEPTH_MAX)
                        type = "t";
                put(b, &(uint8_t){ (uint8_t) strlen(type) }, 1);
                put(b, type, strlen(type) + 1);
                put_value(b, in, type, depth + 1);
                break;
        }

        default:
                fuzz_check(false);
        }

        return end;
}

static void put_field(Body *b, uint8_t code, const char *type, const void *value, size_t size) {
        align(b, 8);
        put(b, &code, 1);
        put(b, &(uint8_t){ (uint8_t) strlen(type) }, 1);
        put(b, type, strlen(type) + 1);
        if (*type == 'u')
                put_u32(b, *(const uint32_t *) value);
        else {
                if (*type == 's')
                        put_u32(b, (uint32_t) size);
                else
                        put(b, &(uint8_t){ (uint8_t) size }, 1);
                put(b, value, size + 1);
        }
}

/* Sends what answers the call of that number. */
static void send_reply(int fd, FuzzInput *in, uint32_t number_of_call) {
        static Body head, body;
        uint8_t kind = (uint8_t) fuzz_number(in, 1);
        FuzzInput part = fuzz_take(in, fuzz_number(in, 2));
        const char *signature = signatures[kind % 16 % ELEMENTSOF(signatures)];
        static const char error[] = BUS_ERROR_NO_SUCH_UNIT;
        uint32_t length;

        body.size = head.size = 0;
        if (kind & KIND_ERROR)
                signature = "s";
        if (kind & KIND_RAW)
                put(&body, part.p, MIN(part.size, (size_t) BODY_MAX));
        else
                for (const char *s = signature; *s;)
                        s = put_value(&body, &part, s, 0);

        put(&head, (uint8_t[]){ 'l', kind & KIND_ERROR ? TYPE_ERROR : TYPE_METHOD_RETURN, 0, 1 }, 4);
        put_u32(&head, (uint32_t) body.size);
        put_u32(&head, number_of_call + 1000);
        put_u32(&head, 0);
        put_field(&head, 5, "u", &number_of_call, 0);
        if (*signature)
                put_field(&head, 8, "g", signature, strlen(signature));
        if (kind & KIND_ERROR)
                put_field(&head, 4, "s", error, strlen(error));
        length = (uint32_t) head.size - 16;
        memcpy(head.bytes + 12, &length, sizeof(length));
        align(&head, 8);

        /* What the socket does not take is lost: then the connection ends in the middle. */
        (void) send(fd, head.bytes, head.size, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void) send(fd, body.bytes, body.size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void check_json(json_object *j) {
        fuzz_check(j && json_object_to_json_string(j));
        json_object_put(j);
}

static void check_text(char *s) {
        fuzz_check(s);
        free(s);
}

static void use_rows(Rows *rows) {
        Share shares[SHARES_MAX];

        for (size_t i = 0, end; i < rows->n; i = end) {
                size_t n;

                end = rows_group_end(rows, i);
                fuzz_check(end > i && end <= rows->n);
                n = group_shares(&rows->items[i], end - i, shares);
                fuzz_check(n <= SHARES_MAX);
                shares_sort(shares, n);
                check_text(bar_shares(shares, n, 40));
                check_text(shares_text(shares, n, 3));
        }
        for (size_t i = 0; i < rows->n; i++)
                check_json(row_to_json(&rows->items[i]));
}

static void use_stall(const StallRow *row) {
        _cleanup_free_ WaterfallLine *lines = calloc(row->spans.n + 1, sizeof(*lines));
        size_t n;

        check_json(operation_to_json(row));
        check_json(stall_row_to_json(row));
        check_text(stall_sentence(row));
        check_text(stall_phase_text(row));
        check_text(stall_place_text(row->mount_point, row->device));
        n = waterfall_layout(row->spans.items, row->spans.n, row->total_ns, 60, lines);
        fuzz_check(n <= row->spans.n);
        for (size_t i = 0; i < n; i++) {
                fuzz_check(lines[i].from < lines[i].to && lines[i].to <= 60);
                check_text(waterfall_bar(&lines[i], 60));
        }
}

static void use_buckets(const Row *row) {
        Growth g;

        growth_begin(&g, row->phase, &row->buckets);
        fuzz_check(growth_quantile(&g, 0.99, row->max_ns) <= row->max_ns);
        growth_subtract(&g, &row->buckets);
        fuzz_check(growth_quantile(&g, 0.99, row->max_ns) == 0);
}

static void ask_rows(Query *q, unsigned how) {
        _cleanup_(rows_clear) Rows rows = {};
        Range covered;
        int r;

        if (how == 0)
                r = query_rows(q, (char *[]){ (char *) "*", NULL }, NULL, NULL, &rows);
        else if (how == 1)
                r = query_rows_with_buckets(q, NULL, &rows);
        else
                r = query_rows_range(q, NULL, NULL, NULL, &(Range){ 0, UINT64_MAX }, &rows, &covered);
        if (r < 0)
                return;
        use_rows(&rows);
        for (size_t i = 0; i < rows.n; i++)
                use_buckets(&rows.items[i]);
}

static void ask_stalls(Query *q) {
        _cleanup_(stall_rows_clear) StallRows rows = {};

        if (query_stalls(q, &(Range){ 0, UINT64_MAX / 2 }, &rows) < 0)
                return;
        for (size_t i = 0; i < rows.n; i++)
                use_stall(&rows.items[i]);
        (void) stall_newest(&rows, "a.service");
}

static void ask_blame(Query *q) {
        _cleanup_(blame_rows_clear) BlameRows rows = {};
        BlameTop top;

        if (query_blame(q, "", &(Range){ 0, UINT64_MAX }, &rows) < 0)
                return;
        blame_rows_sort(&rows);
        for (size_t i = 0; i < rows.n; i++)
                check_json(blame_row_to_json(&rows.items[i]));
        if (rows.n > 0 && blame_top(&rows, rows.items[0].victim, &top))
                check_text(blame_sentence(&top, rows.items[0].victim));
}

static void ask_metrics(Query *q) {
        _cleanup_(metric_set_freep) MetricSet *set = NULL;
        _cleanup_free_ char *text = NULL;
        MetricMemory memory = {};
        size_t size;
        FILE *f;

        if (query_metrics(q, metric_text_clean, &memory, &set) >= 0) {
                f = open_memstream(&text, &size);
                fuzz_check(f);
                openmetrics_write(set, METRIC_FORMAT_OPENMETRICS, f);
                openmetrics_write(set, METRIC_FORMAT_PROMETHEUS, f);
                fuzz_check(fclose(f) == 0 && size > 0);
        }
        metric_memory_clear(&memory);
}

static void ask_operation(Query *q) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        _cleanup_(stall_row_clear) StallRow row = {};

        if (query_call_simple(q, "/a", "a.b", "C", &m, NULL) >= 0 && operation_read(m, &row) >= 0)
                use_stall(&row);
}

static void ask_others(Query *q, uint8_t what) {
        _cleanup_(manager_info_clear) ManagerInfo manager = {};
        _cleanup_(unit_info_clear) UnitInfo unit = {};
        _cleanup_(probe_rows_clear) ProbeRows probes = {};
        _cleanup_(buckets_clear) Buckets buckets = {};
        _cleanup_(rows_clear) Rows rows = {};
        _cleanup_free_ char *path = NULL;
        Range covered;

        switch (what % 7) {

        case 0:
                (void) query_manager(q, &manager);
                break;

        case 1:
                if (query_unit_info(q, "/a", &unit) >= 0)
                        fuzz_check(!isempty(unit.name));
                break;

        case 2:
                if (query_probes(q, &probes) >= 0)
                        for (size_t i = 0; i < probes.n; i++)
                                check_json(probe_row_to_json(&probes.items[i]));
                break;

        case 3:
                if (query_histogram(q, "a", "fsync", "total", "", &buckets) >= 0)
                        fuzz_check(buckets.n <= BUCKETS_MAX);
                break;

        case 4:
                if (query_unit_path(q, "a.service", &path) >= 0)
                        fuzz_check(path[0] == '/');
                break;

        case 5:
                if (query_unit_current(q, "/a", &rows) >= 0)
                        use_rows(&rows);
                break;

        default:
                (void) query_covered(q, &(Range){ 0, UINT64_MAX }, &covered);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char welcome[] = "DATA\r\nOK 0123456789abcdef0123456789abcdef\r\n";
        _cleanup_close_ int daemon_fd = -EBADF;
        FuzzInput in = { data, size };
        uint8_t what = (uint8_t) fuzz_number(&in, 1);
        Query q = {};
        int fds[2];

        fuzz_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        daemon_fd = fds[1];
        fuzz_check(sd_bus_new(&q.bus) >= 0);
        fuzz_check(sd_bus_set_fd(q.bus, fds[0], fds[0]) >= 0);
        fuzz_check(sd_bus_negotiate_fds(q.bus, false) >= 0);
        fuzz_check(sd_bus_start(q.bus) >= 0);

        /* The authentication is sd-bus's own, and apart: libsystemd 252 has an assertion that there is no third line
         * behind it, in whatever comes along with it. */
        fuzz_check(send(daemon_fd, welcome, sizeof(welcome) - 1, 0) == sizeof(welcome) - 1);
        for (unsigned i = 0; i < STARTUP_STEPS_MAX && sd_bus_is_ready(q.bus) == 0; i++)
                fuzz_check(sd_bus_process(q.bus, NULL) >= 0);
        fuzz_check(sd_bus_is_ready(q.bus) > 0);

        /* All that the daemon will ever say, and that it will say no more. */
        for (uint32_t i = 1; i <= REPLIES_MAX && in.size > 0; i++)
                send_reply(daemon_fd, &in, i);
        fuzz_check(shutdown(daemon_fd, SHUT_WR) == 0);

        switch (what % 8) {

        case 0:
        case 1:
                ask_rows(&q, what % 8 == 0 ? what / 8 % 2 : 2);
                break;

        case 2:
                ask_stalls(&q);
                break;

        case 3:
                ask_blame(&q);
                break;

        case 4:
                ask_metrics(&q);
                break;

        case 5:
                ask_operation(&q);
                break;

        default:
                ask_others(&q, what / 8);
        }
        sd_bus_close_unref(q.bus);

        return 0;
}
