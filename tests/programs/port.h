/* The name of a port, which one job tells another by a file. */
#ifndef PORT_H
#define PORT_H

#include "check.h"

#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static inline void write_name(const char *file, const char *name)
{
    char temporary[1000];
    snprintf(temporary, sizeof temporary, "%s.new", file);
    FILE *out = fopen(temporary, "w");
    CHECK(out && fputs(name, out) >= 0 && fclose(out) == 0);
    CHECK(rename(temporary, file) == 0);
}

static inline void read_name(const char *file, char *name)
{
    FILE *in;
    while (!(in = fopen(file, "r")))
        usleep(1000);
    CHECK(fgets(name, MPI_MAX_PORT_NAME, in));
    fclose(in);
}

#endif
