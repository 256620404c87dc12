/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <zlib.h>

#include "histogram.h"
#include "history-file.h"
#include "names.h"
#include "test.h"

enum { MAX_BYTES = 1024 * 1024, EPOCH = 77 };

#define SEC USEC_PER_SEC
#define START (1000000000 * SEC)

/* The numbers that a daemon would read from the kernel. */
enum { SERIES_MAX = 512 };
static struct {
        char unit[32];
        bool is_request;
        bool fresh;
        bool absent;
        struct op_value op;
        struct rq_value rq;
} world[SERIES_MAX];
static size_t n_world;

static SeriesKey world_key(size_t i) {
        return (SeriesKey){
                .unit = world[i].unit,
                .user_unit = i % 2 ? "inner.service" : NULL,
                .is_request = world[i].is_request,
                .op = world[i].is_request ? RQ_WRITE : OP_FSYNC,
                .origin = ORIGIN_SELF,
                .dev = 8 << 20,
        };
}

static void world_set(size_t n) {
        memset(world, 0, sizeof(world));
        n_world = n;
        for (size_t i = 0; i < n; i++) {
                snprintf(world[i].unit, sizeof(world[i].unit), "unit%zu.service", i / 2);
                world[i].is_request = i % 2;
                world[i].fresh = true;
        }
}

static void happen(size_t i, unsigned times, uint64_t ns) {
        for (unsigned k = 0; k < times; k++) {
                struct hist_full *h = world[i].is_request ? &world[i].rq.device : &world[i].op.total;

                h->count++;
                h->sum_ns += ns;
                h->max_ns = MAX(h->max_ns, ns);
                h->bucket[bucket_full(ns)]++;
                world[i].rq.bytes += 512;
                world[i].op.step_ns[STEP_LOG] += ns;
        }
}

static int feed(History *h, void *userdata) {
        for (size_t i = 0; i < n_world; i++) {
                SeriesKey key = world_key(i);
                int r;

                if (world[i].absent)
                        continue;
                r = world[i].is_request ? history_note_rq(h, &key, world[i].fresh, &world[i].rq) :
                        history_note_op(h, &key, world[i].fresh, &world[i].op);
                assert_int_equal(r, 0);
        }

        return 0;
}

static int tick(History *h, uint64_t start, uint64_t end) {
        int r = history_tick(h, start, end, feed, NULL);

        history_drop_absent(h);
        assert_true(history_bytes(h) <= h->max_bytes);

        return r;
}

static History *make(size_t max_bytes) {
        History *h;

        assert_int_equal(history_new(&h, max_bytes), 0);

        return h;
}

/* How often the i-th of the world happened, in a span. */
static uint64_t count(History *h, size_t i, uint64_t since, uint64_t until) {
        SeriesKey key = world_key(i);
        HistorySum sum = { .series = history_dict_find(&h->dict, &key) };

        if (!sum.series)
                return 0;
        assert_int_equal(history_sum(h, since, until, &sum, 1), 0);

        return world[i].is_request ? sum.rq.device.count : sum.op.total.count;
}

static void test_windows(void **state) {
        History *h = make(MAX_BYTES);
        uint64_t first, last, seq;

        world_set(4);
        happen(0, 3, 5000000);
        assert_int_equal(tick(h, START, START + 10 * SEC), 1);
        seq = h->seq;
        assert_int_equal(tick(h, START + 10 * SEC, START + 20 * SEC), 0); /* idle: no window */
        assert_true(h->seq == seq); /* and nothing to be saved */
        assert_int_equal(h->n_windows, 1);
        happen(0, 2, 1000000);
        happen(1, 7, 2000000);
        assert_int_equal(tick(h, START + 20 * SEC, START + 30 * SEC), 1);
        assert_int_equal(h->n_windows, 2);

        assert_int_equal(count(h, 0, 0, UINT64_MAX), 5);
        assert_int_equal(count(h, 1, 0, UINT64_MAX), 7);
        assert_int_equal(count(h, 2, 0, UINT64_MAX), 0);
        assert_int_equal(count(h, 0, START, START + 10 * SEC), 3);
        assert_int_equal(count(h, 0, START + 10 * SEC, START + 20 * SEC), 0);
        assert_int_equal(count(h, 0, START + 29 * SEC, START + 30 * SEC), 2);
        assert_int_equal(count(h, 0, START + 9 * SEC, START + 21 * SEC), 5);
        assert_int_equal(count(h, 0, START + 30 * SEC, UINT64_MAX), 0);

        assert_true(history_since(h) == START);
        history_covered(h, 0, UINT64_MAX, &first, &last);
        assert_true(first == START && last == START + 30 * SEC);
        history_covered(h, START + 12 * SEC, START + 25 * SEC, &first, &last);
        assert_true(first == START + 12 * SEC && last == START + 30 * SEC);
        history_covered(h, 0, START, &first, &last);
        assert_true(first <= START && last <= START);
        history_covered(h, START + 40 * SEC, UINT64_MAX, &first, &last);
        assert_true(first == 0 && last == 0);
        history_free(h);
}

