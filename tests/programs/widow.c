/* The last rank dies. The others send to it until they are told, with SIGPIPE as it is by default.
 * Each prints what it was told, and "rank N: widow ok". */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, class, length, code = MPI_SUCCESS;
    char text[MPI_MAX_ERROR_STRING], *bytes = calloc(1 << 16, 1);

    signal(SIGPIPE, SIG_DFL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        /* One message from each, so that all are connected. */
        for (int i = 0; i < rank; i++)
            MPI_Recv(bytes, 1 << 16, MPI_CHAR, i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        _exit(0);
    }
    while (code == MPI_SUCCESS)
        code = MPI_Send(bytes, 1 << 16, MPI_CHAR, size - 1, 0, MPI_COMM_WORLD);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    printf("rank %d: class %d: %s\nrank %d: widow ok\n", rank, class, text, rank);
    fflush(stdout);
    /* The end of MPI would wait for the dead. */
    _exit(0);
}
