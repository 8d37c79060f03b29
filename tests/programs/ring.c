/* Sends around the ranks, and asks what a program asks first. Prints "rank N: ring ok". */
#include "check.h"

#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, flag, version, subversion, length, got, count, provided = -1;
    char name[MPI_MAX_PROCESSOR_NAME], library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Request requests[2];
    MPI_Status status;

    MPI_Initialized(&flag);
    CHECK(!flag);
    MPI_Init(&argc, &argv);
    MPI_Initialized(&flag);
    MPI_Query_thread(&provided);
    CHECK(flag && provided >= MPI_THREAD_SINGLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_version(&version, &subversion);
    MPI_Get_library_version(library, &length);
    CHECK(version >= 4 && strlen(library) == (size_t)length);
    MPI_Get_processor_name(name, &length);
    CHECK(strlen(name) == (size_t)length && length > 0);

    /* Each rank tells the next its number, and hears that of the one before. */
    MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], &status);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(got == (rank + size - 1) % size && status.MPI_SOURCE == got && status.MPI_TAG == 7 && count == 1);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);

    /* A token goes around by calls that block. */
    if (rank == 0) {
        got = 1;
        MPI_Send(&got, 1, MPI_INT, (rank + 1) % size, 8, MPI_COMM_WORLD);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        CHECK(got == size);
    } else {
        MPI_Recv(&got, 1, MPI_INT, rank - 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        got++;
        MPI_Ssend(&got, 1, MPI_INT, (rank + 1) % size, 8, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d: ring ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    MPI_Finalized(&flag);
    CHECK(flag);
    return 0;
}
