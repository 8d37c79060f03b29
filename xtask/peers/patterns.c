/* Patterns of Intel's MPI benchmarks, for MPIs that cannot run those: a line for each size, "PingPong 8 0.123".
 *
 *     patterns ITERATIONS BYTES FIRST LAST PATTERN...
 *
 * runs each pattern between ranks 0 and 1 with messages of 2^FIRST to 2^LAST bytes, so often as ITERATIONS and a
 * sum of BYTES allow, as their option -iter does. What is counted is what they count: microseconds of half a round
 * trip (PingPong) or of an iteration of the slower rank; messages a second of both ranks (Uniband, Biband).
 *
 *     patterns parts FIRST LAST PATTERN...
 *
 * does the same in short parts, PARTS of each size in turn, and prints one line for each: "PingPong 8 0.123 57 58", with
 * the nanoseconds that a flag took from one rank to the other before and after it.
 *
 *     patterns crowd      runs a barrier and an allreduce of 8 bytes of all ranks, microseconds of one
 *     patterns start      runs one barrier, and prints nothing: what the launcher takes is the figure
 *     patterns library    prints what the library says of itself, and sends a few messages between two ranks */
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WINDOW 64
#define WARM 10
/* Seconds for which a crowd runs. */
#define PHASE 0.3
/* Parts of each size, and the seconds of one. */
#define PARTS 8
#define PART 0.003
/* Round trips of a flag, and how often they are timed: the least counts. */
#define TRIPS 100
#define TIMES 5

static int rank, other;
static char *out, *in;
static MPI_Request reqs[2 * WINDOW];

