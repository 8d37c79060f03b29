/* Frees some of what it makes. Prints "rank N: leaks ok". */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Comm comm, freed;
    MPI_Datatype pair, twin;
    MPI_Info info;
    MPI_Group group;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &freed);
    MPI_Comm_free(&freed);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_free(&group);
    if (argc > 1) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_name(comm, "the workers");
        MPI_Type_contiguous(2, MPI_INT, &pair);
        MPI_Type_dup(pair, &twin);
        MPI_Type_free(&twin);
        MPI_Info_create(&info);
    }
    printf("rank %d: leaks ok\n", rank);
    MPI_Finalize();
    return 0;
}
