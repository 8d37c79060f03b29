/* The last rank computes without a call of MPI while the others wait for what it has begun. The first
 * argument says who makes progress for it: "calls", nobody, so that they wait until it calls; "thread", a
 * thread of the library, so that they do not; "multiple", the same at MPI_THREAD_MULTIPLE, where functions
 * of the program are called by that thread; "started", the same with a thread that MPICH's extension starts,
 * which was stopped before. The second one names a file in which those are counted whose
 * wait is over. Prints "rank N: computes ok". */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONG = 1 << 20 };

/* Seconds of a computation that the others must wait for, and the most of one that ends when they do not. */
static const double WHOLE = 0.3, MOST = 20;

static int rank, size, last;
static int has_thread, is_multiple;
static pthread_t self;
static int *from, *into;
static _Atomic int *over;

/* The waits of the others: until the last rank calls, or not. */
enum Wait { LASTS, IS_SHORT, EITHER };

static _Atomic int *shared(const char *name)
{
    int file = open(name, O_RDWR | O_CREAT, 0600);
    void *memory;

    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Computes while so many others wait for what was begun. */
static void compute(int others, enum Wait wait)
{
    double start = MPI_Wtime(), most = wait == IS_SHORT ? MOST : WHOLE;
    volatile double x = 1;

    while (MPI_Wtime() < start + most && atomic_load(over) < others)
        for (int i = 0; i < 100000; i++)
            x = x * 1.0000001;
    CHECK(wait != IS_SHORT || atomic_load(over) == others);
    CHECK(wait != LASTS || atomic_load(over) == 0);
}

/* Ends a request that so many others have, too: the last rank after a computation. */
static void end(MPI_Request *request, int others, enum Wait wait)
{
    if (rank == last)
        compute(others, wait);
    MPI_Wait(request, MPI_STATUS_IGNORE);
    if (rank != last)
        atomic_fetch_add(over, 1);
}

static void begin(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last)
        atomic_store(over, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A message that its receiver has to ask for. */
static void announced_message(enum Wait wait)
{
    MPI_Request request = MPI_REQUEST_NULL;

    for (int i = 0; i < LONG; i++)
        from[i] = i;
    memset(into, 0, LONG * sizeof(int));
    if (rank == last)
        MPI_Irecv(into, LONG, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    begin();
    if (rank == 0)
        MPI_Isend(from, LONG, MPI_INT, last, 1, MPI_COMM_WORLD, &request);
    if (rank == 0 || rank == last)
        end(&request, 1, wait);
    if (rank == last)
        CHECK(memcmp(from, into, LONG * sizeof(int)) == 0);
}

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    CHECK(is_multiple || pthread_equal(pthread_self(), self));
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* A reduction of several steps. */
static void reduction(MPI_Op op, enum Wait wait)
{
    MPI_Request request;

    for (int i = 0; i < LONG; i++)
        from[i] = i + rank;
    begin();
    MPI_Iallreduce(from, into, LONG, MPI_INT, op, MPI_COMM_WORLD, &request);
    end(&request, size - 1, wait);
    for (int i = 0; i < LONG; i++)
        CHECK(into[i] == size * i + size * (size - 1) / 2);
}

/* Memory of the last rank is read. */
static void window(void)
{
    MPI_Win win;

    for (int i = 0; i < LONG; i++)
        from[i] = i * (rank + 1);
    MPI_Win_create(from, LONG * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    begin();
    if (rank == last) {
        compute(size - 1, IS_SHORT);
    } else {
        MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win);
        MPI_Get(into, LONG, MPI_INT, last, 0, LONG, MPI_INT, win);
        MPI_Win_unlock(last, win);
        atomic_fetch_add(over, 1);
        for (int i = 0; i < LONG; i++)
            CHECK(into[i] == i * size);
    }
    MPI_Win_free(&win);
}

#ifdef MPIX_STREAM_NULL
/* Starts a thread of the library, for itself or for a stream. */
static void start(void)
{
    MPIX_Stream stream;

    MPIX_Stream_create(MPI_INFO_NULL, &stream);
    CHECK(MPIX_Stop_progress_thread(MPIX_STREAM_NULL) == MPI_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(MPIX_Start_progress_thread(MPIX_STREAM_NULL) == MPI_SUCCESS);
        CHECK(MPIX_Start_progress_thread(MPIX_STREAM_NULL) == MPI_SUCCESS);
        CHECK(MPIX_Start_progress_thread(stream) == MPI_SUCCESS);
        CHECK(MPIX_Stop_progress_thread(MPIX_STREAM_NULL) == MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
        if (i == 0)
            CHECK(MPIX_Stop_progress_thread(stream) == MPI_SUCCESS);
    }
}

/* Without threads of the program there is none. */
static void refused(void)
{
    int class;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Error_class(MPIX_Start_progress_thread(MPIX_STREAM_NULL), &class);
    CHECK(class == MPI_ERR_OTHER && MPIX_Stop_progress_thread(MPIX_STREAM_NULL) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}
#endif

int main(int argc, char **argv)
{
    int started = argc > 1 && strcmp(argv[1], "started") == 0;
    enum Wait wait;
    int level;
    MPI_Op op;

    CHECK(argc == 3);
    over = shared(argv[2]);
    is_multiple = started || strcmp(argv[1], "multiple") == 0;
    has_thread = is_multiple || strcmp(argv[1], "thread") == 0;
    self = pthread_self();
    MPI_Init_thread(&argc, &argv, is_multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    CHECK(level == (is_multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    last = size - 1;
    from = malloc(LONG * sizeof(int));
    into = malloc(LONG * sizeof(int));
    CHECK(from != NULL && into != NULL);
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(MPI_IN_PLACE, &level, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wait = has_thread ? IS_SHORT : LASTS;
#ifdef MPIX_STREAM_NULL
    /* A thread that the environment asks for stays. */
    if (has_thread && !started)
        CHECK(MPIX_Stop_progress_thread(MPIX_STREAM_NULL) == MPI_SUCCESS);
    if (started) {
        announced_message(LASTS);
        start();
    }
    if (!has_thread)
        refused();
#endif
    announced_message(wait);
    reduction(MPI_SUM, wait);
    /* The others may need no function of the last rank. */
    reduction(op, is_multiple ? IS_SHORT : EITHER);
    if (has_thread)
        window();
    MPI_Op_free(&op);
    MPI_Finalize();
    printf("rank %d: computes ok\n", rank);
    return 0;
}
