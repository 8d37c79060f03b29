/* What a job costs that does little.
 *
 *     job start     starts and ends, and prints nothing: what the launcher takes is the figure
 *     job memory    prints "memory RANKS KIB": the mean of the ranks' memory after a barrier, pages that several
 *                   have in common by their shares
 *     job idle      all ranks but the first wait for a message for some seconds; prints "idle RANKS SECONDS": the
 *                   time of processors that all of them take meanwhile */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT 3

static int rank, ranks;

/* KiB of this process, 0 if Linux does not say it. */
static double memory(void) {
    char line[256];
    double all = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) sscanf(line, "Pss: %lf", &all);
    fclose(file);
    return all;
}

static double processor(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the sum over all ranks, at the first. */
static double sum(double own) {
    double all = 0;
    MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

static void print_memory(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    double own = memory();
    /* No rank ends before all have looked: pages are in common only among processes that live. */
    MPI_Barrier(MPI_COMM_WORLD);
    double all = sum(own);
    if (rank == 0) printf("memory %d %.1f\n", ranks, all / ranks);
}

static void print_idle(void) {
    int word = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double before = processor();
    if (rank == 0) {
        struct timespec left = {WAIT, 0};
        nanosleep(&left, NULL);
        for (int other = 1; other < ranks; other++) MPI_Send(&word, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    double all = sum(processor() - before);
    if (rank == 0) printf("idle %d %.6f\n", ranks, all);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *what = count == 2 ? words[1] : "";
    if (!strcmp(what, "memory")) print_memory();
    else if (!strcmp(what, "idle")) print_idle();
    else if (strcmp(what, "start")) {
        fprintf(stderr, "job: wants start, memory or idle\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
