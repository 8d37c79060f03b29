/* Persistent collective operations, more than have shared memory of their own, whose ranks start them in different
 * orders. The first start is the communicator's first operation, and is one that differs between ranks, which
 * memory that they share tells. Prints "rank N: persistent ok". */
#include "check.h"

#include <string.h>

enum { MADE = 10, COUNT = 40, ROUNDS = 200, MOST = 8 };

static int rank, size;
static int mine[MADE][COUNT], all[MADE][COUNT * MOST];

/* Starts an operation whose count differs at rank 0. Each start is an error that says so. */
static void differing(MPI_Comm comm)
{
    MPI_Request request;
    char text[MPI_MAX_ERROR_STRING];
    int length;

    CHECK(MPI_Allreduce_init(mine[0], all[0], rank == 0 ? 3 : 4, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request) ==
          MPI_SUCCESS);
    for (int i = 0; i < 2; i++) {
        int code = MPI_Start(&request);

        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(code != MPI_SUCCESS);
        MPI_Error_string(code, text, &length);
        CHECK(strstr(text, "has called MPI_Allreduce"));
    }
    MPI_Request_free(&request);
}

static void make(int i, MPI_Comm comm, MPI_Request *request)
{
    int root = i % size;

    switch (i % 5) {
    case 0:
        MPI_Allreduce_init(mine[i], all[i], COUNT, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, request);
        break;
    case 1:
        MPI_Gather_init(mine[i], COUNT, MPI_INT, all[i], COUNT, MPI_INT, root, comm, MPI_INFO_NULL, request);
        break;
    case 2:
        MPI_Bcast_init(mine[i], COUNT, MPI_INT, root, comm, MPI_INFO_NULL, request);
        break;
    case 3:
        MPI_Allgather_init(mine[i], COUNT, MPI_INT, all[i], COUNT, MPI_INT, comm, MPI_INFO_NULL, request);
        break;
    default:
        MPI_Barrier_init(comm, MPI_INFO_NULL, request);
    }
}

static int of(int i, int round, int r)
{
    return 1000 * round + 10 * i + r;
}

static void compare(int i, int round)
{
    int root = i % size, sum = 0;

    for (int r = 0; r < size; r++)
        sum += of(i, round, r);
    for (int k = 0; k < COUNT * size; k++) {
        switch (i % 5) {
        case 0:
            CHECK(k >= COUNT || all[i][k] == sum);
            break;
        case 1:
            CHECK(rank != root || all[i][k] == of(i, round, k / COUNT));
            break;
        case 2:
            CHECK(k >= COUNT || mine[i][k] == of(i, round, root));
            break;
        case 3:
            CHECK(all[i][k] == of(i, round, k / COUNT));
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Request requests[MADE];
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size <= MOST);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    differing(comm);
    for (int i = 0; i < MADE; i++)
        make(i, comm, &requests[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MADE; i++)
            for (int k = 0; k < COUNT; k++)
                mine[i][k] = of(i, round, rank);
        for (int i = 0; i < MADE; i++) {
            int at = (i * 3 + round * rank + rank) % MADE, done;

            CHECK(MPI_Start(&requests[at]) == MPI_SUCCESS);
            if ((i + rank) % 4 == 0)
                MPI_Test(&requests[at], &done, MPI_STATUS_IGNORE);
        }
        CHECK(MPI_Waitall(MADE, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        for (int i = 0; i < MADE; i++)
            compare(i, round);
    }
    for (int i = 0; i < MADE; i++)
        MPI_Request_free(&requests[i]);
    MPI_Comm_free(&comm);
    printf("rank %d: persistent ok\n", rank);
    MPI_Finalize();
    return 0;
}
