/* A process dies while jobs are started and groups meet. Arguments: the seed, the microseconds after which the victim
 * dies, and its rank; a rank below 0 is that of a process of a job that was started, -1 for 0.
 *
 * The others start jobs, meet at ports, merge and disconnect until an error tells them of the loss, shrink, and do all
 * that once more. Each prints "rank N: meets_kill ok". */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static int victim;
static useconds_t delay;

static void *die(void *unused)
{
    usleep(delay);
    kill(getpid(), SIGKILL);
    return unused;
}

static void die_soon(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, die, NULL) == 0);
}

/* Returns the outcome of a call, which may succeed in some processes of a communicator and fail in others, for all alike.
 * One that it has made is freed. */
static int for_all(MPI_Comm of, int code, MPI_Comm *made)
{
    int flag = code == MPI_SUCCESS, agreed = MPIX_Comm_agree(of, &flag);

    if (flag)
        return MPI_SUCCESS;
    if (code == MPI_SUCCESS) {
        if (made) {
            MPIX_Comm_revoke(*made);
            MPI_Comm_free(made);
        }
        code = agreed == MPI_SUCCESS ? MPIX_ERR_REVOKED : agreed;
    }
    return code;
}

/* The part of a job that was started: it may be lost at any time, or its parents. */
static int child(MPI_Comm parent, char **argv)
{
    int rank;
    MPI_Comm merged;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    victim = atoi(argv[3]);
    delay = (useconds_t)atoi(argv[2]) / 8;
    if (victim == -1 - rank)
        die_soon();
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    if (for_all(parent, MPI_Intercomm_merge(parent, 1, &merged), &merged) == MPI_SUCCESS) {
        MPI_Barrier(merged);
        MPI_Comm_disconnect(&merged);
    }
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

/* Starts a job, merges with it, and leaves it. */
static int spawns(MPI_Comm base, char **argv)
{
    MPI_Comm inter, merged;
    int codes[2], code;

    code = for_all(base, MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, base, &inter, codes), &inter);
    if (code != MPI_SUCCESS)
        return code;
    code = for_all(inter, MPI_Intercomm_merge(inter, 0, &merged), &merged);
    if (code == MPI_SUCCESS) {
        code = MPI_Barrier(merged);
        MPI_Comm_disconnect(&merged);
    }
    MPI_Comm_disconnect(&inter);
    return code;
}

/* Halves meet at a port. */
static int meets(MPI_Comm base)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, inter, merged;
    MPI_Info limit;
    int rank, size, high, code;

    MPI_Comm_rank(base, &rank);
    MPI_Comm_size(base, &size);
    if (size == 1)
        return MPI_SUCCESS;
    high = rank >= size / 2;
    code = for_all(base, MPI_Comm_split(base, high, 0, &half), &half);
    if (code != MPI_SUCCESS)
        return code;
    if (rank == 0)
        CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
    code = MPI_Bcast(port, sizeof port, MPI_CHAR, 0, base);
    /* If those who connect have died, nobody comes. */
    MPI_Info_create(&limit);
    MPI_Info_set(limit, "timeout", "4");
    if (code == MPI_SUCCESS)
        code = high ? MPI_Comm_connect(port, limit, 0, half, &inter) : MPI_Comm_accept(port, limit, 0, half, &inter);
    MPI_Info_free(&limit);
    if (rank == 0)
        MPI_Close_port(port);
    code = for_all(base, code, &inter);
    if (code == MPI_SUCCESS) {
        code = for_all(inter, MPI_Intercomm_merge(inter, high, &merged), &merged);
        if (code == MPI_SUCCESS) {
            code = MPI_Barrier(merged);
            MPI_Comm_disconnect(&merged);
        }
        MPI_Comm_disconnect(&inter);
    }
    MPI_Comm_free(&half);
    return code;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, base, next;
    int rank, size, left, code = MPI_SUCCESS, class, length, round, level;
    char text[MPI_MAX_ERROR_STRING], lost[40], sooner[16];

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    CHECK(argc == 4);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argv);
    victim = atoi(argv[3]);
    delay = (useconds_t)atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &base) == MPI_SUCCESS);
    if (rank == victim)
        die_soon();
    argv[2] = sooner;
    for (round = atoi(argv[1]); code == MPI_SUCCESS; round++) {
        /* A job that was started may be over before its victim dies, which dies sooner in the next one. */
        snprintf(sooner, sizeof sooner, "%u", (unsigned)delay);
        if (victim < 0)
            delay -= delay / 4;
        code = for_all(base, round % 2 ? spawns(base, argv) : meets(base), NULL);
    }
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    snprintf(lost, sizeof lost, "rank %d", victim < 0 ? -1 - victim : victim);
    printf("rank %d: class %d: %s\n", rank, class, text);
    if (class != MPIX_ERR_REVOKED && strstr(text, lost))
        printf("rank %d: the loss is named\n", rank);
    CHECK(MPIX_Comm_revoke(base) == MPI_SUCCESS);
    CHECK(MPIX_Comm_shrink(base, &next) == MPI_SUCCESS);
    MPI_Comm_size(next, &left);
    CHECK(left == size - (victim >= 0));
    MPI_Comm_free(&base);
    argv[3] = "1000000";
    CHECK(spawns(next, argv) == MPI_SUCCESS);
    CHECK(meets(next) == MPI_SUCCESS);
    MPI_Comm_free(&next);
    printf("rank %d: meets_kill ok\n", rank);
    MPI_Finalize();
    return 0;
}
