/* Time that a program spends inside MPI, as a library that is loaded before the program.
 *
 * Each rank writes a file at MPI_Finalize, whose name is COUNTED_FILE, a point, and its rank: a line "inside
 * SECONDS CALLS", and a line "library VERSION". Start and end of MPI are not counted. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Calls within calls count once. */
static __thread int depth;
static double inside;
static long calls;

static double clock_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double enter(void) { return depth++ ? 0 : clock_now(); }

static void leave(double since) {
    if (--depth) return;
    inside += clock_now() - since;
    calls++;
}

#define COUNT(name, parameters, arguments)  \
    int MPI_##name parameters {             \
        double since = enter();             \
        int code = PMPI_##name arguments;   \
        leave(since);                       \
        return code;                        \
    }

/* Parameters that many functions have: a buffer, and what goes to or comes from where. */
#define OUT const void *b, int n, MPI_Datatype t
#define IN void *b, int n, MPI_Datatype t
#define BOTH const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u
#define WHERE int rank, int tag, MPI_Comm c

COUNT(Send, (OUT, WHERE), (b, n, t, rank, tag, c))
COUNT(Ssend, (OUT, WHERE), (b, n, t, rank, tag, c))
COUNT(Rsend, (OUT, WHERE), (b, n, t, rank, tag, c))
COUNT(Bsend, (OUT, WHERE), (b, n, t, rank, tag, c))
COUNT(Isend, (OUT, WHERE, MPI_Request *q), (b, n, t, rank, tag, c, q))
COUNT(Issend, (OUT, WHERE, MPI_Request *q), (b, n, t, rank, tag, c, q))
COUNT(Irsend, (OUT, WHERE, MPI_Request *q), (b, n, t, rank, tag, c, q))
COUNT(Recv, (IN, WHERE, MPI_Status *s), (b, n, t, rank, tag, c, s))
COUNT(Irecv, (IN, WHERE, MPI_Request *q), (b, n, t, rank, tag, c, q))
COUNT(Sendrecv, (OUT, int to, int with, void *r, int m, MPI_Datatype u, WHERE, MPI_Status *s),
      (b, n, t, to, with, r, m, u, rank, tag, c, s))
COUNT(Sendrecv_replace, (IN, int to, int with, WHERE, MPI_Status *s), (b, n, t, to, with, rank, tag, c, s))
COUNT(Probe, (WHERE, MPI_Status *s), (rank, tag, c, s))
COUNT(Iprobe, (WHERE, int *flag, MPI_Status *s), (rank, tag, c, flag, s))
COUNT(Mprobe, (WHERE, MPI_Message *m, MPI_Status *s), (rank, tag, c, m, s))
COUNT(Mrecv, (IN, MPI_Message *m, MPI_Status *s), (b, n, t, m, s))

COUNT(Wait, (MPI_Request *q, MPI_Status *s), (q, s))
COUNT(Test, (MPI_Request *q, int *flag, MPI_Status *s), (q, flag, s))
COUNT(Waitall, (int n, MPI_Request q[], MPI_Status *s), (n, q, s))
COUNT(Testall, (int n, MPI_Request q[], int *flag, MPI_Status *s), (n, q, flag, s))
COUNT(Waitany, (int n, MPI_Request q[], int *at, MPI_Status *s), (n, q, at, s))
COUNT(Testany, (int n, MPI_Request q[], int *at, int *flag, MPI_Status *s), (n, q, at, flag, s))
COUNT(Waitsome, (int n, MPI_Request q[], int *m, int at[], MPI_Status *s), (n, q, m, at, s))
COUNT(Testsome, (int n, MPI_Request q[], int *m, int at[], MPI_Status *s), (n, q, m, at, s))

COUNT(Barrier, (MPI_Comm c), (c))
COUNT(Bcast, (IN, int root, MPI_Comm c), (b, n, t, root, c))
COUNT(Reduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c), (s, r, n, t, o, root, c))
COUNT(Allreduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c))
COUNT(Scan, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c))
COUNT(Exscan, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c))
COUNT(Reduce_scatter, (const void *s, void *r, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c),
      (s, r, n, t, o, c))
