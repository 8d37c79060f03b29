/* Goes on after failures. Argument: a seed, which gives the processes that die, and when. The others run rounds of
 * operations on a communicator; who gets an error revokes it, all shrink it and agree on the round that comes next.
 * Each compares what it gets with what those that live must get, and prints "rank N: survivors ok". */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

enum { ROUNDS = 12, MOST = 64 };

static uint64_t seed;
static int place, places;

static uint64_t number(uint64_t a, uint64_t b)
{
    uint64_t mixed = (seed * 0x9e3779b97f4a7c15u) ^ (a * 0xbf58476d1ce4e5b9u) ^ (b * 0x94d049bb133111ebu);

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

/* The step at which a process dies: a round and a place in it; ROUNDS for one that lives. The first one may die, too,
 * but one process lives. */
static int round_of_death(int who)
{
    if (who == (int)(number(1, 0) % (uint64_t)places) || number(2, (uint64_t)who) % 2 == 0)
        return ROUNDS;
    return (int)(number(3, (uint64_t)who) % ROUNDS);
}

static void may_die(int round, int step)
{
    int last = (int)(number(4, (uint64_t)place) % 6);

    if (round == round_of_death(place) && (step == last || step == 5))
        kill(getpid(), SIGKILL);
}

static int is(int code, int class)
{
    int found = MPI_SUCCESS;

    if (code != MPI_SUCCESS)
        CHECK(MPI_Error_class(code, &found) == MPI_SUCCESS);
    return found == class;
}

/* One of these ends an operation of a communicator that loses processes. */
static int is_loss(int code)
{
    return is(code, MPIX_ERR_PROC_FAILED) || is(code, MPIX_ERR_REVOKED) || is(code, MPIX_ERR_PROC_FAILED_PENDING);
}

/* Operations of a round; the first error of one of them. */
static int work(MPI_Comm comm, int round)
{
    int rank, size, code, one = 1, sum = 0, got = -1;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm copy;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    may_die(round, 0);
    code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (code != MPI_SUCCESS)
        return code;
    CHECK(sum == size);
    may_die(round, 1);
    code = MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % size, 3, comm, &requests[0]);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Isend(&rank, 1, MPI_INT, (rank + size - 1) % size, 3, comm, &requests[1]);
    if (code != MPI_SUCCESS)
        requests[1] = MPI_REQUEST_NULL;
    may_die(round, 2);
    if (MPI_Waitall(2, requests, statuses) != MPI_SUCCESS) {
        for (int i = 0; i < 2; i++) {
            if (is(statuses[i].MPI_ERROR, MPI_ERR_PENDING))
                CHECK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE) != MPI_SUCCESS || i == 1);
            else if (statuses[i].MPI_ERROR != MPI_SUCCESS)
                code = statuses[i].MPI_ERROR;
        }
        if (code == MPI_SUCCESS)
            code = MPI_Barrier(comm);
        return code;
    }
    if (code != MPI_SUCCESS)
        return code;
    CHECK(got == (rank + 1) % size);
    may_die(round, 3);
    code = MPI_Comm_dup(comm, &copy);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Barrier(copy);
    CHECK(MPI_Comm_free(&copy) == MPI_SUCCESS);
    may_die(round, 4);
    return code;
}

/* Whatever the processes of a group have in common with those that can have died until now. */
static void check_lost(MPI_Comm comm, int round)
{
    MPI_Group failed, all;
    int n, ranks[MOST], ours[MOST];

    CHECK(MPIX_Comm_get_failed(comm, &failed) == MPI_SUCCESS);
    CHECK(MPI_Comm_group(MPI_COMM_WORLD, &all) == MPI_SUCCESS);
    MPI_Group_size(failed, &n);
    for (int i = 0; i < n; i++)
        ours[i] = i;
    CHECK(MPI_Group_translate_ranks(failed, n, ours, all, ranks) == MPI_SUCCESS);
    for (int i = 0; i < n; i++)
        /* Others may be a round ahead. */
        CHECK(round_of_death(ranks[i]) <= round + 1);
    MPI_Group_free(&failed);
    MPI_Group_free(&all);
}

int main(int argc, char **argv)
{
    MPI_Comm comm, next;
    int round = 0, shrunk = 0;

    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &place);
    MPI_Comm_size(MPI_COMM_WORLD, &places);
    CHECK(places <= MOST);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* Nobody dies meanwhile. */
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    while (round < ROUNDS) {
        int code = work(comm, round), flag, agreed, acked, size;
        MPI_Group group;

        if (code != MPI_SUCCESS && !is_loss(code)) {
            char text[MPI_MAX_ERROR_STRING];
            int length;

            MPI_Error_string(code, text, &length);
            fprintf(stderr, "not so: round %d ends with %s\n", round, text);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        if (code != MPI_SUCCESS)
            CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
        may_die(round, 5);
        /* All agree whether the round was a success for all, and on the bits that all have. */
        flag = (code == MPI_SUCCESS ? 1 : 0) | (~1 & ~(2 << place % 20));
        agreed = MPIX_Comm_agree(comm, &flag);
        CHECK(agreed == MPI_SUCCESS || is(agreed, MPIX_ERR_PROC_FAILED));
        CHECK((flag & 2 << place % 20) == 0);
        CHECK(code == MPI_SUCCESS || (flag & 1) == 0);
        check_lost(comm, round);
        round++;
        if (agreed == MPI_SUCCESS && (flag & 1) != 0)
            continue;
        CHECK(MPIX_Comm_failure_ack(comm) == MPI_SUCCESS);
        CHECK(MPIX_Comm_failure_get_acked(comm, &group) == MPI_SUCCESS);
        MPI_Group_size(group, &acked);
        MPI_Group_free(&group);
        CHECK(MPIX_Comm_shrink(comm, &next) == MPI_SUCCESS);
        MPI_Comm_size(comm, &size);
        MPI_Comm_size(next, &shrunk);
        CHECK(shrunk <= size - acked);
        CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
        comm = next;
    }
    /* The last one to fail may have done so after the last round. */
    CHECK(MPIX_Comm_shrink(comm, &next) == MPI_SUCCESS);
    MPI_Comm_size(next, &shrunk);
    for (int who = 0; who < places; who++)
        shrunk -= round_of_death(who) == ROUNDS;
    CHECK(shrunk == 0);
    MPI_Comm_free(&next);
    MPI_Comm_free(&comm);
    printf("rank %d: survivors ok\n", place);
    MPI_Finalize();
    return 0;
}