static void test_empty(void **state) {
        History *h = make(MAX_BYTES);
        uint64_t first, last;

        world_set(2);
        history_covered(h, 0, UINT64_MAX, &first, &last);
        assert_true(first == 0 && last == 0 && history_since(h) == 0);
        assert_int_equal(tick(h, START, START + 10 * SEC), 0);
        history_free(h);
}

static void test_baselines(void **state) {
        History *h = make(MAX_BYTES);

        world_set(2);
        happen(0, 100, 1000000);
        world[0].fresh = false; /* from some time before */
        assert_int_equal(tick(h, START, START + 10 * SEC), 0);
        happen(0, 1, 1000000);
        assert_int_equal(tick(h, START + 10 * SEC, START + 20 * SEC), 1);
        assert_int_equal(count(h, 0, 0, UINT64_MAX), 1);

        /* Went down: counts from there. */
        memset(&world[0].op, 0, sizeof(world[0].op));
        happen(0, 5, 1000000);
        assert_int_equal(tick(h, START + 20 * SEC, START + 30 * SEC), 0);
        happen(0, 2, 1000000);
        assert_int_equal(tick(h, START + 30 * SEC, START + 40 * SEC), 1);
        assert_int_equal(count(h, 0, 0, UINT64_MAX), 3);

        /* Gone, and there again as another one: all of it is new. */
        world[0].absent = true;
        assert_int_equal(tick(h, START + 40 * SEC, START + 50 * SEC), 0);
        world[0].absent = false;
        world[0].fresh = true;
        memset(&world[0].op, 0, sizeof(world[0].op));
        happen(0, 9, 1000000);
        assert_int_equal(tick(h, START + 50 * SEC, START + 60 * SEC), 1);
        assert_int_equal(count(h, 0, 0, UINT64_MAX), 12);
        history_free(h);
}

static void test_merge(void **state) {
        History *h = make(4 * MAX_BYTES);
        uint64_t now = START;
        unsigned n = 25 * 3600 / 10;

        world_set(4);
        for (unsigned i = 0; i < n; i++, now += 10 * SEC) {
                happen(i % 4, 1, 1000000);
                assert_int_equal(history_add_blame(h, "a.service", "b.service", PHASE_JOURNAL, STEP_LOG, 1, 0, false,
                                                   10), 0);
                assert_int_equal(tick(h, now, now + 10 * SEC), 1);
                assert_true(h->n_windows <= 24 * 60 + 15 * 6 + 3);
        }
        assert_true(h->n_windows >= 24 * 60);
        /* The last day: some of the first hour is gone, nothing else. */
        assert_in_range(count(h, 0, 0, UINT64_MAX) + count(h, 1, 0, UINT64_MAX) + count(h, 2, 0, UINT64_MAX) +
                        count(h, 3, 0, UINT64_MAX), 24 * 360, 24 * 360 + 7);
        assert_in_range(now - history_since(h), 24 * 3600 * SEC, 24 * 3600 * SEC + 61 * SEC);
        for (size_t i = 1; i < h->n_windows; i++) {
                assert_true(h->windows[i - 1]->end_us == h->windows[i]->start_us);
                assert_true(h->windows[i]->coarse == (h->windows[i]->end_us + HISTORY_FINE_US <= now));
        }
        history_free(h);
}

static void test_cap(void **state) {
        History *h = make(64 * 1024);
        uint64_t now = START;

        world_set(40);
        for (unsigned i = 0; i < 500; i++, now += 10 * SEC) {
                for (size_t k = 0; k < n_world; k++)
                        happen(k, 1 + k % 3, (1 + i * k) * 1000);
                (void) tick(h, now, now + 10 * SEC); /* checks the size */
        }
        assert_true(h->n_windows > 0);
        assert_true(history_since(h) > START);
        assert_false(h->incomplete);
        assert_int_equal(count(h, 5, now - 10 * SEC, now), 3);
        history_free(h);
}

