/* What another MPI gives between ranks 0 and 1, or in a barrier of all ranks: a line for each test, "lat 8 0.123".
 *
 * The tests are those of netmod-perf: lat is half of a round trip in microseconds; rate counts messages a second, bw
 * megabytes a second, in windows that end with a short acknowledgement. All messages of a window use one buffer.
 * barrier is what one takes, in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define REPEATS 5

static int rank;
static char *out, *in;
static MPI_Request reqs[WINDOW];

static void ping_pong(int bytes, long iters) {
    for (long i = 0; i < iters; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
}

static void windows(int bytes, long iters) {
    char ack[4] = {0};
    for (long i = 0; i < iters; i++) {
        for (int k = 0; k < WINDOW; k++) {
            if (rank == 0)
                MPI_Isend(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &reqs[k]);
            else
                MPI_Irecv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &reqs[k]);
        }
        MPI_Waitall(WINDOW, reqs, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(ack, 4, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(ack, 4, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

static void barriers(int ranks, long iters) {
    (void)ranks;
    for (long i = 0; i < iters; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static double once(void (*run)(int, long), int bytes, long iters) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    run(bytes, iters);
    return MPI_Wtime() - start;
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void test(const char *name, void (*run)(int, long), int bytes, double phase) {
    long iters = 1;
    double took = once(run, bytes, 1);
    /* Rank 0 decides how often it takes to fill the phase. */
    for (;;) {
        took = once(run, bytes, iters);
        int enough = took >= phase / 4;
        MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (enough)
            break;
        iters *= 4;
    }
    iters = (long)(iters * phase / took) + 1;
    MPI_Bcast(&iters, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    double all[REPEATS];
    for (int i = 0; i < REPEATS; i++)
        all[i] = once(run, bytes, iters) / iters;
    qsort(all, REPEATS, sizeof all[0], order);
    double t = all[REPEATS / 2], value = t * 1e6 / 2;
    if (strcmp(name, "rate") == 0)
        value = WINDOW / t;
    if (strcmp(name, "barrier") == 0)
        value = t * 1e6;
    if (strcmp(name, "bw") == 0)
        value = (double)WINDOW * bytes / t / 1e6;
    if (rank == 0) {
        printf("%s %d %g\n", name, bytes, value);
        fflush(stdout);
    }
}

/* The argument, if there is one, is the longest message, or "barrier". */
int main(int argc, char **argv) {
    int lat[] = {8, 1 << 10, 8 << 10}, bw[] = {64 << 10, 1 << 20, 4 << 20, 64 << 20};
    int most = argc > 1 ? atoi(argv[1]) : 64 << 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && strcmp(argv[1], "barrier") == 0) {
        int ranks;
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        test("barrier", barriers, ranks, 0.05);
        MPI_Finalize();
        return 0;
    }
    if (posix_memalign((void **)&out, 4096, most) || posix_memalign((void **)&in, 4096, most))
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(out, 1, most);
    memset(in, 2, most);
    for (int i = 0; i < 3; i++)
        if (lat[i] <= most)
            test("lat", ping_pong, lat[i], 0.004);
    test("rate", windows, 8, 0.005);
    for (int i = 0; i < 4; i++)
        if (bw[i] <= most)
            test("bw", windows, bw[i], 0.03);
    MPI_Finalize();
    return 0;
}
