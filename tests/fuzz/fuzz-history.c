/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "history-file.h"
#include "state-io.h"

/* A state file, read as the daemon reads it: from a directory, record by record, into a history that counts on from
 * there and is written again. The input is such a file, with right or wrong checksums; the mutator below makes files
 * whose checksums are right. */

enum {
        MAX_BYTES = 64 * 1024, /* the smallest that can be configured */
        EPOCH = 77,
        RECORDS_MAX = 4096,
};

#define NOW_US (1796040000 * USEC_PER_SEC)

static char dir[] = "/dev/shm/iolat-fuzz-XXXXXX";

static void remove_dir(void) {
        char path[sizeof(dir) + sizeof("/" STATE_FILE_NAME)];

        snprintf(path, sizeof(path), "%s/" STATE_FILE_NAME, dir);
        (void) unlink(path);
        (void) rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
        fuzz_check(mkdtemp(dir));
        fuzz_check(atexit(remove_dir) == 0);

        return 0;
}

static void write_file(const uint8_t *data, size_t size) {
        _cleanup_close_ int fd = -EBADF;
        char path[sizeof(dir) + sizeof("/" STATE_FILE_NAME)];

        snprintf(path, sizeof(path), "%s/" STATE_FILE_NAME, dir);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t) size);
}

/* The records of the file, which are all valid. */
static int load_file(uint8_t **ret, size_t *ret_size) {
        _cleanup_close_ int fd = memfd_create("records", MFD_CLOEXEC);
        struct stat st;
        int r;

        fuzz_check(fd >= 0);
        r = state_io_load(dir, fd);
        fuzz_check(fstat(fd, &st) == 0);
        *ret_size = (size_t) st.st_size;
        *ret = malloc(*ret_size + !*ret_size);
        fuzz_check(*ret && pread(fd, *ret, *ret_size, 0) == st.st_size);

        return r;
}

static void check_accounts(History *h) {
        size_t windows = 0, stalls = 0, series = 0;

        fuzz_check(history_bytes(h) <= h->max_bytes);
        for (size_t i = 0; i < h->n_windows; i++) {
                Cursor c = cursor(h->windows[i]->data, h->windows[i]->size);
                WindowEntry e;

                windows += window_bytes(h->windows[i]);
                while (window_next(&c, &e))
                        fuzz_check(history_dict_series_by_id(&h->dict, e.id));
                fuzz_check(c.error == 0);
        }
        fuzz_check(windows == h->windows_bytes);
        for (size_t i = 0; i < h->n_stalls; i++) {
                stalls += strlen(h->stalls[i].unit) + 1 + h->stalls[i].size + 2 * ALLOCATION_OVERHEAD;
                fuzz_check(i == 0 || h->stalls[i - 1].start_us <= h->stalls[i].start_us ||
                           h->stalls[i - 1].start_us - h->stalls[i].start_us < USEC_PER_SEC);
        }
        fuzz_check(stalls == h->stalls_bytes);
        for (size_t i = 0; i < h->dict.n_series; i++)
                if (h->dict.series[i]->baseline)
                        series += history_series_bytes(h->dict.series[i]);
        fuzz_check(series == h->dict.baseline_bytes);
}

static int on_blame(const BlameEntry *e, void *userdata) {
        *(size_t *) userdata += strlen(e->victim->text) + strlen(e->culprit->text);

        return 0;
}

static int on_stall(const HistoryStall *s, void *userdata) {
        *(size_t *) userdata += strlen(s->unit) + s->record[s->size - 1];

        return 0;
}

static void query(History *h) {
        uint64_t first, last;
        size_t total = 0;

        history_covered(h, 0, UINT64_MAX, &first, &last);
        fuzz_check(first <= last);
        for (size_t i = 0; i < h->dict.n_series; i++) {
                HistorySum sum = { .series = h->dict.series[i] };

                fuzz_check(history_sum(h, 0, UINT64_MAX, &sum, 1) == 0);
        }
        fuzz_check(history_foreach_blame(h, 0, UINT64_MAX, on_blame, &total) == 0);
        fuzz_check(history_foreach_stall(h, 0, UINT64_MAX, on_stall, &total) == 0);
}

/* One more thing happened to every series, as far as it is known. */
static int feed(History *h, void *userdata) {
        size_t n = h->dict.n_series;
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++) {
                HistorySeries *s = h->dict.series[i];
                SeriesKey key = history_series_key(s);

                if (key.is_request) {
                        struct rq_value v = {};

                        if (s->baseline)
                                fuzz_check(rq_value_decode_add(s->baseline, s->baseline_size, &v) == 0);
                        v.bytes++;
                        r = history_note_rq(h, &key, false, &v);
                } else {
                        struct op_value v = {};

                        if (s->baseline)
                                fuzz_check(op_value_decode_add(s->baseline, s->baseline_size, &v) == 0);
                        v.total.count++;
                        r = history_note_op(h, &key, false, &v);
                }
        }

        return r;
}

static int to_buffer(const void *data, size_t size, void *userdata) {
        buffer_put(userdata, data, size);

        return ((Buffer *) userdata)->error;
}

