/* Communicators whose ranks are threads: messages, collective operations, duplicates, splits and
 * attributes, in regions that follow each other. The number of a process's threads is one more than
 * its rank modulo 3. The argument is how many communicators are made of one; or "death": the last process
 * dies while threads wait for its threads. Prints "rank N: threads ok". */
#include "check.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 3, LONG = 1 << 17, REGIONS = 5 };

static int world_rank, processes, own, total, first, key, deleted, dups;
static MPI_Comm comm;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The error that this thread expects. */
static __thread int expected = MPI_SUCCESS;

/* Nothing else may go wrong. */
static void handle(MPI_Comm *of, int *code, ...)
{
    int class, length;
    char text[MPI_MAX_ERROR_STRING];

    (void)of;
    MPI_Error_class(*code, &class);
    MPI_Error_string(*code, text, &length);
    if (class != expected)
        fprintf(stderr, "%s\n", text);
    CHECK(class == expected);
    expected = MPI_SUCCESS;
}

/* The call is an error of this class, of which the handler is told. */
#define REFUSED(call, class) (expected = (class), CHECK((call) != MPI_SUCCESS && expected == MPI_SUCCESS))

static int forget(MPI_Comm of, int keyval, void *value, void *extra)
{
    (void)of, (void)keyval, (void)value, (void)extra;
    pthread_mutex_lock(&lock);
    deleted++;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

/* From each thread to each, by name and by wildcard, short and long. */
static void messages(MPI_Comm in, int rank, int size)
{
    int *sent = calloc(size, sizeof *sent), got, n = 0, flag;
    char *seen = calloc(size, 1);
    MPI_Request *requests = calloc(2 * size, sizeof *requests);
    int *taken = calloc(size, sizeof *taken);
    double *out = malloc(LONG * sizeof *out), *into = malloc(LONG * sizeof *into);
    MPI_Status status;
    MPI_Message message;

    for (int peer = 0; peer < size; peer++) {
        sent[peer] = 1000 * rank + peer;
        MPI_Isend(&sent[peer], 1, MPI_INT, peer, 5, in, &requests[n++]);
    }
    for (int peer = size - 1; peer >= 0; peer--)
        MPI_Irecv(&taken[peer], 1, MPI_INT, peer, 5, in, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < size; peer++)
        CHECK(taken[peer] == 1000 * peer + rank);

    for (int peer = 0; peer < size; peer++)
        MPI_Send(&rank, 1, MPI_INT, peer, 6 + rank, in);
    for (int i = 0; i < size; i++) {
        switch (i % 3) {
        case 0:
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, in, &status);
            break;
        case 1:
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, in, &message, &status);
            CHECK(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            break;
        default:
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, in, &status);
            MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, in, &status);
        }
        CHECK(status.MPI_SOURCE == got && status.MPI_TAG == 6 + got && !seen[got]);
        seen[got] = 1;
    }
    MPI_Barrier(in);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, in, &flag, &status);
    CHECK(!flag);
    MPI_Barrier(in);

    for (int i = 0; i < LONG; i++)
        out[i] = rank + i;
    MPI_Irecv(into, LONG, MPI_DOUBLE, (rank + size - 1) % size, 1, in, &requests[0]);
    MPI_Issend(out, LONG, MPI_DOUBLE, (rank + 1) % size, 1, in, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(into[0] == (rank + size - 1) % size && into[LONG - 1] == into[0] + LONG - 1);
    MPI_Send_init(&rank, 1, MPI_INT, (rank + 1) % size, 2, in, &requests[0]);
    MPI_Recv_init(&got, 1, MPI_INT, (rank + size - 1) % size, 2, in, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(got == (rank + size - 1) % size);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    /* One that fits nothing is taken back. */
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 9, in, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    REFUSED(MPI_Send(&rank, 1, MPI_INT, size, 0, in), MPI_ERR_RANK);
    free(sent), free(seen), free(requests), free(taken), free(out), free(into);
}

static void collectives(MPI_Comm in, int rank, int size)
{
    int sum, *all = malloc(size * sizeof *all), *other = malloc(size * sizeof *other), n;
    double *data = malloc(LONG * sizeof *data), *added = malloc(LONG * sizeof *added);
    MPI_Request request;

    for (int root = 0; root < size; root++) {
        n = rank == root ? 77 + root : 0;
        MPI_Bcast(&n, 1, MPI_INT, root, in);
        CHECK(n == 77 + root);
        MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, root, in);
        CHECK(rank != root || sum == size * (size - 1) / 2);
    }
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, in);
    for (int i = 0; i < size; i++) {
        CHECK(all[i] == i);
        all[i] = 100 * rank + i;
    }
    MPI_Alltoall(all, 1, MPI_INT, other, 1, MPI_INT, in);
    for (int i = 0; i < size; i++)
        CHECK(other[i] == 100 * i + rank);
    MPI_Scan(&rank, &n, 1, MPI_INT, MPI_SUM, in);
    CHECK(n == rank * (rank + 1) / 2);
    for (int i = 0; i < LONG; i++)
        data[i] = rank + i % 7;
    MPI_Allreduce(data, added, LONG, MPI_DOUBLE, MPI_SUM, in);
    for (int i = 0; i < LONG; i++)
        CHECK(added[i] == size * (size - 1) / 2 + size * (i % 7));
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, in, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == size - 1);
    MPI_Barrier(in);
    free(all), free(other), free(data), free(added);
}

