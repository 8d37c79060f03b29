/* Checks the number of this program in its job, which the argument names. Prints "rank N: appnum
 * ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, found, *number;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
    if (argc < 2 || !found || *number != atoi(argv[1]))
        MPI_Abort(MPI_COMM_WORLD, 4);
    printf("rank %d: appnum ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
