/* A communicator is revoked while all but the first process wait in it: each wait ends with MPIX_ERR_REVOKED, and so
 * does what is started afterwards. No process fails. Prints "rank N: revoked ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

enum Wait { RECV, RECV_ANY, SSEND, LONG_SEND, PROBE, BARRIER, BCAST, ALLREDUCE, IDUP, PERSISTENT, WAITS };

enum { LONG = 1 << 22 };

static int is_revoked(int code)
{
    int class = MPI_SUCCESS;

    CHECK(MPI_Error_class(code, &class) == MPI_SUCCESS);
    return class == MPIX_ERR_REVOKED;
}

/* Waits for something that the first process does not do; returns the error, which may come at the start if this
 * process is late. */
static int wait_in(MPI_Comm comm, enum Wait wait, char *data)
{
    int number = 1, sum, code;
    MPI_Request request;
    MPI_Comm copy;

    switch (wait) {
    case RECV:
        return MPI_Recv(&number, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    case RECV_ANY:
        return MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE);
    case SSEND:
        return MPI_Ssend(&number, 1, MPI_INT, 0, 1, comm);
    case LONG_SEND:
        return MPI_Send(data, LONG, MPI_CHAR, 0, 1, comm);
    case PROBE:
        return MPI_Probe(0, 1, comm, MPI_STATUS_IGNORE);
    case BARRIER:
        return MPI_Barrier(comm);
    case BCAST:
        return MPI_Bcast(data, LONG, MPI_CHAR, 0, comm);
    case ALLREDUCE:
        return MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm);
    case IDUP:
        code = MPI_Comm_idup(comm, &copy, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    default:
        code = MPI_Recv_init(&number, 1, MPI_INT, 0, 1, comm, &request);
        if (code != MPI_SUCCESS)
            return code;
        code = MPI_Start(&request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(is_revoked(MPI_Start(&request)));
        CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
        return code;
    }
}

int main(int argc, char **argv)
{
    int rank, size, flag, first = 0;
    char *data = calloc(1, LONG);
    MPI_Comm comm, shrunk;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* The second time the agreements between the processes of the communicator are over. */
    for (int step = 0; step < 2 * WAITS; step++) {
        enum Wait wait = (enum Wait)(step % WAITS);

        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
        if (step >= WAITS) {
            CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
            /* The first process can leave that barrier, and revoke, while others are in it still. */
            CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
        }
        if (rank == first) {
            usleep(step % 3 == 0 ? 50000 : 500);
            CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
        } else {
            CHECK(is_revoked(wait_in(comm, wait, data)));
        }
        CHECK(is_revoked(MPI_Barrier(comm)));
        CHECK(is_revoked(MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 2, comm)));
        CHECK(is_revoked(MPI_Irecv(&flag, 1, MPI_INT, MPI_ANY_SOURCE, 2, comm, &request)));
        flag = ~(1 << rank % 8);
        CHECK(MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS);
        for (int i = 0; i < 8; i++)
            CHECK((flag >> i & 1) == (i >= size));
        CHECK(MPIX_Comm_shrink(comm, &shrunk) == MPI_SUCCESS);
        CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
        MPI_Comm_size(shrunk, &flag);
        CHECK(flag == size);
        CHECK(MPI_Barrier(shrunk) == MPI_SUCCESS);
        CHECK(MPI_Comm_free(&shrunk) == MPI_SUCCESS);
    }
    free(data);
    printf("rank %d: revoked ok\n", rank);
    MPI_Finalize();
    return 0;
}
