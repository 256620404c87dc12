/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "histogram.h"
#include "history-codec.h"

enum { BUFFER_FIRST = 256 }; /* bytes */

void buffer_done(Buffer *b) {
        free(b->data);
        *b = (Buffer){};
}

void buffer_put(Buffer *b, const void *data, size_t size) {
        if (b->error < 0 || size == 0)
                return;
        if (size > b->n_allocated - b->size) {
                size_t n = MAX(b->n_allocated * 2, (size_t) BUFFER_FIRST);
                uint8_t *p;

                n = MAX(n, b->size + size);
                p = realloc(b->data, n);
                if (!p) {
                        b->error = -ENOMEM;
                        return;
                }
                b->data = p;
                b->n_allocated = n;
        }
        memcpy(b->data + b->size, data, size);
        b->size += size;
}

void buffer_put_varint(Buffer *b, uint64_t v) {
        uint8_t bytes[VARINT_MAX];
        size_t n = 0;

        for (; v >= 0x80; v >>= 7)
                bytes[n++] = (uint8_t) v | 0x80;
        bytes[n++] = (uint8_t) v;
        buffer_put(b, bytes, n);
}

void buffer_put_string(Buffer *b, const char *s) {
        size_t n = strlen(s);

        buffer_put_varint(b, n);
        buffer_put(b, s, n);
}

int cursor_fail(Cursor *c) {
        c->error = -EBADMSG;
        c->p = c->end;

        return -EBADMSG;
}

uint64_t cursor_varint(Cursor *c) {
        uint64_t v = 0;

        for (unsigned shift = 0; c->p < c->end && shift < 64; shift += 7) {
                uint8_t byte = *c->p++;

                if (shift == 63 && byte > 1)
                        break;
                v |= (uint64_t) (byte & 0x7f) << shift;
                if (!(byte & 0x80))
                        return v;
        }
        cursor_fail(c);

        return 0;
}

uint64_t cursor_number(Cursor *c, uint64_t max) {
        uint64_t v = cursor_varint(c);

        if (v > max) {
                cursor_fail(c);
                return 0;
        }

        return v;
}

const uint8_t *cursor_bytes(Cursor *c, size_t size) {
        const uint8_t *p = c->p;

        if (c->error < 0 || size > (size_t) (c->end - c->p)) {
                cursor_fail(c);
                return NULL;
        }
        c->p += size;

        return p;
}

void cursor_string(Cursor *c, char *buf, size_t size) {
        uint64_t n = cursor_number(c, size - 1);
        const uint8_t *p = cursor_bytes(c, n);

        *buf = 0;
        if (!p)
                return;
        if (memchr(p, 0, n)) {
                cursor_fail(c);
                return;
        }
        memcpy(buf, p, n);
        buf[n] = 0;
}

/* Number of those that are not 0, then for each the distance to the one before, and itself. */
static void numbers_encode(Buffer *b, const unsigned long long *v, unsigned n) {
        unsigned used = 0, last = 0;

        for (unsigned i = 0; i < n; i++)
                used += v[i] != 0;
        buffer_put_varint(b, used);
        for (unsigned i = 0; i < n; i++) {
                if (!v[i])
                        continue;
                buffer_put_varint(b, i - last);
                buffer_put_varint(b, v[i]);
                last = i;
        }
}

static void numbers_decode_add(Cursor *c, unsigned long long *v, unsigned n) {
        uint64_t used = cursor_number(c, n);
        uint64_t at = 0;

        for (uint64_t i = 0; i < used && c->error == 0; i++) {
                uint64_t step = cursor_number(c, n - 1);

                at += step;
                if (at >= n || (step == 0 && i > 0)) {
                        cursor_fail(c);
                        return;
                }
                v[at] += cursor_varint(c);
        }
}

/* Histograms of both forms begin with these three and their buckets. */
static void hist_encode(Buffer *b, uint64_t count, uint64_t sum, uint64_t max, const unsigned long long *bucket,
                        unsigned n) {
        buffer_put_varint(b, count);
        buffer_put_varint(b, sum);
        buffer_put_varint(b, max);
        numbers_encode(b, bucket, n);
}

static void full_encode(Buffer *b, const struct hist_full *h) {
        hist_encode(b, h->count, h->sum_ns, h->max_ns, h->bucket, BUCKETS_FULL);
}

static void full_decode_add(Cursor *c, struct hist_full *h) {
        uint64_t max;

        h->count += cursor_varint(c);
        h->sum_ns += cursor_varint(c);
        max = cursor_varint(c);
        h->max_ns = MAX(h->max_ns, max);
        numbers_decode_add(c, h->bucket, BUCKETS_FULL);
}

static void short_decode_add(Cursor *c, struct hist_short *h) {
        uint64_t max;

        h->count += cursor_varint(c);
        h->sum_ns += cursor_varint(c);
        max = cursor_varint(c);
        h->max_ns = MAX(h->max_ns, max);
        numbers_decode_add(c, h->bucket, BUCKETS_SHORT);
}

static bool short_is_empty(const struct hist_short *h) {
        if (h->count || h->sum_ns || h->max_ns)
                return false;
        for (unsigned i = 0; i < BUCKETS_SHORT; i++)
                if (h->bucket[i])
                        return false;

        return true;
}