/* More series than there is room for: those that are kept are right, the others are not there. */
static void test_cap_too_many_series(void **state) {
        History *h = make(64 * 1024);
        uint64_t now = START;
        size_t kept = 0;

        world_set(SERIES_MAX);
        for (unsigned i = 0; i < 20; i++, now += 10 * SEC) {
                for (size_t k = 0; k < n_world; k++)
                        happen(k, 1, (1 + i * k) * 1000);
                (void) tick(h, now, now + 10 * SEC);
                for (size_t k = 0; k < n_world; k++)
                        world[k].fresh = false;
        }
        assert_true(h->incomplete);
        for (size_t k = 0; k < n_world; k++) {
                uint64_t n = count(h, k, now - 10 * SEC, now);

                assert_true(n <= 1);
                kept += n;
        }
        assert_in_range(kept, 20, n_world / 2);
        history_free(h);
}

static const char *wanted;
static size_t n_entries;

static int add_blamed(const BlameEntry *e, void *userdata) {
        n_entries++;
        if (!wanted || streq(e->culprit->text, wanted))
                *(uint64_t *) userdata += e->ns;

        return 0;
}

static uint64_t blamed(const char *culprit, History *h, uint64_t since, uint64_t until) {
        uint64_t sum = 0;

        wanted = culprit;
        n_entries = 0;
        assert_int_equal(history_foreach_blame(h, since, until, add_blamed, &sum), 0);

        return sum;
}

static void test_blame(void **state) {
        History *h = make(MAX_BYTES);
        uint64_t now = START, total = 0;

        world_set(0);
        assert_int_equal(history_add_blame(h, "a", "b", -1, 0, 0, 0, false, 1), -EINVAL);
        assert_int_equal(history_add_blame(h, "a", "b", 0, 1000, 0, 0, false, 1), -EINVAL);
        for (unsigned i = 0; i < 3; i++, now += 10 * SEC) {
                for (unsigned k = 0; k < 5; k++)
                        assert_int_equal(history_add_blame(h, "a", "b", PHASE_JOURNAL, -1, 5, 2, true, 10), 0);
                assert_int_equal(blamed("b", h, now, UINT64_MAX), 50); /* open */
                assert_int_equal(n_entries, 1);
                assert_int_equal(tick(h, now, now + 10 * SEC), 1);
        }
        assert_int_equal(blamed("b", h, 0, UINT64_MAX), 150);
        assert_int_equal(blamed("b", h, START, START + 10 * SEC), 50);
        assert_int_equal(blamed("c", h, 0, UINT64_MAX), 0);

        /* Many: the small ones end up in one, the sum stays. */
        for (unsigned i = 0; i < 3000; i++) {
                char culprit[32];

                snprintf(culprit, sizeof(culprit), "c%u", i);
                assert_int_equal(history_add_blame(h, "victim", culprit, PHASE_DATA, -1, 5, 0, true, i + 1), 0);
                total += i + 1;
        }
        assert_int_equal(blamed(NULL, h, now, UINT64_MAX), total);
        assert_int_equal(tick(h, now, now + 10 * SEC), 1);
        assert_int_equal(blamed(NULL, h, now, UINT64_MAX), total);
        assert_true(n_entries <= BLAME_KEPT_MAX);
        assert_true(blamed(UNIT_OTHERS, h, now, UINT64_MAX) > total / 2);
        assert_int_equal(blamed("c2999", h, now, UINT64_MAX), 3000);

        /* Merged and dropped: names are given back. */
        (void) tick(h, now + 10 * SEC, now + 1000 * SEC);
        assert_int_equal(blamed(NULL, h, 0, UINT64_MAX), total + 150);
        (void) tick(h, now + 1000 * SEC, now + 2 * HISTORY_KEEP_US);
        assert_int_equal(h->n_windows, 0);
        assert_int_equal(h->dict.n_names, 0);
        history_free(h);
}

static int count_stall(const HistoryStall *s, void *userdata) {
        uint64_t *sum = userdata;

        assert_int_equal(s->size, 3);
        *sum += s->id;

        return 0;
}

static uint64_t stall_ids(History *h, uint64_t since) {
        uint64_t sum = 0;

        assert_int_equal(history_foreach_stall(h, since, UINT64_MAX, count_stall, &sum), 0);

        return sum;
}

