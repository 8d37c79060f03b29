/* Checks the number of this program in its job, and the size of the universe, if the arguments name
 * them. Prints "rank N: appnum ok". */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, found, *number;

    CHECK(argc >= 2);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
    CHECK(found && *number == atoi(argv[1]));
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &number, &found);
    CHECK(argc < 3 || (found && *number == atoi(argv[2])));
    printf("rank %d: appnum ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
