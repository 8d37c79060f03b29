/* Goes on after failures. Arguments: a seed, which gives the processes that die, and when; and what the communicator
 * is: "world" alone; or "inter" or "merged", of two groups, which are halves of the job ("one"), or two jobs ("serve"
 * and "visit", with a file for the name of the port).
 *
 * The processes run rounds of operations on the communicator; who gets an error revokes it, all shrink it and agree on
 * the round that comes next. Each compares what it gets with what those that live must get, and prints
 * "rank N: survivors ok". */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "port.h"

enum { ROUNDS = 12, MOST = 64 };

static uint64_t seed;
/* This process among all that begin, and their number. */
static int place, places;
static MPI_Group everybody;

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

/* The number of processes that messages go to. */
static int peers_of(MPI_Comm comm)
{
    int is_inter, size;

    MPI_Comm_test_inter(comm, &is_inter);
    if (is_inter)
        MPI_Comm_remote_size(comm, &size);
    else
        MPI_Comm_size(comm, &size);
    return size;
}

/* Those whom this process sends to and receives from, in a ring, or in pairs of two groups; none if it has no pair. */
static void neighbours(MPI_Comm comm, int *to, int *from)
{
    int is_inter, rank, size;

    MPI_Comm_test_inter(comm, &is_inter);
    MPI_Comm_rank(comm, &rank);
    size = peers_of(comm);
    *from = is_inter ? rank : (rank + 1) % size;
    *to = is_inter ? rank : (rank + size - 1) % size;
    if (is_inter && rank >= size)
        *from = *to = MPI_PROC_NULL;
}

/* Operations of a round; the first error of one of them. */
static int work(MPI_Comm comm, int round)
{
    int rank, size, code, one = 1, sum = 0, got = -1, to, from;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm copy;

    MPI_Comm_rank(comm, &rank);
    size = peers_of(comm);
    neighbours(comm, &to, &from);
    may_die(round, 0);
    code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (code != MPI_SUCCESS)
        return code;
    CHECK(sum == size);
    may_die(round, 1);
    code = MPI_Irecv(&got, 1, MPI_INT, from, 3, comm, &requests[0]);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Isend(&rank, 1, MPI_INT, to, 3, comm, &requests[1]);
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
    CHECK(from == MPI_PROC_NULL || got == from);
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
    MPI_Group failed;
    int n, ranks[MOST], ours[MOST];

    CHECK(MPIX_Comm_get_failed(comm, &failed) == MPI_SUCCESS);
    MPI_Group_size(failed, &n);
    for (int i = 0; i < n; i++)
        ours[i] = i;
    CHECK(MPI_Group_translate_ranks(failed, n, ours, everybody, ranks) == MPI_SUCCESS);
    for (int i = 0; i < n; i++)
        /* Others may be a round ahead. */
        CHECK(round_of_death(ranks[i]) <= round + 1);
    MPI_Group_free(&failed);
}

/* The number of processes of a communicator, those of both groups for an intercommunicator. */
static int all_of(MPI_Comm comm)
{
    int is_inter, own;

    MPI_Comm_test_inter(comm, &is_inter);
    MPI_Comm_size(comm, &own);
    return own + (is_inter ? peers_of(comm) : 0);
}

/* Shrinks a communicator; MPI_COMM_NULL if the other group has nobody left. */
static MPI_Comm shrink(MPI_Comm comm)
{
    MPI_Comm next;
    MPI_Group other;
    int n, ranks[MOST], theirs[MOST];

    CHECK(MPIX_Comm_shrink(comm, &next) == MPI_SUCCESS);
    if (next == MPI_COMM_NULL) {
        CHECK(MPI_Comm_remote_group(comm, &other) == MPI_SUCCESS);
        MPI_Group_size(other, &n);
        for (int i = 0; i < n; i++)
            theirs[i] = i;
        CHECK(MPI_Group_translate_ranks(other, n, theirs, everybody, ranks) == MPI_SUCCESS);
        for (int i = 0; i < n; i++)
            CHECK(round_of_death(ranks[i]) < ROUNDS);
        MPI_Group_free(&other);
    }
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
    return next;
}

/* The communicator that the arguments name. Nobody dies meanwhile. */
static MPI_Comm first_of(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    const char *kind = argc > 2 ? argv[2] : "world", *role = argc > 3 ? argv[3] : "one";
    MPI_Comm comm, group = MPI_COMM_WORLD, merged;
    int rank, size, high;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(kind, "world") == 0) {
        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
        CHECK(MPI_Comm_group(comm, &everybody) == MPI_SUCCESS);
        return comm;
    }
    if (strcmp(role, "one") == 0) {
        high = rank >= size / 2;
        CHECK(MPI_Comm_split(MPI_COMM_WORLD, high, 0, &group) == MPI_SUCCESS);
        CHECK(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, high ? 0 : size / 2, 1, &comm) == MPI_SUCCESS);
    } else {
        high = strcmp(role, "visit") == 0;
        CHECK(argc > 4);
        if (rank == 0 && high) {
            read_name(argv[4], port);
        } else if (rank == 0) {
            CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
            write_name(argv[4], port);
        }
        if (high)
            CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, group, &comm) == MPI_SUCCESS);
        else
            CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, group, &comm) == MPI_SUCCESS);
    }
    CHECK(MPI_Intercomm_merge(comm, high, &merged) == MPI_SUCCESS);
    CHECK(MPI_Comm_group(merged, &everybody) == MPI_SUCCESS);
    /* All have both before one dies. */
    CHECK(MPI_Barrier(merged) == MPI_SUCCESS);
    if (strcmp(kind, "merged") == 0)
        return merged;
    CHECK(MPI_Comm_free(&merged) == MPI_SUCCESS);
    return comm;
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    int round = 0, shrunk = 0, rank;

    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    comm = first_of(argc, argv);
    MPI_Group_rank(everybody, &place);
    MPI_Group_size(everybody, &places);
    CHECK(places <= MOST);
    while (round < ROUNDS && comm != MPI_COMM_NULL) {
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
        size = all_of(comm);
        comm = shrink(comm);
        if (comm != MPI_COMM_NULL)
            CHECK(all_of(comm) <= size - acked);
    }
    /* The last one to fail may have done so after the last round. */
    if (comm != MPI_COMM_NULL)
        comm = shrink(comm);
    if (comm != MPI_COMM_NULL) {
        shrunk = all_of(comm);
        for (int who = 0; who < places; who++)
            shrunk -= round_of_death(who) == ROUNDS;
        CHECK(shrunk == 0);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&everybody);
    printf("rank %d: survivors ok\n", rank);
    MPI_Finalize();
    return 0;
}