static void test_stalls(void **state) {
        History *h = make(MAX_BYTES);

        assert_int_equal(history_add_stall(h, 1, START, "a.service", "abc", 3), 0);
        assert_int_equal(history_add_stall(h, 10, START + 2 * SEC, "a.service", "abc", 3), 0);
        assert_int_equal(history_add_stall(h, 10, START + 2 * SEC + 5, "a.service", "xyz", 3), 0); /* has ended */
        assert_int_equal(history_add_stall(h, 10, START + 90 * SEC, "a.service", "abc", 3), 0); /* of another run */
        assert_int_equal(history_add_stall(h, 1, START, "a.service", "", 0), -EINVAL);
        assert_int_equal(stall_ids(h, 0), 21);
        assert_int_equal(stall_ids(h, START + 1), 20);
        for (unsigned i = 0; i < 2 * HISTORY_STALLS_MAX; i++)
                assert_int_equal(history_add_stall(h, 100, START + (100 + i) * SEC, "a.service", "abc", 3), 0);
        assert_int_equal(stall_ids(h, 0), 100 * HISTORY_STALLS_MAX);
        history_free(h);
}

static int to_buffer(const void *data, size_t size, void *userdata) {
        buffer_put(userdata, data, size);

        return 0;
}

static void export(History *h, bool all, Buffer *b) {
        assert_int_equal(history_export(h, EPOCH, all, to_buffer, b), 0);
        assert_int_equal(b->error, 0);
        h->saved_seq = h->seq;
}

/* Reads as much as is good; returns whether all was. */
static bool import(History *h, const Buffer *b, uint64_t epoch, uint64_t now, bool *ret_known) {
        size_t at = STATE_HEADER_SIZE, size, taken;
        const uint8_t *contents;
        HistoryImport im;
        int r = 0;

        history_import_begin(&im, h, epoch);
        while (r >= 0 && state_file_next(b->data + at, b->size - at, &contents, &size, &taken) > 0) {
                r = history_import_record(&im, contents, size);
                at += taken;
        }
        *ret_known = history_import_end(&im, now);
        assert_true(history_bytes(h) <= h->max_bytes);

        return r >= 0 && at == b->size;
}

/* A history, and what a file of it looks like that was rewritten in the middle and added to at the end. */
static History *make_file(Buffer *b) {
        History *h = make(MAX_BYTES);

        world_set(20);
        for (unsigned i = 0; i < 10; i++) {
                uint64_t now = START + i * 10 * SEC;

                for (size_t k = 0; k < n_world; k++)
                        happen(k, k % 3, (i + 1) * 300000);
                assert_int_equal(history_add_blame(h, "a.service", "b.service", PHASE_JOURNAL, 2, 7, 3, false, 5), 0);
                if (i == 7)
                        world[3].absent = true;
                if (i == 8)
                        assert_int_equal(history_add_stall(h, 4, now, "a.service", "abc", 3), 0);
                assert_int_equal(tick(h, now, now + 10 * SEC), 1);
                if (i >= 5)
                        export(h, i == 5, b);
        }

        return h;
}

static void test_file(void **state) {
        History *h, *copy = make(MAX_BYTES);
        uint64_t now = START + 100 * SEC;
        Buffer b = {};
        bool known;

        h = make_file(&b);
        assert_int_equal(state_file_check_header(b.data), 0);
        assert_true(import(copy, &b, EPOCH, now, &known));
        assert_true(known);
        assert_int_equal(copy->n_windows, h->n_windows);
        assert_true(copy->last_tick_us == h->last_tick_us);
        for (size_t i = 0; i < n_world; i++)
                for (unsigned k = 0; k < 10; k++)
                        assert_int_equal(count(copy, i, START + k * 10 * SEC, START + (k + 1) * 10 * SEC),
                                         count(h, i, START + k * 10 * SEC, START + (k + 1) * 10 * SEC));
        assert_int_equal(blamed("b.service", copy, 0, UINT64_MAX), 50);
        assert_int_equal(stall_ids(copy, 0), 4);
        assert_int_equal(tick(copy, now, now + 10 * SEC), 0); /* nothing is new */
        buffer_done(&b);
        history_free(h);
        history_free(copy);
}

