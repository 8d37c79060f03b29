/* Operations of the program that go on when MPI calls a function: generalized requests that are polled or waited for,
 * and asynchronous things. Each rank sends to the next. Prints "rank N: polled ok". */
#include "check.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int rank, size, next, before, freed, cancelled;
/* No thread of the library calls functions, so that their calls can be counted. */
static int counts;

/* An operation that is over after so many calls, or when a receive is. */
struct operation {
    MPI_Request request, receive;
    int calls, needed, inside, fails;
};

static int query(void *state, MPI_Status *status)
{
    struct operation *op = state;

    MPI_Status_set_elements(status, MPI_INT, op->needed);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 17;
    status->MPI_TAG = 18;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    struct operation *op = state;

    CHECK(op->inside == 0 || op->request == MPI_REQUEST_NULL);
    freed++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    CHECK(!complete || !counts);
    cancelled++;
    return MPI_SUCCESS;
}

static int poll(void *state, MPI_Status *status)
{
    struct operation *op = state;
    int flag = 0, n;

    (void)status;
    /* No second call while this one lasts, although it calls MPI. */
    CHECK(op->inside++ == 0);
    MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &n, MPI_STATUS_IGNORE);
    op->calls++;
    if (op->receive != MPI_REQUEST_NULL)
        MPI_Test(&op->receive, &flag, MPI_STATUS_IGNORE);
    op->inside--;
    if (op->fails)
        return MPI_ERR_IO;
    if (flag || (op->needed > 0 && op->calls == op->needed))
        MPI_Grequest_complete(op->request);
    return MPI_SUCCESS;
}

static int wait_for(int count, void **states, double timeout, MPI_Status *status)
{
    struct operation *op = states[0];

    (void)status;
    CHECK(count == 1 && timeout >= 0);
    if (++op->calls == op->needed)
        MPI_Grequest_complete(op->request);
    return MPI_SUCCESS;
}

static void begin(struct operation *op, int needed)
{
    *op = (struct operation){.receive = MPI_REQUEST_NULL, .needed = needed};
    CHECK(MPIX_Grequest_start(query, release, cancel, poll, NULL, op, &op->request) == MPI_SUCCESS);
}

static void check_status(const MPI_Status *status, int needed)
{
    int n;

    MPI_Get_elements(status, MPI_INT, &n);
    CHECK(n == needed && status->MPI_SOURCE == 17 && status->MPI_TAG == 18);
}