void op_value_encode(Buffer *b, const struct op_value *v) {
        unsigned used = 0;

        buffer_put_varint(b, v->errors);
        numbers_encode(b, v->step_ns, _STEP_MAX);
        full_encode(b, &v->total);
        for (unsigned i = 0; i < _PHASE_MAX; i++)
                if (!short_is_empty(&v->phase[i]))
                        used |= 1U << i;
        buffer_put_varint(b, used);
        for (unsigned i = 0; i < _PHASE_MAX; i++)
                if (used & 1U << i)
                        hist_encode(b, v->phase[i].count, v->phase[i].sum_ns, v->phase[i].max_ns, v->phase[i].bucket,
                                    BUCKETS_SHORT);
}

void rq_value_encode(Buffer *b, const struct rq_value *v) {
        buffer_put_varint(b, v->errors);
        buffer_put_varint(b, v->bytes);
        buffer_put_varint(b, v->untimed);
        numbers_encode(b, v->owned_bytes, _OWNED_BY_MAX);
        full_encode(b, &v->queue);
        full_encode(b, &v->device);
}

static int cursor_finish(const Cursor *c) {
        return c->error < 0 || c->p != c->end ? -EBADMSG : 0;
}

int op_value_decode_add(const uint8_t *data, size_t size, struct op_value *v) {
        Cursor c = cursor(data, size);
        uint64_t used;

        v->errors += cursor_varint(&c);
        numbers_decode_add(&c, v->step_ns, _STEP_MAX);
        full_decode_add(&c, &v->total);
        used = cursor_number(&c, (1U << _PHASE_MAX) - 1);
        for (unsigned i = 0; i < _PHASE_MAX; i++)
                if (used & 1U << i)
                        short_decode_add(&c, &v->phase[i]);

        return cursor_finish(&c);
}

int rq_value_decode_add(const uint8_t *data, size_t size, struct rq_value *v) {
        Cursor c = cursor(data, size);

        v->errors += cursor_varint(&c);
        v->bytes += cursor_varint(&c);
        v->untimed += cursor_varint(&c);
        numbers_decode_add(&c, v->owned_bytes, _OWNED_BY_MAX);
        full_decode_add(&c, &v->queue);
        full_decode_add(&c, &v->device);

        return cursor_finish(&c);
}

static bool number_diff(unsigned long long now, unsigned long long before, unsigned long long *ret) {
        *ret = now - before;

        return now >= before;
}

static bool numbers_diff(const unsigned long long *now, const unsigned long long *before, unsigned long long *ret,
                         unsigned n) {
        for (unsigned i = 0; i < n; i++)
                if (!number_diff(now[i], before[i], &ret[i]))
                        return false;

        return true;
}

static uint64_t max_diff(uint64_t now, uint64_t before, const unsigned long long *grown, unsigned n,
                         bucket_u64 (*upper)(unsigned)) {
        if (now > before)
                return now;
        for (unsigned i = n; i > 0; i--)
                if (grown[i - 1])
                        return MIN(upper(i - 1), now);

        return 0;
}

static bool full_diff(const struct hist_full *now, const struct hist_full *before, struct hist_full *ret) {
        if (now->max_ns < before->max_ns || !number_diff(now->count, before->count, &ret->count) ||
            !number_diff(now->sum_ns, before->sum_ns, &ret->sum_ns) ||
            !numbers_diff(now->bucket, before->bucket, ret->bucket, BUCKETS_FULL))
                return false;
        ret->max_ns = max_diff(now->max_ns, before->max_ns, ret->bucket, BUCKETS_FULL, bucket_full_upper);

        return true;
}

static bool short_diff(const struct hist_short *now, const struct hist_short *before, struct hist_short *ret) {
        if (now->max_ns < before->max_ns || !number_diff(now->count, before->count, &ret->count) ||
            !number_diff(now->sum_ns, before->sum_ns, &ret->sum_ns) ||
            !numbers_diff(now->bucket, before->bucket, ret->bucket, BUCKETS_SHORT))
                return false;
        ret->max_ns = max_diff(now->max_ns, before->max_ns, ret->bucket, BUCKETS_SHORT, bucket_short_upper);

        return true;
}

bool op_value_diff(const struct op_value *now, const struct op_value *before, struct op_value *ret) {
        ret->folded_from = 0;
        ret->requests = 0; /* not kept */
        if (!number_diff(now->errors, before->errors, &ret->errors) ||
            !numbers_diff(now->step_ns, before->step_ns, ret->step_ns, _STEP_MAX) ||
            !full_diff(&now->total, &before->total, &ret->total))
                return false;
        for (unsigned i = 0; i < _PHASE_MAX; i++)
                if (!short_diff(&now->phase[i], &before->phase[i], &ret->phase[i]))
                        return false;

        return true;
}

bool rq_value_diff(const struct rq_value *now, const struct rq_value *before, struct rq_value *ret) {
        ret->folded_from = 0;

        return number_diff(now->errors, before->errors, &ret->errors) &&
                number_diff(now->bytes, before->bytes, &ret->bytes) &&
                number_diff(now->untimed, before->untimed, &ret->untimed) &&
                numbers_diff(now->owned_bytes, before->owned_bytes, ret->owned_bytes, _OWNED_BY_MAX) &&
                full_diff(&now->queue, &before->queue, &ret->queue) &&
                full_diff(&now->device, &before->device, &ret->device);
}