static void test_counts_on(void **state) {
        History *h, *copy = make(MAX_BYTES);
        uint64_t now = START + 100 * SEC;
        Buffer b = {};
        bool known;

        h = make_file(&b);
        happen(1, 4, 100);
        happen(2, 3, 900000000);
        assert_true(import(copy, &b, EPOCH, now, &known));
        assert_int_equal(tick(copy, now, now + 10 * SEC), 1);
        assert_int_equal(count(copy, 0, now, UINT64_MAX), 0);
        assert_int_equal(count(copy, 1, now, UINT64_MAX), 4);
        assert_int_equal(count(copy, 2, now, UINT64_MAX), 3);
        buffer_done(&b);
        history_free(h);
        history_free(copy);
}

/* What was counted by other counters says nothing about these. */
static void test_other_epoch(void **state) {
        History *h, *copy = make(MAX_BYTES);
        uint64_t now = START + 100 * SEC;
        Buffer b = {};
        bool known;

        h = make_file(&b);
        assert_true(import(copy, &b, EPOCH + 1, now, &known));
        assert_false(known);
        for (size_t i = 0; i < n_world; i++)
                world[i].fresh = false;
        happen(1, 4, 100);
        assert_int_equal(tick(copy, now, now + 10 * SEC), 0);
        assert_int_equal(count(copy, 1, 0, UINT64_MAX), count(h, 1, 0, UINT64_MAX));
        buffer_done(&b);
        history_free(h);
        history_free(copy);
}

/* The file comes when the history has gone on already. */
static void test_late(void **state) {
        History *h, *copy = make(MAX_BYTES);
        uint64_t now = START + 100 * SEC, before;
        Buffer b = {};
        bool known;

        h = make_file(&b);
        before = count(h, 1, 0, UINT64_MAX);
        for (size_t i = 0; i < n_world; i++)
                world[i].fresh = false;
        assert_int_equal(tick(copy, now, now + 10 * SEC), 0);
        happen(1, 4, 100);
        assert_int_equal(tick(copy, now + 10 * SEC, now + 20 * SEC), 1);
        assert_true(import(copy, &b, EPOCH, now + 20 * SEC, &known));
        assert_int_equal(count(copy, 1, 0, UINT64_MAX), before + 4);
        for (size_t i = 1; i < copy->n_windows; i++)
                assert_true(copy->windows[i - 1]->end_us <= copy->windows[i]->start_us);
        happen(1, 2, 100);
        assert_int_equal(tick(copy, now + 20 * SEC, now + 30 * SEC), 1);
        assert_int_equal(count(copy, 1, 0, UINT64_MAX), before + 6);
        assert_true(copy->rewrite_wanted);
        buffer_done(&b);
        history_free(h);
        history_free(copy);
}

/* Whatever length a torn file has: windows up to there, and from there on nothing is lost or counted twice. */
static void test_torn(void **state) {
        uint64_t now = START + 100 * SEC;
        size_t complete = 0;
        Buffer b = {};
        History *h = make_file(&b);

        for (size_t size = STATE_HEADER_SIZE; size <= b.size; size++) {
                History *copy = make(MAX_BYTES);
                Buffer part = { .data = b.data, .size = size };
                bool known;

                (void) import(copy, &part, EPOCH, now, &known);
                for (size_t i = 0; i < n_world; i++)
                        world[i].fresh = known;
                (void) tick(copy, now, now + 10 * SEC);
                for (size_t i = 0; i < n_world; i++) {
                        if (known && i != 3)
                                assert_int_equal(count(copy, i, 0, UINT64_MAX), count(h, i, 0, UINT64_MAX));
                        else
                                assert_true(count(copy, i, 0, UINT64_MAX) <= count(h, i, 0, UINT64_MAX));
                }
                complete += known;
                history_free(copy);
        }
        assert_true(complete > 100);
        buffer_done(&b);
        history_free(h);
}

/* Damage that the checksums do not tell: each bit of each record's contents. */
static void test_hostile_contents(void **state) {
        uint64_t now = START + 100 * SEC;
        Buffer b = {};
        History *h;
        size_t at = STATE_HEADER_SIZE, size, taken;
        const uint8_t *contents;

        h = make_file(&b);
        while (state_file_next(b.data + at, b.size - at, &contents, &size, &taken) > 0) {
                for (size_t bit = 0; bit < size * 8; bit += 3) {
                        uint8_t *p = b.data + at + STATE_RECORD_OVERHEAD;
                        History *copy = make(64 * 1024);
                        uint32_t sum, good;
                        bool known;

                        p[bit / 8] ^= 1 << bit % 8;
                        memcpy(&good, b.data + at + 4, 4);
                        sum = (uint32_t) crc32(crc32(0, NULL, 0), p, (uInt) size);
                        memcpy(b.data + at + 4, &sum, 4);
                        (void) import(copy, &b, EPOCH, now, &known);
                        (void) tick(copy, now, now + 10 * SEC);
                        p[bit / 8] ^= 1 << bit % 8;
                        memcpy(b.data + at + 4, &good, 4);
                        history_free(copy);
                }
                at += taken;
        }
        assert_int_equal(at, b.size);
        buffer_done(&b);
        history_free(h);
}

