/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz.h"
#include "history-codec.h"

/* Encoded numbers: what is read once is written in one certain way, and as long as is promised at most. */

static void check_op(const uint8_t *data, size_t size) {
        struct op_value v = {}, again = {}, grown;
        Buffer b = {};

        if (op_value_decode_add(data, size, &v) < 0)
                return;
        op_value_encode(&b, &v);
        fuzz_check(b.error == 0 && b.size <= ENCODED_VALUE_MAX);
        fuzz_check(op_value_decode_add(b.data, b.size, &again) == 0);
        fuzz_check(memcmp(&v, &again, sizeof(v)) == 0);
        fuzz_check(op_value_diff(&v, &(struct op_value){}, &grown));
        /* What comes from elsewhere is added to what there is. */
        (void) op_value_decode_add(data, size, &again);
        (void) op_value_diff(&again, &v, &grown);
        b.size = 0;
        op_value_encode(&b, &again);
        fuzz_check(b.size <= ENCODED_VALUE_MAX);
        buffer_done(&b);
}

static void check_rq(const uint8_t *data, size_t size) {
        struct rq_value v = {}, again = {}, grown;
        Buffer b = {};

        if (rq_value_decode_add(data, size, &v) < 0)
                return;
        rq_value_encode(&b, &v);
        fuzz_check(b.error == 0 && b.size <= ENCODED_VALUE_MAX);
        fuzz_check(rq_value_decode_add(b.data, b.size, &again) == 0);
        fuzz_check(memcmp(&v, &again, sizeof(v)) == 0);
        fuzz_check(rq_value_diff(&v, &(struct rq_value){}, &grown));
        (void) rq_value_decode_add(data, size, &again);
        (void) rq_value_diff(&again, &v, &grown);
        b.size = 0;
        rq_value_encode(&b, &again);
        fuzz_check(b.size <= ENCODED_VALUE_MAX);
        buffer_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint8_t *copy = malloc(size + !size); /* of exactly that size */

        fuzz_check(copy);
        if (size > 0)
                memcpy(copy, data, size);
        check_op(copy, size);
        check_rq(copy, size);
        free(copy);

        return 0;
}
