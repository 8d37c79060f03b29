/* Communication in partitions: partitions that arrive before others are ready, sides with other partitions,
 * types with gaps, threads, errors. Prints "rank N: partitioned ok". For two ranks or more; the
 * first two talk. */
#include "check.h"
#include <pthread.h>
#include <string.h>

enum { PARTS = 8, EACH = 3000, RUNS = 5 };

static int rank;

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* The receiver has seen a partition before the sender says that the next one is ready. */
static void early(MPI_Comm comm)
{
    static int data[PARTS * EACH];
    MPI_Request request;
    MPI_Status status;
    int run, i, part, flag;

    if (rank == 0) {
        MPI_Psend_init(data, PARTS, EACH, MPI_INT, 1, 5, comm, MPI_INFO_NULL, &request);
        for (run = 0; run < RUNS; run++) {
            MPI_Start(&request);
            /* From the last one to the first. */
            for (part = PARTS - 1; part >= 0; part--) {
                for (i = 0; i < EACH; i++)
                    data[part * EACH + i] = run * 1000000 + part * EACH + i;
                CHECK(MPI_Pready(part, request) == MPI_SUCCESS);
                MPI_Recv(NULL, 0, MPI_INT, 1, 6, comm, MPI_STATUS_IGNORE);
            }
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        MPI_Precv_init(data, PARTS, EACH, MPI_INT, 0, 5, comm, MPI_INFO_NULL, &request);
        CHECK(MPI_Parrived(request, 3, &flag) == MPI_SUCCESS && flag);
        for (run = 0; run < RUNS; run++) {
            memset(data, 0xff, sizeof data);
            MPI_Start(&request);
            for (part = PARTS - 1; part >= 0; part--) {
                do
                    CHECK(MPI_Parrived(request, part, &flag) == MPI_SUCCESS);
                while (!flag);
                for (i = part * EACH; i < (part + 1) * EACH; i++)
                    CHECK(data[i] == run * 1000000 + i);
                if (part > 0)
                    CHECK(MPI_Parrived(request, part - 1, &flag) == MPI_SUCCESS && !flag);
                MPI_Send(NULL, 0, MPI_INT, 0, 6, comm);
            }
            MPI_Wait(&request, &status);
            MPI_Get_count(&status, MPI_INT, &i);
            CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 5 && i == PARTS * EACH);
        }
    }
    MPI_Request_free(&request);
}

/* Sides divide the same data in their own ways; the receiver's elements have gaps. */
static void divided(MPI_Comm comm, int sent, int received, int elements, int with_gaps)
{
    int *data = calloc(2 * elements + 1, sizeof *data), stride = with_gaps ? 2 : 1, run, i, flag;
    MPI_Datatype type;
    MPI_Request request;

    CHECK(data && elements % sent == 0 && elements % received == 0);
    MPI_Type_create_resized(MPI_INT, 0, stride * sizeof(int), &type);
    MPI_Type_commit(&type);
    for (run = 0; run < 3; run++) {
        if (rank == 0) {
            if (run == 0)
                MPI_Psend_init(data, sent, elements / sent, MPI_INT, 1, 7, comm, MPI_INFO_NULL, &request);
            MPI_Start(&request);
            for (i = 0; i < elements; i++)
                data[i] = i + run;
            CHECK(MPI_Pready_range(sent / 2, sent - 1, request) == MPI_SUCCESS);
            if (sent > 1) {
                int *list = malloc(sent / 2 * sizeof *list);
                for (i = 0; i < sent / 2; i++)
                    list[i] = sent / 2 - 1 - i;
                CHECK(MPI_Pready_list(sent / 2, list, request) == MPI_SUCCESS);
                free(list);
            }
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            if (run == 0)
                MPI_Precv_init(data, received, elements / received, type, 0, 7, comm, MPI_INFO_NULL, &request);
            memset(data, 0xff, (2 * elements + 1) * sizeof *data);
            MPI_Start(&request);
            do
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            while (!flag);
            CHECK(MPI_Parrived(request, received - 1, &flag) == MPI_SUCCESS && flag);
            for (i = 0; i < elements; i++)
                CHECK(data[stride * i] == i + run && (!with_gaps || data[2 * i + 1] == -1));
        }
    }
    MPI_Request_free(&request);
    MPI_Type_free(&type);
    free(data);
}

static MPI_Request shared;
static int values[PARTS * EACH];

static void *one_partition(void *argument)
{
    int part = (int)(long)argument, i;

    for (i = 0; i < EACH; i++)
        values[part * EACH + i] = part;
    CHECK(MPI_Pready(part, shared) == MPI_SUCCESS);
    return NULL;
}

static void *await_partition(void *argument)
{
    int part = (int)(long)argument, flag, i;

    do
        CHECK(MPI_Parrived(shared, part, &flag) == MPI_SUCCESS);
    while (!flag);
    for (i = 0; i < EACH; i++)
        CHECK(values[part * EACH + i] == part);
    return NULL;
}

