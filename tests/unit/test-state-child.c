/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <signal.h>

#include "state-child.h"
#include "test.h"

enum { MUCH = 1000 * 1000 };

typedef struct Run {
        sd_event *event;
        StateChild *child;
        int what; /* what the child is to do */
        size_t n_bytes;
        bool in_order;
        unsigned n_late;
        unsigned n_done;
        int result;
} Run;

static int work(int fd, void *userdata) {
        const Run *run = userdata;
        static uint8_t bytes[MUCH];

        switch (run->what) {
        case 'a': /* all is well, much is written */
                for (size_t i = 0; i < MUCH; i++)
                        bytes[i] = (uint8_t) (i % 251);
                for (size_t i = 0; i < MUCH;) {
                        ssize_t n = write(fd, bytes + i, MUCH - i);

                        if (n < 0)
                                return -errno;
                        i += (size_t) n;
                }
                return 0;
        case 'e': /* error */
                return -ENOSPC;
        case 'h': /* hangs, whatever signals the parent blocks */
                for (;;)
                        pause();
        case 'd': /* dies */
                (void) raise(SIGTERM);
                return 0;
        case 'f': /* nothing else is open */
                for (int i = 4; i < 256; i++)
                        if (fcntl(i, F_GETFD) >= 0)
                                return -EMFILE;
                return fcntl(fd, F_GETFD) < 0 ? -errno : 0;
        default:
                return -EINVAL;
        }
}

static void data(const void *data, size_t size, void *userdata) {
        Run *run = userdata;
        const uint8_t *p = data;

        for (size_t i = 0; i < size; i++)
                run->in_order = run->in_order && p[i] == (run->n_bytes + i) % 251;
        run->n_bytes += size;
}

static void done(int result, void *userdata) {
        Run *run = userdata;

        assert_false(state_child_busy(run->child));
        run->result = result;
        run->n_done++;
        (void) sd_event_exit(run->event, 0);
}

static void late(void *userdata) {
        Run *run = userdata;

        assert_true(state_child_busy(run->child));
        run->n_late++;
}

static const StateChildCallbacks callbacks = { work, data, done, late };

static int setup(void **state) {
        Run *run = calloc(1, sizeof(*run));
        sigset_t mask;

        assert_non_null(run);
        sigemptyset(&mask);
        sigaddset(&mask, SIGCHLD);
        assert_int_equal(sigprocmask(SIG_BLOCK, &mask, NULL), 0);
        assert_true(sd_event_new(&run->event) >= 0);
        assert_int_equal(state_child_new(&run->child, run->event, 200 * USEC_PER_MSEC), 0);
        run->in_order = true;
        *state = run;

        return 0;
}

static int teardown(void **state) {
        Run *run = *state;

        state_child_free(run->child);
        sd_event_unref(run->event);
        free(run);

        return 0;
}

static int run_to_end(Run *run, int what) {
        run->what = what;
        assert_int_equal(state_child_start(run->child, &callbacks, run), 0);
        assert_int_equal(state_child_start(run->child, &callbacks, run), -EBUSY);
        assert_true(sd_event_loop(run->event) >= 0);
        assert_int_equal(run->n_done, 1);

        return run->result;
}

static void test_data(void **state) {
        Run *run = *state;

        assert_int_equal(run_to_end(run, 'a'), 0);
        assert_int_equal(run->n_bytes, MUCH);
        assert_true(run->in_order);
        assert_int_equal(run->n_late, 0);
}

static void test_error(void **state) {
        assert_int_equal(run_to_end(*state, 'e'), -ENOSPC);
}

static void test_death(void **state) {
        assert_int_equal(run_to_end(*state, 'd'), -ECANCELED);
}

static void test_hang(void **state) {
        Run *run = *state;

        assert_int_equal(run_to_end(run, 'h'), -ETIMEDOUT);
        assert_int_equal(run->n_late, 1);
}

static void test_descriptors(void **state) {
        int fds[10];

        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = dup(STDERR_FILENO); /* inherited across fork() in any case */
        assert_int_equal(run_to_end(*state, 'f'), 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                close(fds[i]);
}

/* When the loop has ended. */
static void test_wait(void **state) {
        Run *run = *state;
        uint64_t began;

        assert_int_equal(state_child_wait(run->child, now_ns() + NSEC_PER_SEC), 0);
        assert_true(sd_event_exit(run->event, 0) >= 0);
        assert_true(sd_event_loop(run->event) >= 0);

        run->what = 'a';
        assert_int_equal(state_child_start(run->child, &callbacks, run), 0);
        assert_int_equal(state_child_wait(run->child, now_ns() + 10 * NSEC_PER_SEC), 0);
        assert_int_equal(run->n_done, 1);
        assert_int_equal(run->result, 0);
        assert_int_equal(run->n_bytes, MUCH);
        assert_true(run->in_order);

        run->what = 'h';
        began = now_ns();
        assert_int_equal(state_child_start(run->child, &callbacks, run), 0);
        assert_int_equal(state_child_wait(run->child, began + 100 * NSEC_PER_MSEC), -ETIMEDOUT);
        assert_in_range(now_ns() - began, 100 * NSEC_PER_MSEC, 5 * NSEC_PER_SEC);
        assert_int_equal(run->n_done, 1);
}

#define WITH_RUN(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_RUN(test_data), WITH_RUN(test_error),       WITH_RUN(test_death),
                WITH_RUN(test_hang), WITH_RUN(test_descriptors), WITH_RUN(test_wait),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