COUNT(Gather, (BOTH, int root, MPI_Comm c), (s, n, t, r, m, u, root, c))
COUNT(Scatter, (BOTH, int root, MPI_Comm c), (s, n, t, r, m, u, root, c))
COUNT(Allgather, (BOTH, MPI_Comm c), (s, n, t, r, m, u, c))
COUNT(Alltoall, (BOTH, MPI_Comm c), (s, n, t, r, m, u, c))
COUNT(Gatherv, (OUT, void *r, const int m[], const int d[], MPI_Datatype u, int root, MPI_Comm c),
      (b, n, t, r, m, d, u, root, c))
COUNT(Scatterv, (const void *s, const int n[], const int d[], MPI_Datatype t, void *r, int m, MPI_Datatype u, int root,
                 MPI_Comm c), (s, n, d, t, r, m, u, root, c))
COUNT(Allgatherv, (OUT, void *r, const int m[], const int d[], MPI_Datatype u, MPI_Comm c),
      (b, n, t, r, m, d, u, c))
COUNT(Alltoallv, (const void *s, const int n[], const int e[], MPI_Datatype t, void *r, const int m[], const int d[],
                  MPI_Datatype u, MPI_Comm c), (s, n, e, t, r, m, d, u, c))

COUNT(Comm_dup, (MPI_Comm c, MPI_Comm *made), (c, made))
COUNT(Comm_split, (MPI_Comm c, int colour, int key, MPI_Comm *made), (c, colour, key, made))
COUNT(Comm_create, (MPI_Comm c, MPI_Group g, MPI_Comm *made), (c, g, made))
COUNT(Comm_free, (MPI_Comm *c), (c))
COUNT(Cart_create, (MPI_Comm c, int n, const int sizes[], const int periods[], int reorder, MPI_Comm *made),
      (c, n, sizes, periods, reorder, made))

#define TARGET int rank, MPI_Aint at, int m, MPI_Datatype u
COUNT(Win_create, (void *b, MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, MPI_Win *w), (b, n, unit, i, c, w))
COUNT(Win_allocate, (MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, void *b, MPI_Win *w), (n, unit, i, c, b, w))
COUNT(Win_free, (MPI_Win *w), (w))
COUNT(Win_fence, (int assertions, MPI_Win w), (assertions, w))
COUNT(Win_lock, (int kind, int rank, int assertions, MPI_Win w), (kind, rank, assertions, w))
COUNT(Win_unlock, (int rank, MPI_Win w), (rank, w))
COUNT(Win_lock_all, (int assertions, MPI_Win w), (assertions, w))
COUNT(Win_unlock_all, (MPI_Win w), (w))
COUNT(Win_flush, (int rank, MPI_Win w), (rank, w))
COUNT(Win_flush_all, (MPI_Win w), (w))
COUNT(Win_flush_local, (int rank, MPI_Win w), (rank, w))
COUNT(Win_flush_local_all, (MPI_Win w), (w))
COUNT(Win_sync, (MPI_Win w), (w))
COUNT(Put, (OUT, TARGET, MPI_Win w), (b, n, t, rank, at, m, u, w))
COUNT(Get, (IN, TARGET, MPI_Win w), (b, n, t, rank, at, m, u, w))
COUNT(Accumulate, (OUT, TARGET, MPI_Op o, MPI_Win w), (b, n, t, rank, at, m, u, o, w))
COUNT(Get_accumulate, (OUT, void *r, int k, MPI_Datatype v, TARGET, MPI_Op o, MPI_Win w),
      (b, n, t, r, k, v, rank, at, m, u, o, w))
COUNT(Fetch_and_op, (const void *b, void *r, MPI_Datatype t, int rank, MPI_Aint at, MPI_Op o, MPI_Win w),
      (b, r, t, rank, at, o, w))

int MPI_Finalize(void) {
    const char *path = getenv("COUNTED_FILE");
    int rank = 0, length = 0;
    char version[MPI_MAX_LIBRARY_VERSION_STRING], name[4096];
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    snprintf(name, sizeof name, "%s.%d", path ? path : "counted", rank);
    FILE *file = fopen(name, "w");
    /* Who reads the files says which are missing. */
    if (file) {
        fprintf(file, "inside %.6f %ld\nlibrary %s\n", inside, calls, version);
        fclose(file);
    }
    return PMPI_Finalize();
}