static void by_threads(MPI_Comm comm)
{
    pthread_t threads[PARTS];
    int run;
    long part;

    if (rank == 0)
        MPI_Psend_init(values, PARTS, EACH, MPI_INT, 1, 8, comm, MPI_INFO_NULL, &shared);
    else
        MPI_Precv_init(values, PARTS, EACH, MPI_INT, 0, 8, comm, MPI_INFO_NULL, &shared);
    for (run = 0; run < RUNS; run++) {
        memset(values, 0xff, sizeof values);
        MPI_Start(&shared);
        for (part = 0; part < PARTS; part++)
            CHECK(!pthread_create(&threads[part], NULL, rank ? await_partition : one_partition, (void *)part));
        for (part = 0; part < PARTS; part++)
            CHECK(!pthread_join(threads[part], NULL));
        MPI_Wait(&shared, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&shared);
}

/* Requests of the same tag find each other in the order of their making; one that was freed before
 * anything came does not take part. */
static void in_order(MPI_Comm comm)
{
    int data[2] = {-1, -1}, i;
    MPI_Request requests[2], freed;

    if (rank == 1) {
        MPI_Precv_init(data, 1, 1, MPI_INT, 0, 9, comm, MPI_INFO_NULL, &freed);
        MPI_Request_free(&freed);
    }
    MPI_Barrier(comm);
    if (rank == 0) {
        for (i = 0; i < 2; i++) {
            data[i] = 40 + i;
            MPI_Psend_init(&data[i], 1, 1, MPI_INT, 1, 9, comm, MPI_INFO_NULL, &requests[i]);
        }
        MPI_Startall(2, requests);
        CHECK(MPI_Pready(0, requests[1]) == MPI_SUCCESS && MPI_Pready(0, requests[0]) == MPI_SUCCESS);
    } else {
        for (i = 0; i < 2; i++)
            MPI_Precv_init(&data[i], 1, 1, MPI_INT, 0, 9, comm, MPI_INFO_NULL, &requests[i]);
        MPI_Startall(2, requests);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(data[0] == 40 && data[1] == 41);
    for (i = 0; i < 2; i++)
        MPI_Request_free(&requests[i]);
}

static void errors(MPI_Comm comm)
{
    int data[6] = {0}, flag, one = 1;
    MPI_Request request, other;
    MPI_Status status;

    MPI_Psend_init(data, 2, 3, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &request);
    CHECK(class_of(MPI_Pready(0, request)) == MPI_ERR_REQUEST);
    MPI_Start(&request);
    CHECK(class_of(MPI_Pready(2, request)) == MPI_ERR_ARG && class_of(MPI_Pready(-1, request)) == MPI_ERR_ARG);
    CHECK(MPI_Pready(1, request) == MPI_SUCCESS && class_of(MPI_Pready(1, request)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Parrived(request, 0, &flag)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Cancel(&request)) == MPI_ERR_REQUEST);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag && MPI_Pready_list(0, &one, request) == MPI_SUCCESS && MPI_Pready(0, request) == MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);

    MPI_Precv_init(data, 2, 3, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    CHECK(class_of(MPI_Pready(0, request)) == MPI_ERR_REQUEST);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    CHECK(class_of(MPI_Parrived(request, 2, &flag)) == MPI_ERR_ARG);
    MPI_Request_free(&request);

    CHECK(class_of(MPI_Precv_init(data, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_INFO_NULL, &request)) ==
          MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(data, 1, 1, MPI_INT, 0, MPI_ANY_TAG, comm, MPI_INFO_NULL, &request)) ==
          MPI_ERR_TAG);
    CHECK(class_of(MPI_Psend_init(data, -1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &request)) == MPI_ERR_ARG);
    MPI_Recv_init(data, 1, MPI_INT, rank, 0, comm, &other);
    CHECK(class_of(MPI_Pready(0, other)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Parrived(other, 0, &flag)) == MPI_ERR_REQUEST);
    MPI_Request_free(&other);

    /* Sides that do not fit: both are told. */
    if (rank == 0)
        MPI_Psend_init(data, 2, 3, MPI_INT, 1, 3, comm, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(data, 1, 5, MPI_INT, 0, 3, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    if (rank == 0)
        CHECK(MPI_Pready_range(0, 1, request) == MPI_SUCCESS);
    CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
    MPI_Request_free(&request);

    /* Nothing at all. */
    if (rank == 0)
        MPI_Psend_init(data, 0, 3, MPI_INT, 1, 3, comm, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(data, 4, 0, MPI_INT, 0, 3, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    int provided, size;
    MPI_Comm pair, alone, both;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size >= 2);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, 0, &pair);
    if (rank < 2) {
        MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
        early(pair);
        divided(pair, 1, 1, 12, 0);
        divided(pair, 3, 4, 12, 0);
        divided(pair, 4, 3, 12, 1);
        divided(pair, 16, 5, 80000, 1);
        divided(pair, 5, 16, 80000, 0);
        divided(pair, 1000, 1, 1000, 0);
        by_threads(pair);
        in_order(pair);
        errors(pair);
        /* Over an intercommunicator the other side's ranks count: 0 for both. */
        MPI_Comm_split(pair, rank, 0, &alone);
        MPI_Intercomm_create(alone, 0, pair, 1 - rank, 1, &both);
        {
            int value = rank == 0 ? 77 : 0;
            MPI_Request request;
            if (rank == 0)
                MPI_Psend_init(&value, 1, 1, MPI_INT, 0, 2, both, MPI_INFO_NULL, &request);
            else
                MPI_Precv_init(&value, 1, 1, MPI_INT, 0, 2, both, MPI_INFO_NULL, &request);
            MPI_Start(&request);
            if (rank == 0)
                MPI_Pready(0, request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            CHECK(value == 77);
            MPI_Request_free(&request);
        }
        MPI_Comm_free(&both);
        MPI_Comm_free(&alone);
        MPI_Comm_free(&pair);
    }
    printf("rank %d: partitioned ok\n", rank);
    MPI_Finalize();
    return 0;
}
