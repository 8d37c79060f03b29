/* Checks of the programs here: CHECK(what) ends the job if it does not hold, and says where. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static inline void check_failed(const char *file, int line, const char *what)
{
    int begun, ended;

    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (begun && !ended)
        MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
}

#define CHECK(what) ((what) ? (void)0 : check_failed(__FILE__, __LINE__, #what))

#endif