/* Records of nothing but noise, with good checksums. */
static void test_noise(void **state) {
        uint64_t seed = 42;

        for (unsigned round = 0; round < 2000; round++) {
                History *h = make(64 * 1024);
                HistoryImport im;

                history_import_begin(&im, h, EPOCH);
                for (unsigned i = 0; i < 20; i++) {
                        uint8_t record[64];
                        size_t size = 1 + test_random(&seed) % sizeof(record);

                        for (size_t k = 0; k < size; k++)
                                record[k] = (uint8_t) (test_random(&seed) % (k % 2 ? 256 : 8));
                        record[0] = (uint8_t) (1 + test_random(&seed) % 10);
                        (void) history_import_record(&im, record, size);
                }
                (void) history_import_end(&im, START);
                assert_true(history_bytes(h) <= h->max_bytes);
                history_free(h);
        }
}

/* A file that never ends: it is stopped before memory is full. */
static void test_too_much(void **state) {
        History *h = make(64 * 1024);
        HistoryImport im;
        int r = 0;

        history_import_begin(&im, h, EPOCH);
        for (uint64_t i = 1; i < 1000000 && r >= 0; i++) {
                char name[16];
                Buffer b = {};

                snprintf(name, sizeof(name), "n%ju", (uintmax_t) i);
                buffer_put_varint(&b, RECORD_NAME);
                buffer_put_varint(&b, i);
                buffer_put_string(&b, name);
                r = history_import_record(&im, b.data, b.size);
                buffer_done(&b);
        }
        assert_int_equal(r, -E2BIG);
        (void) history_import_end(&im, START);
        assert_true(history_bytes(h) <= h->max_bytes);
        history_free(h);
}

/* Far more windows than fit: the newest of them stay, and the array of them does not fill the history by itself. */
static void test_too_many_windows(void **state) {
        static const uint8_t name[] = { RECORD_NAME, 1, 1, 'n' }, series[] = { RECORD_SERIES, 1, 1, 0, 0, 0, 0, 0 };
        enum { WINDOWS = 20000 };
        const struct op_value v = { .total = { .count = 1 } };
        History *h = make(64 * 1024);
        HistoryImport im;
        Buffer numbers = {};

        op_value_encode(&numbers, &v);
        history_import_begin(&im, h, EPOCH);
        assert_int_equal(history_import_record(&im, name, sizeof(name)), 0);
        assert_int_equal(history_import_record(&im, series, sizeof(series)), 0);
        for (uint64_t i = 0; i < WINDOWS; i++) {
                Buffer b = {};

                buffer_put_varint(&b, RECORD_WINDOW);
                buffer_put_varint(&b, START + i * SEC);
                buffer_put_varint(&b, START + (i + 1) * SEC);
                buffer_put_varint(&b, 1); /* coarse: not to be merged */
                buffer_put_varint(&b, 1 << 1);
                buffer_put_varint(&b, numbers.size);
                buffer_put(&b, numbers.data, numbers.size);
                assert_int_equal(history_import_record(&im, b.data, b.size), 0);
                buffer_done(&b);
        }
        (void) history_import_end(&im, START + WINDOWS * SEC);
        assert_true(history_bytes(h) <= h->max_bytes);
        assert_true(h->n_windows > 100);
        assert_true(h->windows[h->n_windows - 1]->end_us == START + WINDOWS * SEC);
        buffer_done(&numbers);
        history_free(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_windows),
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_baselines),
                cmocka_unit_test(test_merge),
                cmocka_unit_test(test_cap),
                cmocka_unit_test(test_cap_too_many_series),
                cmocka_unit_test(test_blame),
                cmocka_unit_test(test_stalls),
                cmocka_unit_test(test_file),
                cmocka_unit_test(test_counts_on),
                cmocka_unit_test(test_other_epoch),
                cmocka_unit_test(test_late),
                cmocka_unit_test(test_torn),
                cmocka_unit_test(test_hostile_contents),
                cmocka_unit_test(test_noise),
                cmocka_unit_test(test_too_much),
                cmocka_unit_test(test_too_many_windows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