/* Returns what the first record was refused with. */
static int import(History *h, uint64_t epoch, const uint8_t *data, size_t size) {
        const uint8_t *contents;
        HistoryImport im;
        size_t n, taken;
        int r = 0;

        history_import_begin(&im, h, epoch);
        while (r >= 0 && (r = state_file_next(data, size, &contents, &n, &taken)) > 0) {
                r = history_import_record(&im, contents, n);
                data += taken;
                size -= taken;
        }
        (void) history_import_end(&im, NOW_US);
        check_accounts(h);

        return r;
}

/* What is written is read again, all of it. */
static void check_again(History *h) {
        History *again = NULL;
        Buffer b = {};

        fuzz_check(history_new(&again, MAX_BYTES) == 0);
        fuzz_check(history_export(h, EPOCH, true, to_buffer, &b) == 0);
        fuzz_check(state_file_check_header(b.data) == 0);
        fuzz_check(import(again, EPOCH, b.data + STATE_HEADER_SIZE, b.size - STATE_HEADER_SIZE) == 0);
        query(again);
        buffer_done(&b);
        history_free(again);
}

static void count_on(History *h) {
        fuzz_check(history_add_blame(h, "victim.service", "culprit.service", 1, -1, 0, 1, false, 1000) >= 0);
        fuzz_check(history_tick(h, NOW_US, NOW_US + HISTORY_INTERVAL_US, feed, NULL) >= 0);
        history_drop_absent(h);
        check_accounts(h);
        query(h);
        fuzz_check(history_tick(h, NOW_US + 2 * HISTORY_INTERVAL_US, NOW_US + HISTORY_FINE_US * 2, feed, NULL) >= 0);
        history_drop_absent(h);
        check_accounts(h);
}

static void run(const uint8_t *records, size_t size, uint64_t epoch, bool late) {
        History *h = NULL;

        fuzz_check(history_new(&h, MAX_BYTES) == 0);
        if (late) {
                fuzz_check(history_add_blame(h, "a.service", "b.service", 1, -1, 0, 1, false, 1000) >= 0);
                fuzz_check(history_tick(h, NOW_US - HISTORY_INTERVAL_US, NOW_US, feed, NULL) == 1);
        }
        (void) import(h, epoch, records, size);
        query(h);
        check_again(h);
        count_on(h);
        check_again(h);
        history_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint8_t *records = NULL;
        size_t n = 0;
        int r;

        write_file(data, size);
        r = load_file(&records, &n);
        fuzz_check(n < size || size == 0);
        fuzz_check(r >= 0 || r == -EBADMSG || r == -EPROTO);
        run(records, n, EPOCH, false);
        run(records, n, EPOCH, true);
        free(records);

        return 0;
}

typedef struct Record {
        const uint8_t *contents;
        size_t size;
} Record;

/* What looks like the records of a file, whatever the checksums say. */
static size_t split(const uint8_t *data, size_t size, Record *records) {
        size_t n = 0;

        if (size < STATE_HEADER_SIZE)
                return 0;
        for (data += STATE_HEADER_SIZE, size -= STATE_HEADER_SIZE; size > STATE_RECORD_OVERHEAD && n < RECORDS_MAX;) {
                size_t length = data[0] | (size_t) data[1] << 8 | (size_t) data[2] << 16 | (size_t) data[3] << 24;

                length = MIN(length, size - STATE_RECORD_OVERHEAD);
                records[n++] = (Record){ data + STATE_RECORD_OVERHEAD, length };
                data += STATE_RECORD_OVERHEAD + length;
                size -= STATE_RECORD_OVERHEAD + length;
        }

        return n;
}

/* Changes, repeats, drops or moves a record. Now and then any byte is changed. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
        static Record records[RECORDS_MAX];
        size_t n = split(data, size, records), which, room, taken;
        uint8_t header[STATE_HEADER_SIZE];
        uint8_t *changed;
        Buffer b = {};

        if (n == 0 || seed % 32 == 0)
                return LLVMFuzzerMutate(data, size, max_size);
        which = seed / 256 % n;
        room = records[which].size + max_size - MIN(size, max_size) + 1;
        changed = malloc(room);
        fuzz_check(changed);

        state_file_header(header);
        buffer_put(&b, header, sizeof(header));
        for (size_t i = 0; i < n; i++) {
                Record *r = &records[i];
                unsigned times = 1;

                if (i == which && seed % 8 < 5) {
                        memcpy(changed, r->contents, r->size);
                        *r = (Record){ changed, LLVMFuzzerMutate(changed, r->size, room) };
                } else if (i == which && seed % 8 == 5)
                        times = 2 + seed / 65536 % 8;
                else if (i == which && seed % 8 == 6)
                        times = 0;
                else if (i == which && i > 0) {
                        Record before = records[i - 1];

                        /* Before the one before, which comes a second time here. */
                        state_file_put(&b, r->contents, r->size);
                        *r = before;
                }
                for (; times > 0 && r->size > 0; times--)
                        state_file_put(&b, r->contents, r->size);
        }
        taken = MIN(b.size, max_size);
        memcpy(data, b.data, taken);
        buffer_done(&b);
        free(changed);

        return taken;
}
