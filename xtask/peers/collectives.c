/* Collective operations as IMB-MPI1 and IMB-NBC (pure) measure them, for libraries that cannot run those.
 * Arguments: most iterations of a size, most bytes of one size's iterations, the sizes as a list with commas,
 * operations. Prints lines such as "Allreduce 8 0.5": microseconds of one call, those of the slowest rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, WARM = 8 };

static int rank, ranks, counts[MOST], displs[MOST], parts[MOST];
static char *in, *out;
static MPI_Request request;

/* Sets the arrays for blocks of so many bytes, and the parts of a result of that many bytes. */
static void arrays(int bytes) {
    int floats = bytes / (int)sizeof(float);
    for (int i = 0; i < ranks; i++) {
        counts[i] = bytes;
        displs[i] = i * bytes;
        parts[i] = floats / ranks + (i < floats % ranks);
    }
}

#define BYTES bytes, MPI_BYTE
#define BLOCKS counts, displs, MPI_BYTE
#define FLOATS (bytes / (int)sizeof(float)), MPI_FLOAT, MPI_SUM
#define WORLD MPI_COMM_WORLD
/* A function for a call, and one for the call with a request, and the wait. */
#define OPERATION(call, nonblocking, ...)                                                                    \
    static void run_##call(int bytes) {                                                                      \
        (void)bytes;                                                                                         \
        MPI_##call(__VA_ARGS__);                                                                             \
    }                                                                                                        \
    static void run_##nonblocking(int bytes) {                                                               \
        (void)bytes;                                                                                         \
        MPI_##nonblocking(__VA_ARGS__, &request);                                                            \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                                                               \
    }

OPERATION(Bcast, Ibcast, out, BYTES, 0, WORLD)
OPERATION(Reduce, Ireduce, out, in, FLOATS, 0, WORLD)
OPERATION(Allreduce, Iallreduce, out, in, FLOATS, WORLD)
OPERATION(Reduce_scatter, Ireduce_scatter, out, in, parts, MPI_FLOAT, MPI_SUM, WORLD)
OPERATION(Gather, Igather, out, BYTES, in, BYTES, 0, WORLD)
OPERATION(Gatherv, Igatherv, out, BYTES, in, BLOCKS, 0, WORLD)
OPERATION(Scatter, Iscatter, out, BYTES, in, BYTES, 0, WORLD)
OPERATION(Scatterv, Iscatterv, out, BLOCKS, in, BYTES, 0, WORLD)
OPERATION(Allgather, Iallgather, out, BYTES, in, BYTES, WORLD)
OPERATION(Allgatherv, Iallgatherv, out, BYTES, in, BLOCKS, WORLD)
OPERATION(Alltoall, Ialltoall, out, BYTES, in, BYTES, WORLD)
OPERATION(Alltoallv, Ialltoallv, out, BLOCKS, in, BLOCKS, WORLD)
OPERATION(Barrier, Ibarrier, WORLD)

static const struct {
    const char *name;
    void (*run)(int bytes);
} operations[] = {
#define BOTH(call, nonblocking) {#call, run_##call}, {#nonblocking, run_##nonblocking}
    BOTH(Bcast, Ibcast), BOTH(Reduce, Ireduce), BOTH(Allreduce, Iallreduce),
    BOTH(Reduce_scatter, Ireduce_scatter), BOTH(Gather, Igather), BOTH(Gatherv, Igatherv),
    BOTH(Scatter, Iscatter), BOTH(Scatterv, Iscatterv), BOTH(Allgather, Iallgather),
    BOTH(Allgatherv, Iallgatherv), BOTH(Alltoall, Ialltoall), BOTH(Alltoallv, Ialltoallv),
    BOTH(Barrier, Ibarrier),
};

/* Seconds of all calls at this rank; all begin each of them together. */
static double timed(void (*run)(int), int bytes, long iterations) {
    double took = 0;
    for (long i = 0; i < iterations; i++) {
        MPI_Barrier(WORLD);
        double start = MPI_Wtime();
        run(bytes);
        took += MPI_Wtime() - start;
    }
    return took;
}

static void measure(const char *name, void (*run)(int), int bytes, long most, double volume) {
    long iterations = bytes > 0 && volume / bytes < most ? (long)(volume / bytes) : most;
    iterations = iterations < 1 ? 1 : iterations;
    arrays(bytes);
    timed(run, bytes, WARM < iterations ? WARM : iterations);
    double took = timed(run, bytes, iterations), slowest;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, WORLD);
    if (rank == 0) {
        printf("%s %d %.9g\n", name, bytes, slowest * 1e6 / iterations);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    int sizes[MOST], count = 0, largest = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    if (argc < 5 || ranks > MOST) {
        fprintf(stderr, "collectives: wants ITERATIONS BYTES SIZE,... OPERATION...\n");
        MPI_Abort(WORLD, 2);
    }
    for (char *word = strtok(argv[3], ","); word && count < MOST; word = strtok(NULL, ",")) {
        sizes[count++] = atoi(word);
        largest = sizes[count - 1] > largest ? sizes[count - 1] : largest;
    }
    size_t room = (size_t)ranks * (largest + 64);
    if (posix_memalign((void **)&in, 4096, room) || posix_memalign((void **)&out, 4096, room))
        MPI_Abort(WORLD, 1);
    /* Memory that nobody has written to is one page of zeros. */
    memset(in, 1, room);
    memset(out, 1, room);
    for (int i = 4; i < argc; i++)
        for (size_t k = 0; k < sizeof operations / sizeof operations[0]; k++) {
            if (strcmp(argv[i], operations[k].name) != 0)
                continue;
            if (strstr(argv[i], "arrier")) {
                measure(argv[i], operations[k].run, 0, atol(argv[1]), atof(argv[2]));
                continue;
            }
            for (int at = 0; at < count; at++)
                measure(argv[i], operations[k].run, sizes[at], atol(argv[1]), atof(argv[2]));
        }
    MPI_Finalize();
    return 0;
}
