/* Makes an error that ends the job: a receive from a rank that does not exist, on a communicator
 * with a name. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, got;
    MPI_Comm named;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &named);
    MPI_Comm_set_name(named, "the named one");
    if (rank == 1)
        MPI_Recv(&got, 1, MPI_INT, size + 3, 0, named, MPI_STATUS_IGNORE);
    MPI_Barrier(named);
    printf("rank %d: went on\n", rank);
    MPI_Finalize();
    return 0;
}