static void ping_pong(int bytes, long iters) {
    for (long i = 0; i < iters; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
}

static void ping_ping(int bytes, long iters) {
    for (long i = 0; i < iters; i++) {
        MPI_Isend(out, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &reqs[0]);
        MPI_Recv(in, bytes, MPI_BYTE, other, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&reqs[0], MPI_STATUS_IGNORE);
    }
}

static void sendrecv(int bytes, long iters) {
    for (long i = 0; i < iters; i++)
        MPI_Sendrecv(out, bytes, MPI_BYTE, other, 1, in, bytes, MPI_BYTE, other, MPI_ANY_TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

/* Those benchmarks never write what they send, so that the processor that receives it may have it from the message
 * before. Programs do write it. */
static void write_out(int bytes) {
    static int value;
    memset(out, ++value, bytes);
}

/* Where nothing reads it, the compiler would leave the reading out. */
volatile long sum_of_what_came;

static void read_in(int bytes) {
    long sum = 0, word;
    for (int i = 0; i + (int)sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, in + i, sizeof word);
        sum += word;
    }
    sum_of_what_came = sum + in[bytes - 1];
}

static void ping_pong_written(int bytes, long iters) {
    for (long i = 0; i < iters; i++) {
        if (rank == 0) {
            write_out(bytes);
            MPI_Send(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        }
        MPI_Recv(in, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        read_in(bytes);
        if (rank != 0) {
            write_out(bytes);
            MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
}

static void sendrecv_written(int bytes, long iters) {
    for (long i = 0; i < iters; i++) {
        write_out(bytes);
        sendrecv(bytes, 1);
        read_in(bytes);
    }
}

/* The neighbours at the left and at the right are the same rank. */
static void exchange(int bytes, long iters) {
    for (long i = 0; i < iters; i++) {
        MPI_Isend(out, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &reqs[0]);
        MPI_Isend(out, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &reqs[1]);
        MPI_Recv(in, bytes, MPI_BYTE, other, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in, bytes, MPI_BYTE, other, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Waitall(2, reqs, MPI_STATUSES_IGNORE);
    }
}

static void uniband(int bytes, long iters) {
    char ack[4] = {0};
    for (long i = 0; i < iters; i++) {
        for (int k = 0; k < WINDOW; k++) {
            if (rank == 0)
                MPI_Isend(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &reqs[k]);
            else
                MPI_Irecv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &reqs[k]);
        }
        MPI_Waitall(WINDOW, reqs, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(ack, 4, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(ack, 4, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
}

static void biband(int bytes, long iters) {
    char mine = 0, ack;
    for (long i = 0; i < iters; i++) {
        for (int k = 0; k < WINDOW; k++)
            MPI_Irecv(in, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &reqs[WINDOW + k]);
        for (int k = 0; k < WINDOW; k++)
            MPI_Isend(out, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &reqs[k]);
        MPI_Waitall(2 * WINDOW, reqs, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(&mine, 1, MPI_BYTE, other, 2, &ack, 1, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void barrier(int bytes, long iters) {
    (void)bytes;
    for (long i = 0; i < iters; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int bytes, long iters) {
    (void)bytes;
    double mine = rank, sum;
    for (long i = 0; i < iters; i++)
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* A pattern, and how many halves of a round trip an iteration has, or how many messages. */
struct pattern {
    const char *name;
    void (*run)(int bytes, long iters);
    int halves, messages;
};

static const struct pattern patterns[] = {
    {"PingPong", ping_pong, 2, 0},
    {"PingPong-written", ping_pong_written, 2, 0},
    {"PingPing", ping_ping, 1, 0},
    {"Sendrecv", sendrecv, 1, 0},
    {"Sendrecv-written", sendrecv_written, 1, 0},
    {"Exchange", exchange, 1, 0},
    {"Uniband", uniband, 0, WINDOW},
    {"Biband", biband, 0, 2 * WINDOW},
};

static const struct pattern *named(const char *name) {
    for (size_t k = 0; k < sizeof patterns / sizeof patterns[0]; k++)
        if (strcmp(name, patterns[k].name) == 0)
            return &patterns[k];
    fprintf(stderr, "patterns: there is no %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return NULL;
}

/* Seconds that the slowest rank takes. */
static double timed(void (*run)(int, long), int bytes, long iters) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    run(bytes, iters);
    double took = MPI_Wtime() - start, most;
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void print(const char *name, int bytes, double value) {
    if (rank == 0) {
        printf("%s %d %.9g\n", name, bytes, value);
        fflush(stdout);
    }
}

static double value(const struct pattern *p, double took, long iters) {
    return p->messages ? p->messages * iters / took : took * 1e6 / iters / p->halves;
}

static void sizes(const struct pattern *p, long iterations, double volume, int first, int last) {
    for (int log = first; log <= last; log++) {
        int bytes = 1 << log;
        long iters = volume / bytes < iterations ? (long)(volume / bytes) : iterations;
        iters = iters < 1 ? 1 : iters;
        timed(p->run, bytes, WARM < iters ? WARM : iters);
        double took = timed(p->run, bytes, iters);
        print(p->name, bytes, value(p, took, iters));
    }
}

/* Flags in memory that both ranks map, each in lines of its own. */
struct flags {
    _Alignas(256) atomic_long there;
    _Alignas(256) atomic_long back;
};

static struct flags *flags;

static void map_flags(void) {
    char name[64] = "";
    if (rank == 0)
        snprintf(name, sizeof name, "/dev/shm/patterns-flags-%d", (int)getpid());
    int file = rank == 0 ? open(name, O_RDWR | O_CREAT | O_EXCL, 0600) : -1;
    if (rank == 0 && (file < 0 || ftruncate(file, sizeof *flags) != 0)) {
        perror(name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank != 0)
        file = open(name, O_RDWR);
    flags = mmap(NULL, sizeof *flags, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (flags == MAP_FAILED) {
        perror(name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(name);
}

/* Nanoseconds of a flag from one rank to the other. */
static double distance(void) {
    static long turn = 0;
    double best = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int time = 0; time < TIMES; time++) {
        double start = MPI_Wtime();
        for (int i = 0; i < TRIPS; i++) {
            turn++;
            if (rank == 0)
                atomic_store_explicit(&flags->there, turn, memory_order_release);
            while (atomic_load_explicit(rank == 0 ? &flags->back : &flags->there, memory_order_acquire) != turn)
                ;
            if (rank != 0)
                atomic_store_explicit(&flags->back, turn, memory_order_release);
        }
        double took = (MPI_Wtime() - start) * 1e9 / TRIPS / 2;
        best = time == 0 || took < best ? took : best;
    }
    MPI_Bcast(&best, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return best;
}

/* Iterations that fill a part. */
static long enough(const struct pattern *p, int bytes) {
    long iters = 1;
    double took;
    timed(p->run, bytes, WARM);
    while ((took = timed(p->run, bytes, iters)) < PART / 4)
        iters *= 4;
    return (long)(iters * PART / took) + 1;
}

static void parts(const struct pattern *p, int first, int last) {
    for (int log = first; log <= last; log++) {
        int bytes = 1 << log;
        long iters = enough(p, bytes);
        for (int part = 0; part < PARTS; part++) {
            double before = distance(), took = timed(p->run, bytes, iters), after = distance();
            if (rank == 0)
                printf("%s %d %.9g %.1f %.1f\n", p->name, bytes, value(p, took, iters), before, after);
        }
    }
}

/* All ranks take the same number of iterations, since all know the slowest one's time. */
static void crowd(const char *name, void (*run)(int, long)) {
    long iters = 1;
    double took;
    while ((took = timed(run, 8, iters)) < PHASE / 4)
        iters *= 4;
    iters = (long)(iters * PHASE / took) + 1;
    print(name, 8, timed(run, 8, iters) / iters * 1e6);
}

/* With messages, so that the library has to choose a transport. */
static void library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    if (rank == 0)
        printf("library %s\n", text);
    ping_pong(1, 10);
}

static void buffers(size_t most) {
    if (posix_memalign((void **)&out, 4096, most) || posix_memalign((void **)&in, 4096, most))
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(out, 1, most);
    memset(in, 2, most);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    const char *job = argc > 1 ? argv[1] : "";
    if (strcmp(job, "crowd") == 0) {
        crowd("Barrier", barrier);
        crowd("Allreduce", allreduce);
    } else if (strcmp(job, "start") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(job, "library") == 0) {
        buffers(1);
        library();
    } else if (strcmp(job, "parts") == 0 && argc > 4) {
        buffers((size_t)1 << atoi(argv[3]));
        map_flags();
        for (int i = 4; i < argc; i++)
            parts(named(argv[i]), atoi(argv[2]), atoi(argv[3]));
    } else if (argc > 5) {
        buffers((size_t)1 << atoi(argv[4]));
        for (int i = 5; i < argc; i++)
            sizes(named(argv[i]), atol(argv[1]), atof(argv[2]), atoi(argv[3]), atoi(argv[4]));
    } else {
        fprintf(stderr, "patterns: wants ITERATIONS BYTES FIRST LAST PATTERN..., parts FIRST LAST PATTERN..., crowd, start or library\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