static void requests_that_are_polled(void)
{
    struct operation op[4];
    MPI_Request requests[4], all[3];
    MPI_Status status, statuses[4];
    int flag, index, count, at[4], data = -1, tests = 0;

    freed = 0;
    begin(&op[0], 1000);
    CHECK(MPI_Wait(&op[0].request, &status) == MPI_SUCCESS && op[0].calls == 1000 && freed == 1);
    check_status(&status, 1000);

    /* Each test calls it once; what only looks does not. */
    begin(&op[0], 3);
    CHECK(!counts || (!MPIX_Request_is_complete(op[0].request) && op[0].calls == 0));
    for (flag = 0; !flag; tests++)
        MPI_Test(&op[0].request, &flag, &status);
    CHECK((tests == 3 || !counts) && freed == 2);
    check_status(&status, 3);
    begin(&op[0], 3);
    for (flag = 0; !flag;)
        MPI_Request_get_status(op[0].request, &flag, &status);
    check_status(&status, 3);
    MPI_Request_free(&op[0].request);
    CHECK(freed == 3);

    for (int i = 0; i < 4; i++) {
        begin(&op[i], 10 * (i + 1));
        requests[i] = op[i].request;
    }
    MPI_Waitany(4, requests, &index, &status);
    CHECK(index == 0 || !counts);
    check_status(&status, 10 * (index + 1));
    MPI_Waitsome(4, requests, &count, at, statuses);
    CHECK((count == 1 && at[0] == 1) || !counts);
    for (int i = 0; i < count; i++)
        check_status(&statuses[i], 10 * (at[i] + 1));
    MPI_Waitall(4, requests, statuses);
    for (int i = 0; counts && i < 2; i++)
        check_status(&statuses[2 + i], 10 * (3 + i));
    CHECK(freed == 7);

    /* With messages: one request is over when a message has come. */
    begin(&op[0], 0);
    MPI_Irecv(&data, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &op[0].receive);
    all[0] = op[0].request;
    MPI_Irecv(&index, 1, MPI_INT, before, 2, MPI_COMM_WORLD, &all[1]);
    if (size > 1 && rank == 0)
        usleep(30000);
    MPI_Isend(&rank, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &all[2]);
    MPI_Wait(&all[2], MPI_STATUS_IGNORE);
    MPI_Isend(&rank, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &all[2]);
    MPI_Waitall(3, all, MPI_STATUSES_IGNORE);
    CHECK(data == before && index == before && freed == 8);

    /* One is polled in a wait for something else, too. */
    begin(&op[0], 5);
    MPI_Barrier(MPI_COMM_WORLD);
    for (tests = 0; op[0].calls < 5; tests++)
        MPI_Iprobe(MPI_ANY_SOURCE, 998, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(tests <= 5 && MPIX_Request_is_complete(op[0].request));
    MPI_Wait(&op[0].request, MPI_STATUS_IGNORE);

    /* A request that was given up is freed when it is complete, whoever completes it. */
    freed = 0;
    begin(&op[0], 4);
    requests[0] = op[0].request;
    MPI_Request_free(&requests[0]);
    CHECK(requests[0] == MPI_REQUEST_NULL && (freed == 0 || !counts));
    begin(&op[1], 6);
    MPI_Wait(&op[1].request, MPI_STATUS_IGNORE);
    while (!counts && freed < 2)
        MPIX_Stream_progress(MPIX_STREAM_NULL);
    CHECK(op[0].calls == 4 && freed == 2);
    MPI_Grequest_start(query, release, cancel, &op[2], &requests[0]);
    requests[1] = requests[0];
    MPI_Request_free(&requests[0]);
    CHECK(freed == 2);
    CHECK(MPI_Grequest_complete(requests[1]) == MPI_SUCCESS && freed == 3);

    begin(&op[0], 3);
    MPI_Cancel(&op[0].request);
    CHECK(cancelled == 1);
    MPI_Wait(&op[0].request, MPI_STATUS_IGNORE);
}

static void failures(void)
{
    struct operation op;
    MPIX_Grequest_class class;
    MPI_Request request;
    int code, kind;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    freed = 0;
    begin(&op, 0);
    op.fails = 1;
    code = MPI_Wait(&op.request, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &kind);
    CHECK(kind == MPI_ERR_IO && op.calls == 1 && freed == 1);
    code = MPIX_Grequest_start(NULL, release, cancel, poll, NULL, &op, &request);
    MPI_Error_class(code, &kind);
    CHECK(kind == MPI_ERR_ARG);
    code = MPIX_Grequest_class_create(query, NULL, cancel, poll, NULL, &class);
    MPI_Error_class(code, &kind);
    CHECK(kind == MPI_ERR_ARG);
    code = MPIX_Grequest_class_allocate(12345, &op, &request);
    MPI_Error_class(code, &kind);
    CHECK(kind == MPI_ERR_ARG);
    code = MPIX_Async_start(NULL, NULL, MPIX_STREAM_NULL);
    MPI_Error_class(code, &kind);
    CHECK(kind == MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void classes_and_requests_that_are_waited_for(void)
{
    struct operation op[2];
    MPIX_Grequest_class polled, waited;
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MPIX_Grequest_class_create(query, release, cancel, poll, NULL, &polled);
    MPIX_Grequest_class_create(query, release, cancel, NULL, wait_for, &waited);
    CHECK(polled != waited);
    for (int i = 0; i < 2; i++) {
        op[i] = (struct operation){.receive = MPI_REQUEST_NULL, .needed = 7 + i};
        MPIX_Grequest_class_allocate(i == 0 ? polled : waited, &op[i], &op[i].request);
        requests[i] = op[i].request;
    }
    MPI_Waitall(2, requests, statuses);
    check_status(&statuses[0], 7);
    check_status(&statuses[1], 8);
    CHECK(op[0].calls == 7 && op[1].calls == 8);

    op[0] = (struct operation){.receive = MPI_REQUEST_NULL, .needed = 2};
    MPIX_Grequest_start(query, release, cancel, NULL, wait_for, &op[0], &op[0].request);
    MPI_Wait(&op[0].request, &statuses[0]);
    check_status(&statuses[0], 2);
}

/* A thing that counts down, begins two others that do the same, and sends at its end. */
struct thing {
    int calls, depth, tag, number;
    struct thing *children;
    MPI_Request request;
};

static int things_over, in_function;

static int go_on(MPIX_Async_thing async)
{
    struct thing *thing = MPIX_Async_get_state(async);
    int children = 0;

    CHECK(++in_function == 1);
    if (thing->calls++ == 0 && thing->depth > 0) {
        thing->children = calloc(2, sizeof *thing->children);
        for (; children < 2; children++) {
            thing->children[children].depth = thing->depth - 1;
            thing->children[children].tag = -1;
            CHECK(MPIX_Async_spawn(async, go_on, &thing->children[children], MPIX_STREAM_NULL) == MPI_SUCCESS);
            CHECK(thing->children[children].calls == 0);
        }
    }
    in_function--;
    if (thing->calls < 5)
        return MPIX_ASYNC_NOPROGRESS;
    if (thing->calls == 5 && thing->tag >= 0) {
        MPI_Isend(&thing->number, 1, MPI_INT, next, thing->tag, MPI_COMM_WORLD, &thing->request);
        return MPIX_ASYNC_NOPROGRESS;
    }
    if (thing->tag >= 0 && !MPIX_Request_is_complete(thing->request))
        return MPIX_ASYNC_NOPROGRESS;
    if (thing->tag >= 0)
        MPI_Wait(&thing->request, MPI_STATUS_IGNORE);
    things_over++;
    return MPIX_ASYNC_DONE;
}

static void asynchronous_things(void)
{
    static struct thing things[3];
    int number;

    for (int round = 0; round < 3; round++) {
        things_over = 0;
        things[round] = (struct thing){.depth = 2, .tag = 5 + round, .number = 10 * rank + round};
        MPIX_Async_start(go_on, &things[round], MPIX_STREAM_NULL);
        /* The message that the wait is for is sent by a function that the sender's wait calls. */
        if (round == 0)
            MPI_Recv(&number, 1, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (round == 1)
            MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, &number, 1, MPI_INT, before, 6, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        else {
            MPI_Probe(before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(&number, 1, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        CHECK(number == 10 * before + round);
        while (things_over < 7)
            MPIX_Stream_progress(MPIX_STREAM_NULL);
        CHECK(things_over == 7 && things[round].calls >= 6);
    }
}

/* A thing that may be polled by any thread, and by one at a time. */
struct shared {
    int inside, calls, number;
    MPI_Request request;
};

static int sends_late(MPIX_Async_thing async)
{
    struct shared *shared = MPIX_Async_get_state(async);

    CHECK(__atomic_fetch_add(&shared->inside, 1, __ATOMIC_ACQ_REL) == 0);
    if (++shared->calls == 50)
        MPI_Isend(&shared->number, 1, MPI_INT, next, 100 + shared->number, MPI_COMM_WORLD, &shared->request);
    CHECK(__atomic_fetch_sub(&shared->inside, 1, __ATOMIC_ACQ_REL) == 1);
    if (shared->calls < 50 || !MPIX_Request_is_complete(shared->request))
        return MPIX_ASYNC_NOPROGRESS;
    MPI_Wait(&shared->request, MPI_STATUS_IGNORE);
    return MPIX_ASYNC_DONE;
}

static void *receives(void *argument)
{
    struct shared *shared = argument;
    int number;

    for (int round = 0; round < 3; round++) {
        shared->calls = 0;
        MPIX_Async_start(sends_late, shared, MPIX_STREAM_NULL);
        MPI_Recv(&number, 1, MPI_INT, before, 100 + shared->number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(number == shared->number);
        /* The thing is used again when it is over. */
        while (__atomic_load_n(&shared->calls, __ATOMIC_ACQUIRE) < 50 || !MPIX_Request_is_complete(shared->request))
            MPIX_Stream_progress(MPIX_STREAM_NULL);
        while (shared->request != MPI_REQUEST_NULL)
            MPIX_Stream_progress(MPIX_STREAM_NULL);
    }
    return NULL;
}

static void threads(void)
{
    static struct shared shared[4];
    pthread_t all[4];

    for (int i = 0; i < 4; i++) {
        shared[i] = (struct shared){.number = i, .request = MPI_REQUEST_NULL};
        pthread_create(&all[i], NULL, receives, &shared[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

/* Many at once, each of which calls MPI: the calls do not nest without end. */
static int left;

static int tests_once(MPIX_Async_thing async)
{
    int flag;

    (void)async;
    MPI_Iprobe(MPI_ANY_SOURCE, 997, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    left--;
    return MPIX_ASYNC_DONE;
}

static void many(void)
{
    left = 5000;
    for (int i = 0; i < 5000; i++)
        MPIX_Async_start(tests_once, NULL, MPIX_STREAM_NULL);
    while (left > 0)
        MPIX_Stream_progress(MPIX_STREAM_NULL);
}

/* One that MPI_Finalize waits for. */
static int ended;

static int at_the_end(MPIX_Async_thing async)
{
    double *until = MPIX_Async_get_state(async);

    if (MPI_Wtime() < *until)
        return MPIX_ASYNC_NOPROGRESS;
    ended = 1;
    return MPIX_ASYNC_DONE;
}

int main(int argc, char **argv)
{
    int level, wanted = argc > 1 && strcmp(argv[1], "single") == 0 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
    static double until;
    const char *progress;

    MPI_Init_thread(&argc, &argv, wanted, &level);
    CHECK(level >= wanted);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    progress = getenv("NETMOD_PROGRESS");
    counts = wanted != MPI_THREAD_MULTIPLE || progress == NULL || strcmp(progress, "thread") != 0;
    requests_that_are_polled();
    failures();
    classes_and_requests_that_are_waited_for();
    asynchronous_things();
    many();
    if (wanted == MPI_THREAD_MULTIPLE)
        threads();
    until = MPI_Wtime() + (argc > 2 ? atof(argv[2]) : 0.05);
    MPIX_Async_start(at_the_end, &until, MPIX_STREAM_NULL);
    MPI_Finalize();
    CHECK(ended);
    printf("rank %d: polled ok\n", rank);
    return 0;
}
