/* Windows of processes on several nodes: put and get of all forms, to every process. Argument: how
 * many of the processes on other nodes the network itself is to reach, as "2 of 2". Prints "rank N: windows_far ok". */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { N = 40000, SHORT = 7 };

static int rank, size;

/* The value of element i that process `from` writes. */
static int value(int from, int i, int round) { return from * 1000003 + i * 7 + round; }

/* The info says how many of the processes on other nodes the network reaches. */
static void check_info(MPI_Win win, const char *expected)
{
    MPI_Info info;
    char text[64] = "";
    int found, length = sizeof text;

    MPI_Win_get_info(win, &info);
    MPI_Info_get_string(info, "netmod_network_targets", &length, text, &found);
    CHECK(found && strcmp(text, expected) == 0);
    MPI_Info_free(&info);
}

/* Each process has a part of N elements of everybody's memory. */
static void rounds(MPI_Win win, int *memory) {
    int *data = malloc(N * sizeof *data), *back = malloc(N * sizeof *back);
    MPI_Datatype strided;
    MPI_Type_vector(N / 4, 1, 4, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < N; i++) data[i] = value(rank, i, round);
        memset(back, 0, N * sizeof *back);
        MPI_Aint at = (MPI_Aint)rank * N;
        MPI_Win_lock_all(0, win);
        for (int to = 0; to < size; to++) {
            MPI_Request request;
            switch (round) {
            case 0: /* in one piece */
                MPI_Put(data, N, MPI_INT, to, at, N, MPI_INT, win);
                break;
            case 1: /* in many */
                for (int i = 0; i < N; i += N / 100)
                    MPI_Put(data + i, N / 100, MPI_INT, to, at + i, N / 100, MPI_INT, win);
                break;
            case 2: /* scattered here */
                for (int i = 0; i < 4; i++)
                    MPI_Put(data + i, 1, strided, to, at + i * (N / 4), N / 4, MPI_INT, win);
                break;
            case 3: /* scattered there */
                for (int i = 0; i < 4; i++)
                    MPI_Put(data + i * (N / 4), N / 4, MPI_INT, to, at + i, 1, strided, win);
                break;
            case 4: /* the data may change after the wait */
                MPI_Rput(data, N, MPI_INT, to, at, N, MPI_INT, win, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                break;
            default: /* short */
                MPI_Put(data, SHORT, MPI_INT, to, at, SHORT, MPI_INT, win);
            }
            if (round % 2)
                MPI_Win_flush(to, win);
            else
                MPI_Win_flush_local(to, win);
        }
        MPI_Win_flush_all(win);
        for (int to = 0; to < size; to++) {
            MPI_Request request;
            switch (round) {
            case 0:
                MPI_Get(back, N, MPI_INT, to, at, N, MPI_INT, win);
                break;
            case 1:
                MPI_Rget(back, N, MPI_INT, to, at, N, MPI_INT, win, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                break;
            case 2:
                for (int i = 0; i < 4; i++)
                    MPI_Get(back + i, 1, strided, to, at + i * (N / 4), N / 4, MPI_INT, win);
                break;
            case 3:
                for (int i = 0; i < 4; i++)
                    MPI_Get(back + i * (N / 4), N / 4, MPI_INT, to, at + i, 1, strided, win);
                break;
            default:
                MPI_Get(back, N, MPI_INT, to, at, N, MPI_INT, win);
            }
            MPI_Win_flush(to, win);
            for (int i = 0; i < (round == 5 ? SHORT : N); i++) CHECK(back[i] == value(rank, i, round));
        }
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        for (int from = 0; from < size && round != 3 && round != 2; from++)
            for (int i = 0; i < (round == 5 ? SHORT : N); i++)
                CHECK(memory[from * N + i] == value(from, i, round));
        MPI_Win_unlock(rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_free(&strided);
    free(data);
    free(back);
}

/* Exclusive locks: what one holder has put is there when the next one gets it. */
static void counters(MPI_Win win, int *memory) {
    int number, times = 50;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    memory[0] = 0;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < times; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&number, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        number++;
        MPI_Put(&number, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        CHECK(memory[0] == times * size);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Where a process serves all accesses, MPI_Win_lock_all asks for its lock at the first of them. */
static void late(MPI_Win win, int *memory) {
    int last = size - 1, mine = 5, back = 0, flag;
    if (rank == last) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win);
        memory[0] = memory[1] = 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock_all(0, win);
        MPI_Win_unlock_all(win);
        MPI_Win_lock_all(0, win);
        MPI_Put(&mine, 1, MPI_INT, last, 0, 1, MPI_INT, win);
        MPI_Get(&back, 1, MPI_INT, last, 1, 1, MPI_INT, win);
        MPI_Send(&mine, 1, MPI_INT, last, 0, MPI_COMM_WORLD);
        MPI_Win_unlock_all(win);
        CHECK(back == 2);
    }
    if (rank == last) {
        MPI_Recv(&mine, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 1000; i++) MPI_Iprobe(0, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(memory[0] == 1);
        memory[1] = 2;
        MPI_Win_unlock(last, win);
        /* All have given the lock back. */
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win);
        MPI_Win_unlock(last, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(rank != last || memory[0] == 5);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Fences and groups: what was put before is there after. */
static void active(MPI_Win win, int *memory) {
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int round = 0; round < 20; round++) {
        int mine = value(rank, 0, round);
        MPI_Win_fence(0, win);
        MPI_Put(&mine, 1, MPI_INT, to, 1, 1, MPI_INT, win);
        MPI_Win_fence(0, win);
        CHECK(memory[1] == value(from, 0, round));
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        MPI_Win_post(all, 0, win);
        MPI_Win_start(all, 0, win);
        MPI_Put(&mine, 1, MPI_INT, to, 2, 1, MPI_INT, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        CHECK(memory[2] == value(from, 0, round));
    }
    MPI_Group_free(&all);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 2);
    MPI_Aint bytes = (MPI_Aint)N * size * sizeof(int);
    for (int how = 0; how < 2; how++) {
        MPI_Win win;
        int *memory = NULL;
        if (how) {
            memory = calloc(1, bytes);
            MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        } else {
            MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        }
        check_info(win, argv[1]);
        if (argv[1][0] == '0')
            late(win, memory);
        rounds(win, memory);
        counters(win, memory);
        active(win, memory);
        MPI_Win_free(&win);
        if (how) {
            memset(memory, 0, bytes);
            free(memory);
        }
    }
    printf("rank %d: windows_far ok\n", rank);
    MPI_Finalize();
    return 0;
}
