/* Calls a function before MPI is initialized. */
#include <mpi.h>

int main(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return 0;
}
