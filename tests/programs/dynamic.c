/* Groups that meet at ports: of one job, or of two, which exchange the port's name by a file.
 *
 * dynamic ROLE FILE TIMES: ROLE is one (halves of MPI_COMM_WORLD meet), serve or visit (two jobs). */
#include "check.h"
#include "port.h"

#include <string.h>

/* Everything that a communicator with another group can do. */
static void talk(MPI_Comm inter, int high)
{
    int me, n, far, flag, sum, from, i;
    MPI_Comm merged, again, part, copy;
    MPI_Status status;
    MPI_Group local, remote, common;

    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag);
    MPI_Comm_rank(inter, &me);
    MPI_Comm_size(inter, &n);
    MPI_Comm_remote_size(inter, &far);

    /* Each sends to all of the other group, which receive from whoever comes. */
    int mine = 100 * high + me;
    MPI_Request *sends = malloc(far * sizeof *sends);
    for (i = 0; i < far; i++)
        MPI_Isend(&mine, 1, MPI_INT, i, 7, inter, &sends[i]);
    for (i = 0; i < far; i++) {
        MPI_Recv(&from, 1, MPI_INT, MPI_ANY_SOURCE, 7, inter, &status);
        CHECK(from == 100 * !high + status.MPI_SOURCE);
    }
    MPI_Waitall(far, sends, MPI_STATUSES_IGNORE);
    free(sends);

    /* Large messages, both ways at once. */
    if (me < far && me < n) {
        int words = 1 << 18;
        int *out = malloc(words * sizeof *out), *in = malloc(words * sizeof *in);
        for (i = 0; i < words; i++)
            out[i] = i ^ high;
        MPI_Sendrecv(out, words, MPI_INT, me, 8, in, words, MPI_INT, me, 8, inter, &status);
        for (i = 0; i < words; i++)
            CHECK(in[i] == (i ^ !high));
        free(out);
        free(in);
    }

    /* Collective operations of the two groups. */
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK(sum == far);
    MPI_Barrier(inter);
    MPI_Comm_group(inter, &local);
    MPI_Comm_remote_group(inter, &remote);
    MPI_Group_intersection(local, remote, &common);
    CHECK(common == MPI_GROUP_EMPTY);
    MPI_Group_free(&local);

    /* All in one communicator, and those that are made of it. */
    MPI_Intercomm_merge(inter, high, &merged);
    int all, rank;
    MPI_Comm_size(merged, &all);
    MPI_Comm_rank(merged, &rank);
    CHECK(all == n + far && rank == me + (high ? far : 0));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == all * (all - 1) / 2);
    MPI_Comm_group(merged, &local);
    MPI_Group_translate_ranks(remote, 1, &(int){0}, local, &from);
    CHECK(from == (high ? 0 : n));
    MPI_Group_free(&local);
    MPI_Group_free(&remote);
    if (rank == 0) {
        for (i = 1; i < all; i++) {
            MPI_Recv(&from, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, merged, &status);
            CHECK(from == status.MPI_SOURCE && status.MPI_TAG == from);
        }
    } else {
        MPI_Send(&rank, 1, MPI_INT, 0, rank, merged);
    }
    MPI_Comm_split(merged, rank % 2, -rank, &part);
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, part);
    CHECK(sum == (all + !(rank % 2)) / 2);
    MPI_Comm_split_type(merged, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &copy);
    MPI_Comm_size(copy, &sum);
    CHECK(sum >= 1 && sum <= all);
    MPI_Comm_free(&copy);
    MPI_Comm_dup(inter, &copy);
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, copy);
    CHECK(sum == far);
    /* The two groups again, by leaders of the merged communicator. */
    MPI_Comm_split(merged, high, 0, &again);
    MPI_Comm made;
    MPI_Intercomm_create(again, 0, merged, high ? 0 : n, 9, &made);
    MPI_Comm_remote_size(made, &sum);
    CHECK(sum == far);
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, made);
    CHECK(sum == far);

    /* Memory of processes of both. */
    int *base, got = -1;
    MPI_Win win;
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, merged, &base, &win);
    *base = rank;
    MPI_Win_fence(0, win);
    MPI_Get(&got, 1, MPI_INT, (rank + 1) % all, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(got == (rank + 1) % all);
    MPI_Win_free(&win);

    /* Two communicators whose first processes are of different jobs; each side begins with another one. */
    MPI_Comm both[2], copies[2];
    MPI_Request requests[2];
    MPI_Intercomm_merge(inter, high, &both[0]);
    MPI_Intercomm_merge(inter, !high, &both[1]);
    MPI_Comm_idup(both[high], &copies[high], &requests[0]);
    MPI_Comm_idup(both[!high], &copies[!high], &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (i = 0; i < 2; i++) {
        MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, copies[i]);
        CHECK(sum == all);
        MPI_Comm_disconnect(&copies[i]);
        MPI_Comm_disconnect(&both[i]);
    }

    MPI_Comm_disconnect(&made);
    MPI_Comm_free(&again);
    MPI_Comm_disconnect(&copy);
    MPI_Comm_disconnect(&part);
    MPI_Comm_disconnect(&merged);
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm group = MPI_COMM_WORLD, inter;
    int rank, size, i, high = 0;

    MPI_Init(&argc, &argv);
    CHECK(argc == 4);
    int times = atoi(argv[3]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
    if (strcmp(argv[1], "one") == 0) {
        high = rank >= size / 2;
        MPI_Comm_split(MPI_COMM_WORLD, high, 0, &group);
        if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Send(port, sizeof port, MPI_CHAR, size / 2, 1, MPI_COMM_WORLD);
        } else if (rank == size / 2) {
            MPI_Recv(port, sizeof port, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else {
        high = strcmp(argv[1], "visit") == 0;
        if (rank == 0 && high) {
            read_name(argv[2], port);
        } else if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            write_name(argv[2], port);
        }
    }
    for (i = 0; i < times; i++) {
        if (high)
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, group, &inter);
        else
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, group, &inter);
        if (i < 3)
            talk(inter, high);
        else
            MPI_Barrier(inter);
        if (i % 2)
            MPI_Comm_disconnect(&inter);
        else {
            MPI_Barrier(inter);
            MPI_Comm_free(&inter);
        }
    }
    if (!high && rank == 0)
        MPI_Close_port(port);
    if (group != MPI_COMM_WORLD)
        MPI_Comm_free(&group);
    MPI_Finalize();
    printf("rank %d: dynamic ok\n", rank);
    return 0;
}
