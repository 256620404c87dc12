/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history-bridge.h"

BlameRow blame_row_of_entry(const BlameEntry *e) {
        return (BlameRow){
                .victim = e->victim->text,
                .culprit = e->culprit->text,
                .dev = e->dev,
                .phase = e->phase,
                .step = e->step < 0 ? BLAME_NO_STEP : (uint8_t) e->step,
                .weight = e->weight,
                .estimated = e->estimated,
                .ns = e->ns,
        };
}

static int on_addition(const BlameRow *row, void *userdata) {
        return history_add_blame(userdata, row->victim, row->culprit, row->phase,
                                 row->step == BLAME_NO_STEP ? -1 : row->step, row->dev, row->weight, row->estimated,
                                 row->ns);
}

void history_listen(History *h, Blame *matrix) {
        blame_set_listener(matrix, on_addition, h);
}

static int seed_entry(const BlameEntry *e, void *userdata) {
        const BlameRow row = blame_row_of_entry(e);

        return blame_add(userdata, &row);
}

int history_seed(History *h, Blame *matrix, uint64_t before_us) {
        int r;

        blame_set_listener(matrix, NULL, NULL);
        r = history_foreach_blame(h, 0, before_us, seed_entry, matrix);
        history_listen(h, matrix);

        return r;
}
