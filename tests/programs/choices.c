/* Collective operations whose algorithms all ranks must choose alike. The argument says how ranks
 * differ: "alike", not at all; "mixed", in load and in settings that each may have for itself;
 * "differ", in the algorithm of MPI_Allreduce, which is an error at all of them.
 * Prints "rank N: choices ok". */
#include "check.h"

#include <string.h>

#define MOST (1 << 16)

static int rank, size;
static int *mine, *all;

/* Keeps a rank busy, for another time in each call. */
static void load(int number)
{
    volatile double x = 1;

    for (int i = 0; i < 20000 * ((rank * 7 + number) % 5); i++)
        x = x * 1.0000001;
}

static void operations(int count, int busy)
{
    int sum = size * (size - 1) / 2, root = count % size;

    for (int i = 0; i < count; i++)
        mine[i] = rank + i;
    if (busy)
        load(count);
    MPI_Allreduce(mine, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK(all[i] == sum + i * size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Reduce(mine, all, count, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD);
    for (int i = 0; rank == root && i < count; i++)
        CHECK(all[i] == size - 1 + i);
    if (busy)
        load(count + 1);
    for (int i = 0; i < count; i++)
        all[i] = rank == root ? 3 * i : -1;
    MPI_Bcast(all, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK(all[i] == 3 * i);
    MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < count * size; i++)
        CHECK(all[i] == i / count + i % count);
    MPI_Gather(mine, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD);
    MPI_Scatter(all, count, MPI_INT, rank == root ? MPI_IN_PLACE : mine, count, MPI_INT, root,
                MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK(mine[i] == rank + i);
    for (int i = 0; i < count * size; i++)
        all[i] = rank * 100 + i / count;
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < count * size; i++)
        CHECK(all[i] == i / count * 100 + rank);
    for (int i = 0; i < count * size; i++)
        all[i] = i + rank;
    MPI_Reduce_scatter_block(MPI_IN_PLACE, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK(all[i] == (rank * count + i) * size + sum);
    MPI_Scan(mine, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK(all[i] == rank * (rank + 1) / 2 + i * (rank + 1));
}

/* All ranks are told which setting differs, where, and what it is there. */
static void refused(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length, one = 1, two, code;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++) {
        code = MPI_Allreduce(&one, &two, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(code != MPI_SUCCESS);
        MPI_Error_string(code, text, &length);
        CHECK(strstr(text, "NETMOD_COLL_ALLREDUCE is ring at rank 0"));
        CHECK(strstr(text, "and circulant at rank 1"));
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "alike", *place = getenv("PMI_RANK");
    int number = place ? atoi(place) : 0, mixed = !strcmp(how, "mixed");

    if (mixed) {
        setenv("NETMOD_SPIN", number % 2 ? "50" : "auto", 1);
        setenv("NETMOD_EAGER_MAX", number % 3 ? "4K" : "64K", 1);
        setenv("NETMOD_OFI_PROVIDER", number % 2 ? "verbs" : "sockets", 1);
    }
    if (!strcmp(how, "differ"))
        setenv("NETMOD_COLL_ALLREDUCE", number == 1 ? "circulant" : "ring", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(how, "differ")) {
        refused();
    } else {
        mine = malloc(MOST * sizeof(int));
        all = malloc((size_t)size * MOST * sizeof(int));
        for (int count = 1; count <= MOST; count *= 7)
            operations(count, mixed);
        free(mine);
        free(all);
    }
    printf("rank %d: choices ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
