/* Communicators that come and go, of all processes and of some, with collective operations of each form. Without an
 * argument their memory must be that of one freed before where that can be; with "scarce" there is no room for it.
 * Prints "rank N: shortlived ok". */
#include "check.h"

#include <string.h>

#define LONG 40000
#define LIVE 6
#define FILES 64

static int rank, size;
static unsigned state = 12345;
static unsigned long files[FILES];
static int seen;

/* The same numbers in all processes. */
static unsigned next(unsigned below)
{
    state = state * 1103515245u + 12345u;
    return (state >> 16) % below;
}

/* Notes the files of memory that processes share at this moment. Returns how many were seen at all. */
static int shared_files(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long inode;

    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        int known = 0;
        if (!strstr(line, "memfd:netmod-shared") || sscanf(line, "%*s %*s %*s %*s %lu", &inode) != 1)
            continue;
        for (int i = 0; i < seen; i++)
            known |= files[i] == inode;
        if (!known) {
            CHECK(seen < FILES);
            files[seen++] = inode;
        }
    }
    fclose(maps);
    return seen;
}

/* Operations of each form, short and long, whose results are checked. */
static void use(MPI_Comm comm)
{
    static int out[LONG], in[LONG];
    MPI_Request request;
    int me, n;

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int count = 1; count <= LONG; count *= LONG) {
        for (int i = 0; i < count; i++)
            out[i] = me + i;
        CHECK(MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
        for (int i = 0; i < count; i++)
            CHECK(in[i] == n * (n - 1) / 2 + n * i);
        for (int root = 0; root < n; root++) {
            for (int i = 0; i < count; i++)
                in[i] = me == root ? root + 3 * i : -1;
            CHECK(MPI_Ibcast(in, count, MPI_INT, root, comm, &request) == MPI_SUCCESS);
            CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            for (int i = 0; i < count; i++)
                CHECK(in[i] == root + 3 * i);
        }
    }
    CHECK(MPI_Allreduce_init(out, in, 7, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, &request) == MPI_SUCCESS);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 7; i++)
            out[i] = me * turn + i;
        CHECK(MPI_Start(&request) == MPI_SUCCESS && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        for (int i = 0; i < 7; i++)
            CHECK(in[i] == (n - 1) * turn + i);
    }
    MPI_Request_free(&request);
    MPI_Barrier(comm);
}

/* Makes a communicator of all processes, of these in another order, or of some. */
static MPI_Comm make(unsigned kind)
{
    MPI_Comm made;

    MPI_Comm_split(MPI_COMM_WORLD, kind == 2 ? rank % 2 : 0, kind == 1 ? -rank : rank, &made);
    return made;
}

/* One after the other: the second and all others get what the first had. */
static void one_by_one(int scarce)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        int before = 0;
        for (int turn = 0; turn < 10; turn++) {
            MPI_Comm comm = make(kind);
            use(comm);
            if (turn == 0)
                before = shared_files();
            else if (!scarce)
                CHECK(shared_files() == before);
            MPI_Comm_free(&comm);
        }
    }
}

/* Several at a time, which each process frees in an order of its own. */
static void in_any_order(void)
{
    MPI_Comm live[LIVE];
    int n = 0;

    for (int turn = 0; turn < 30; turn++) {
        if (n < LIVE && (n == 0 || next(3) > 0)) {
            live[n] = make(next(3));
            use(live[n++]);
            continue;
        }
        int goes = 1 + (int)next((unsigned)n);
        for (int i = 0; i < goes; i++)
            MPI_Comm_free(&live[n - goes + (i + rank) % goes]);
        n -= goes;
    }
    while (n > 0)
        MPI_Comm_free(&live[--n]);
}

/* One process still has a receive on the communicator that was freed, so it has not kept what the others have. */
static void not_everywhere(void)
{
    for (int turn = 0; turn < 3; turn++) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Comm comm = make(0);
        char byte;
        use(comm);
        if (rank == turn % size)
            MPI_Irecv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 0, comm, &request);
        MPI_Comm_free(&comm);
        comm = make(0);
        use(comm);
        if (rank == turn % size)
            MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    one_by_one(argc > 1 && strcmp(argv[1], "scarce") == 0);
    in_any_order();
    not_everywhere();
    printf("rank %d: shortlived ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