/* All that can be made of it. Its threads have context ids in common, which are given back. */
static void others(MPI_Comm in, int rank, int size)
{
    MPI_Comm made, part, of_part;
    MPI_Request request;
    int n, sum, part_rank, part_size;

    for (int i = 0; i < dups; i++) {
        MPI_Comm_dup(in, &made);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made);
        CHECK(sum == size * (size - 1) / 2);
        /* Some are freed at once, others while the next is made. */
        if (i % 2)
            MPI_Comm_free(&made);
        MPI_Comm_split(in, (rank + i) % 3 == 2 ? MPI_UNDEFINED : (rank + i) % 3, -rank, &part);
        if (part != MPI_COMM_NULL) {
            MPI_Comm_rank(part, &part_rank);
            MPI_Comm_size(part, &part_size);
            MPI_Allreduce(&rank, &n, 1, MPI_INT, MPI_MAX, part);
            CHECK(part_rank != 0 || n == rank);
            /* The other part does so, too, with other threads of this process. */
            MPI_Comm_dup(part, &of_part);
            MPI_Bcast(&n, 1, MPI_INT, 0, of_part);
            MPI_Comm_free(&of_part);
            CHECK(part_rank != 0 || n == rank);
            MPI_Sendrecv(&rank, 1, MPI_INT, (part_rank + 1) % part_size, 4, &n, 1, MPI_INT,
                         (part_rank + part_size - 1) % part_size, 4, part, MPI_STATUS_IGNORE);
            CHECK(n % 3 == rank % 3);
            MPI_Comm_free(&part);
        } else {
            CHECK((rank + i) % 3 == 2);
        }
        if (i % 2 == 0)
            MPI_Comm_free(&made);
    }
    MPI_Comm_split_type(in, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &part);
    MPI_Comm_rank(part, &n);
    CHECK(n == size - 1 - rank);
    MPI_Comm_free(&part);
    MPI_Comm_idup(in, &made, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_compare(in, made, &n);
    CHECK(n == MPI_CONGRUENT);
    CHECK(MPIX_Comm_test_threadcomm(made, &n) == MPI_SUCCESS && n);
    messages(made, rank, size);
    MPI_Comm_disconnect(&made);
}

/* What has no ranks of threads says so. */
static void refusals(void)
{
    MPI_Win win;
    MPI_Comm made;
    MPI_Group group;
    MPI_Request request;
    int one = 1, n = 0;

    REFUSED(MPI_Win_allocate(8, 1, MPI_INFO_NULL, comm, &n, &win), MPI_ERR_COMM);
    REFUSED(MPI_Cart_create(comm, 1, &one, &n, 0, &made), MPI_ERR_COMM);
    MPI_Comm_group(comm, &group);
    MPI_Group_rank(group, &n);
    CHECK(n == MPI_UNDEFINED);
    REFUSED(MPI_Comm_create(comm, group, &made), MPI_ERR_COMM);
    REFUSED(MPI_Comm_create_group(comm, group, 0, &made), MPI_ERR_COMM);
    MPI_Group_free(&group);
    REFUSED(MPI_Psend_init(&n, 1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &request), MPI_ERR_COMM);
    REFUSED(MPIX_Threadcomm_init(comm, 1, &made), MPI_ERR_COMM);
    REFUSED(MPIX_Comm_revoke(comm), MPI_ERR_COMM);
    made = comm;
    REFUSED(MPI_Comm_free(&made), MPI_ERR_COMM);
    CHECK(made == comm);
    REFUSED(MPIX_Threadcomm_free(&made), MPI_ERR_OTHER);
    CHECK(made == comm);
    REFUSED(MPIX_Threadcomm_start(comm), MPI_ERR_OTHER);
}

