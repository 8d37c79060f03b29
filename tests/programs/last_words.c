/* Loses a process within MPI_Finalize. Argument: the answer that MPI_COMM_SELF's error handler gives, "return" or
 * "call"; or "known", where the program goes on after failures, for which none is an error. The last process
 * dies. Prints "rank N: last_words ok". */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static int calls;

static void note(MPI_Comm *comm, int *code, ...)
{
    calls += *comm == MPI_COMM_SELF && *code != MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, size, code, class, flag;
    const char *kind = argc > 1 ? argv[1] : "";
    MPI_Errhandler handler = MPI_ERRORS_RETURN;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(kind, "call") == 0)
        MPI_Comm_create_errhandler(note, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(kind, "known") == 0)
        CHECK(MPIX_Comm_failure_ack(MPI_COMM_WORLD) == MPI_SUCCESS);
    if (rank == size - 1) {
        usleep(100000);
        kill(getpid(), SIGKILL);
    }
    code = MPI_Finalize();
    CHECK(MPI_Finalized(&flag) == MPI_SUCCESS && flag);
    if (strcmp(kind, "known") == 0) {
        CHECK(code == MPI_SUCCESS);
    } else {
        CHECK(MPI_Error_class(code, &class) == MPI_SUCCESS && class == MPIX_ERR_PROC_FAILED);
        CHECK(calls == (strcmp(kind, "call") == 0));
    }
    printf("rank %d: last_words ok\n", rank);
    return 0;
}
