/* Loads the library, named by the argument, at run time and for itself alone, uses and closes it.
 * Prints "rank N: loads ok". */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

/* The program is not linked to the library: each function is looked up. */
#define FIND(name) __typeof__(&name) call_##name = (__typeof__(&name))dlsym(library, #name)

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int rank, size, sum = 0;

    if (!library) {
        fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "no library is named");
        return 10;
    }
    FIND(MPI_Init);
    FIND(MPI_Comm_rank);
    FIND(MPI_Comm_size);
    FIND(MPI_Allreduce);
    FIND(MPI_Finalize);
    if (!call_MPI_Init || !call_MPI_Comm_rank || !call_MPI_Comm_size || !call_MPI_Allreduce || !call_MPI_Finalize)
        return 11;
    /* Nothing of it is visible to the rest of the process. */
    if (dlsym(RTLD_DEFAULT, "MPI_Init") || dlsym(RTLD_DEFAULT, "PMPI_Init"))
        return 12;
    call_MPI_Init(&argc, &argv);
    call_MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    call_MPI_Comm_size(MPI_COMM_WORLD, &size);
    call_MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2)
        return 13;
    call_MPI_Finalize();
    /* Its threads and handlers of exit may outlive this. */
    if (dlclose(library) != 0)
        return 14;
    printf("rank %d: loads ok\n", rank);
    fflush(stdout);
    return 0;
}