static void *region(void *argument)
{
    int rank, size, flag, round = *(int *)argument;
    void *value;
    char name[MPI_MAX_OBJECT_NAME], was[MPI_MAX_OBJECT_NAME];

    REFUSED(MPI_Comm_rank(comm, &rank), MPI_ERR_COMM);
    CHECK(MPIX_Threadcomm_start(comm) == MPI_SUCCESS);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    CHECK(size == total && rank >= first && rank < first + own);
    MPI_Comm_set_attr(comm, key, &rank);
    sprintf(name, "rank %d", rank);
    MPI_Comm_set_name(comm, name);
    refusals();
    switch (round) {
    case 0:
        messages(comm, rank, size);
        break;
    case 1:
        collectives(comm, rank, size);
        break;
    case 2:
        others(comm, rank, size);
        break;
    default:
        collectives(comm, rank, size);
        messages(comm, rank, size);
    }
    MPI_Comm_get_name(comm, was, &flag);
    CHECK(!strcmp(name, was));
    MPI_Comm_get_attr(comm, key, &value, &flag);
    CHECK(flag && value == &rank);
    CHECK(MPIX_Threadcomm_finish(comm) == MPI_SUCCESS);
    REFUSED(MPI_Comm_rank(comm, &rank), MPI_ERR_COMM);
    REFUSED(MPIX_Threadcomm_finish(comm), MPI_ERR_COMM);
    return NULL;
}

/* A thread of the last process, which dies, or one that waits for it. */
static void *bereaved(void *argument)
{
    int rank, got;

    (void)argument;
    MPIX_Threadcomm_start(comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Barrier(comm);
    if (world_rank == processes - 1) {
        usleep(20000);
        _exit(9);
    }
    REFUSED(MPI_Recv(&got, 1, MPI_INT, rank % 2 ? total - 1 : MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE),
            MPIX_ERR_PROC_FAILED);
    REFUSED(MPI_Send(&rank, 1, MPI_INT, total - 1, 2, comm), MPIX_ERR_PROC_FAILED);
    CHECK(MPIX_Threadcomm_finish(comm) == MPI_SUCCESS);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, flag, round, *counts;
    pthread_t threads[MOST];
    MPI_Comm gone, none;
    MPI_Errhandler handler;

    CHECK(argc == 2);
    dups = atoi(argv[1]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, NULL);
    own = world_rank % MOST + 1;
    counts = calloc(processes, sizeof *counts);
    MPI_Allgather(&own, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < processes; i++) {
        first += i < world_rank ? counts[i] : 0;
        total += counts[i];
    }
    REFUSED(MPIX_Threadcomm_init(MPI_COMM_WORLD, -1, &comm), MPI_ERR_ARG);
    REFUSED(MPIX_Threadcomm_start(MPI_COMM_WORLD), MPI_ERR_COMM);
    CHECK(MPIX_Threadcomm_init(MPI_COMM_WORLD, own, &comm) == MPI_SUCCESS);
    CHECK(MPIX_Comm_test_threadcomm(comm, &flag) == MPI_SUCCESS && flag);
    CHECK(MPIX_Comm_test_threadcomm(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && !flag);
    if (dups == 0) {
        for (int i = 0; i < own; i++)
            CHECK(pthread_create(&threads[i], NULL, bereaved, NULL) == 0);
        for (int i = 0; i < own; i++)
            pthread_join(threads[i], NULL);
        MPIX_Comm_failure_ack(MPI_COMM_WORLD);
        MPIX_Threadcomm_free(&comm);
        MPI_Comm_free_keyval(&key);
        free(counts);
        MPI_Finalize();
        printf("rank %d: threads ok\n", world_rank);
        return 0;
    }
    for (round = 0; round < REGIONS; round++) {
        for (int i = 0; i < own; i++)
            CHECK(pthread_create(&threads[i], NULL, region, &round) == 0);
        for (int i = 0; i < own; i++)
            pthread_join(threads[i], NULL);
        CHECK(deleted == own * (round + 1));
    }
    gone = comm;
    CHECK(MPIX_Threadcomm_free(&comm) == MPI_SUCCESS && comm == MPI_COMM_NULL);
    REFUSED(MPIX_Threadcomm_start(gone), MPI_ERR_COMM);
    REFUSED(MPIX_Threadcomm_free(&gone), MPI_ERR_COMM);
    /* Ids are given back: there are 2048. Some processes give no threads. */
    for (int i = 0; i < 3000; i++) {
        CHECK(MPIX_Threadcomm_init(MPI_COMM_WORLD, i % 2 ? own : own - 1 + (world_rank == 0), &none) ==
              MPI_SUCCESS);
        CHECK(MPIX_Threadcomm_free(&none) == MPI_SUCCESS);
    }
    if (own > 1 || processes == 1) {
        REFUSED(MPIX_Threadcomm_init(MPI_COMM_SELF, 0, &none), MPI_ERR_ARG);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free_keyval(&key);
    free(counts);
    MPI_Finalize();
    printf("rank %d: threads ok\n", world_rank);
    return 0;
}
