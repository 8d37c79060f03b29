/* Windows: attributes, names, hints, error handlers, and memory that processes of a node share. Prints
 * "rank N: windows ok". */
#define _GNU_SOURCE
#include "check.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int called, deleted;

static void handle(MPI_Win *win, int *code, ...)
{
    (void)win;
    MPI_Error_class(*code, &called);
}

static int copy(MPI_Win win, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)win, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

static int del(MPI_Win win, int keyval, void *value, void *extra)
{
    CHECK(win != MPI_WIN_NULL && keyval != MPI_KEYVAL_INVALID && value == &called && extra == &deleted);
    deleted++;
    return MPI_SUCCESS;
}

static int *attribute(MPI_Win win, int keyval)
{
    void *value;
    int flag;

    CHECK(MPI_Win_get_attr(win, keyval, &value, &flag) == MPI_SUCCESS && flag);
    return value;
}

/* Returns true if the kernel lets this process read another one's memory. */
static int may_read(long pid, long address)
{
    int found = 0;
    struct iovec here = { &found, sizeof found }, there = { (void *)address, sizeof found };

    return process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof found;
}

/* Memory of the program: the kernel puts and gets, so the target need not call MPI. */
static void attached(int rank, int size)
{
    enum { COUNT = 40000 };
    int i, next = (rank + 1) % size, *memory = calloc(COUNT, sizeof *memory), *data = malloc(COUNT * sizeof *data);
    long mine[2] = { getpid(), (long)memory }, theirs[2];
    MPI_Datatype every;
    MPI_Win win;

    MPI_Sendrecv(mine, 2, MPI_LONG, (rank + size - 1) % size, 0, theirs, 2, MPI_LONG, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    i = may_read(theirs[0], theirs[1]);
    MPI_Allreduce(MPI_IN_PLACE, &i, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    MPI_Win_create(memory, COUNT * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        for (int k = 0; k < COUNT; k++)
            data[k] = k + 1;
        /* Every second element, then the others, and the last one at the end. */
        MPI_Type_vector(COUNT / 2, 1, 2, MPI_INT, &every);
        MPI_Type_commit(&every);
        MPI_Put(data, COUNT / 2, MPI_INT, next, 0, 1, every, win);
        MPI_Put(data, 1, every, next, 1, 1, every, win);
        MPI_Win_flush(next, win);
        MPI_Get(data + COUNT / 2, COUNT / 2, MPI_INT, next, 0, 1, every, win);
        MPI_Win_flush(next, win);
        for (int k = 0; k < COUNT / 2; k++)
            CHECK(data[COUNT / 2 + k] == k + 1);
        MPI_Put(data, 1, MPI_INT, next, COUNT - 1, 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        MPI_Type_free(&every);
    }
    /* Without the kernel's help the target has to serve the requests. */
    if (i && rank == 1 % size)
        while (((volatile int *)memory)[COUNT - 1] != 1)
            ;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    if (rank == 1 % size)
        for (int k = 0; k < COUNT / 2 - 1; k++)
            CHECK(memory[2 * k] == k + 1 && memory[2 * k + 1] == 2 * k + 1);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS);
    free(memory);
    free(data);
}

/* Checks which agents execute accumulations on this process's memory. */
static void check_agents(MPI_Win win, const char *agents)
{
    char text[MPI_MAX_INFO_VAL];
    MPI_Info info;
    int flag;

    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, "netmod_accumulate_agent", MPI_MAX_INFO_VAL - 1, text, &flag);
    CHECK(flag && strcmp(text, agents) == 0);
    MPI_Info_free(&info);
}

/* Memory of MPI_Alloc_mem: all processes of a node access it. */
static void allocated(int rank, int size)
{
    enum { COUNT = 100000 };
    int i, unit, next = (rank + 1) % size;
    double *memory, *theirs, one = 1, was;
    MPI_Aint bytes;
    MPI_Info info;
    MPI_Win win;

    CHECK(MPI_Alloc_mem(COUNT * sizeof(double), MPI_INFO_NULL, &memory) == MPI_SUCCESS);
    for (i = 0; i < COUNT; i++)
        memory[i] = rank;
    /* The window is in the middle of the memory. */
    MPI_Win_create(memory + 8, 64 * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    check_agents(win, "processor");
    MPI_Win_shared_query(win, next, &bytes, &unit, &theirs);
    CHECK(bytes == 64 * sizeof(double) && theirs[0] == next);
    MPI_Barrier(MPI_COMM_WORLD);
    /* The target is in no call of MPI that would make progress. */
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
        MPI_Put(&one, 1, MPI_DOUBLE, next, 3, 1, MPI_DOUBLE, win);
        MPI_Fetch_and_op(&one, &was, MPI_DOUBLE, next, 4, MPI_SUM, win);
        MPI_Win_unlock(next, win);
        CHECK(was == next && theirs[3] == 1 && theirs[4] == next + 1);
        theirs[5] = 7;
    }
    if (rank == 1 % size)
        while (((volatile double *)memory)[13] != 7)
            ;
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory[11] == (rank == 1 % size ? 1 : rank));
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS && MPI_Free_mem(memory) == MPI_SUCCESS);
    /* Memory is aligned as the info says. */
    MPI_Info_create(&info);
    for (i = 8; i <= 1 << 14; i *= 2) {
        char value[16], *part[2];

        snprintf(value, sizeof value, "%d", i);
        MPI_Info_set(info, "mpi_minimum_memory_alignment", value);
        CHECK(MPI_Alloc_mem(100, info, &part[0]) == MPI_SUCCESS && MPI_Alloc_mem(i, info, &part[1]) == MPI_SUCCESS);
        CHECK((size_t)part[0] % i == 0 && (size_t)part[1] % i == 0);
        memset(part[1], 1, i);
        CHECK(MPI_Free_mem(part[0]) == MPI_SUCCESS && MPI_Free_mem(part[1]) == MPI_SUCCESS);
    }
    MPI_Info_free(&info);
    /* Small parts and large ones come and go. */
    for (i = 0; i < 300; i++) {
        char *part[3];
        int k;

        for (k = 0; k < 3; k++) {
            CHECK(MPI_Alloc_mem(i << (6 * k), MPI_INFO_NULL, &part[k]) == MPI_SUCCESS);
            memset(part[k], k, i << (6 * k));
        }
        for (k = 0; k < 3; k++) {
            CHECK(i == 0 || (part[k][0] == k && part[k][(i << (6 * k)) - 1] == k));
            CHECK(MPI_Free_mem(part[k]) == MPI_SUCCESS);
        }
    }
}

/* Attached memory, of MPI_Alloc_mem and of the program: its owner need not call MPI. */
static void dynamic(int rank, int size)
{
    enum { COUNT = 40000, TIMES = 200 };
    int i, k, is_read, class, next = (rank + 1) % size, one = 1, was = -1, *data = malloc(COUNT * sizeof *data);
    int *memory[2] = { NULL, calloc(COUNT, sizeof(int)) };
    MPI_Aint own[2], *all = malloc(2 * size * sizeof *all), *at = all + 2 * next;
    long mine[2] = { getpid(), (long)memory[1] }, theirs[2];
    MPI_Datatype every;
    MPI_Win win;

    MPI_Sendrecv(mine, 2, MPI_LONG, (rank + size - 1) % size, 0, theirs, 2, MPI_LONG, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    is_read = may_read(theirs[0], theirs[1]);
    MPI_Allreduce(MPI_IN_PLACE, &is_read, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    CHECK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_SUCCESS);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    check_agents(win, "target");
    MPI_Alloc_mem(COUNT * sizeof(int), MPI_INFO_NULL, &memory[0]);
    memset(memory[0], 0, COUNT * sizeof(int));
    CHECK(MPI_Win_attach(win, memory[0], COUNT * sizeof(int)) == MPI_SUCCESS);
    check_agents(win, size > 1 ? "processor" : "target");
    CHECK(MPI_Win_attach(win, memory[1], COUNT * sizeof(int)) == MPI_SUCCESS);
    check_agents(win, size > 1 ? "processor,target" : "target");
    for (k = 0; k < 2; k++)
        MPI_Get_address(memory[k], &own[k]);
    MPI_Allgather(own, 2, MPI_AINT, all, 2, MPI_AINT, MPI_COMM_WORLD);
    MPI_Type_vector(COUNT / 2, 1, 2, MPI_INT, &every);
    MPI_Type_commit(&every);
    MPI_Win_lock_all(0, win);
    for (k = 0; k < 2 && rank == 0; k++) {
        if (k == 1 && !is_read)
            break;
        for (i = 0; i < COUNT; i++)
            data[i] = i + 1;
        MPI_Put(data, COUNT, MPI_INT, next, at[k], COUNT, MPI_INT, win);
        MPI_Put(data, COUNT / 2, MPI_INT, next, at[k] + sizeof(int), 1, every, win);
        MPI_Win_flush(next, win);
        memset(data, 0, COUNT * sizeof(int));
        MPI_Get(data, 1, every, next, at[k] + sizeof(int), 1, every, win);
        MPI_Get(data + 1, 1, MPI_INT, next, at[k] + 2 * sizeof(int), 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        CHECK(data[0] == 1 && data[1] == 3 && data[2] == 2 && data[COUNT - 2] == COUNT / 2);
        if (k == 0) {
            MPI_Fetch_and_op(&one, &was, MPI_INT, next, at[k], MPI_SUM, win);
            MPI_Accumulate(data, COUNT / 4, MPI_INT, next, at[k], COUNT / 4, MPI_INT, MPI_REPLACE, win);
            MPI_Win_flush(next, win);
            CHECK(was == 1);
        }
        was = -2;
        MPI_Put(&was, 1, MPI_INT, next, at[k] + (COUNT - 1) * sizeof(int), 1, MPI_INT, win);
        MPI_Win_flush(next, win);
    }
    if (rank == 1 % size)
        for (k = 0; k <= is_read; k++)
            while (((volatile int *)memory[k])[COUNT - 1] != -2)
                ;
    MPI_Barrier(MPI_COMM_WORLD);
    /* Every process adds to both memories of all, by itself or by requests. */
    for (k = 0; k < 2; k++)
        for (i = 0; i < size; i++)
            MPI_Accumulate(&one, 1, MPI_INT, i, all[2 * i + k] + 4 * sizeof(int), 1, MPI_INT, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory[1][4] == size + (rank == 1 % size && is_read ? 5 : 0));
    CHECK(memory[0][4] == size + (rank == 1 % size ? 3 : 0));
    /* What is detached is there no more, and the part that is attached again is. */
    CHECK(MPI_Win_detach(win, memory[0]) == MPI_SUCCESS);
    CHECK(MPI_Win_attach(win, memory[0], COUNT / 2 * sizeof(int)) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Put(&one, 1, MPI_INT, next, at[0], 1, MPI_INT, win);
    CHECK(MPI_Win_flush(next, win) == MPI_SUCCESS);
    i = MPI_Put(&one, 1, MPI_INT, next, at[0] + COUNT / 2 * sizeof(int), 1, MPI_INT, win);
    i = i == MPI_SUCCESS ? MPI_Win_flush(next, win) : i;
    MPI_Error_class(i, &class);
    CHECK(class == MPI_ERR_RMA_RANGE);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory[0][0] == 1);
    /* Elements in two parts: what is combined with them, and then with one of them, keeps its order. */
    CHECK(MPI_Win_attach(win, memory[0] + COUNT / 2, 100 * sizeof(int)) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    data[0] = data[1] = 10;
    was = -1;
    MPI_Accumulate(data, 2, MPI_INT, next, at[0] + (COUNT / 2 - 1) * sizeof(int), 2, MPI_INT, MPI_REPLACE, win);
    MPI_Fetch_and_op(&one, &was, MPI_INT, next, at[0] + (COUNT / 2 - 1) * sizeof(int), MPI_SUM, win);
    MPI_Win_flush(next, win);
    CHECK(was == 10);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory[0][COUNT / 2 - 1] == 11 && memory[0][COUNT / 2] == 10);
    CHECK(MPI_Win_detach(win, memory[0] + COUNT / 2) == MPI_SUCCESS && MPI_Win_detach(win, memory[0]) == MPI_SUCCESS);
    MPI_Free_mem(memory[0]);
    /* Memory comes and goes, at the same addresses, too. */
    for (k = 0; k < TIMES; k++) {
        MPI_Alloc_mem((k % 3 ? 100 : COUNT) * sizeof(int), MPI_INFO_NULL, &memory[0]);
        memory[0][99] = -1;
        MPI_Win_attach(win, memory[0], (k % 3 ? 100 : COUNT) * sizeof(int));
        MPI_Get_address(memory[0], &own[0]);
        MPI_Sendrecv(own, 1, MPI_AINT, (rank + size - 1) % size, 0, at, 1, MPI_AINT, next, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Put(&k, 1, MPI_INT, next, at[0] + 99 * sizeof(int), 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(memory[0][99] == k);
        MPI_Win_detach(win, memory[0]);
        MPI_Free_mem(memory[0]);
    }
    MPI_Win_unlock_all(win);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS);
    MPI_Type_free(&every);
    free(memory[1]);
    free(data);
    free(all);
}

/* Bytes of an object change as a whole, beyond what MPI promises. */
static void objects(int rank)
{
    enum { BYTES = 16, TIMES = 20000 };
    int i, k, torn = 0;
    unsigned char *memory, object[BYTES], all[BYTES];
    MPI_Win win;

    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (i = 0; i < TIMES; i++) {
        memset(object, i, BYTES);
        if (rank == 0)
            MPI_Accumulate(object, BYTES, MPI_BYTE, 0, 0, BYTES, MPI_BYTE, MPI_REPLACE, win);
        else
            MPI_Get_accumulate(NULL, 0, MPI_BYTE, all, BYTES, MPI_BYTE, 0, 0, BYTES, MPI_BYTE, MPI_NO_OP, win);
        MPI_Win_flush(0, win);
        for (k = 1; k < BYTES && rank > 0; k++)
            torn += all[k] != all[0];
    }
    CHECK(torn == 0);
    MPI_Win_unlock_all(win);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS);
}

/* Processes that share a lock all the time do not keep another one from having it alone. */
static void fairness(int rank)
{
    int i, done = 0, exclusive = 0;
    int *memory;
    MPI_Request request;
    MPI_Win win;

    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (rank == 0) {
        for (i = 0; i < 50; i++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            exclusive++;
            MPI_Win_unlock(0, win);
            usleep(100);
        }
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(exclusive == 50);
    } else {
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        while (!done) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
            usleep(100 * rank);
            MPI_Win_unlock(0, win);
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
    }
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS);
}

static void settings(MPI_Win win)
{
    int keyval, flag, length;
    void *value;
    char name[MPI_MAX_OBJECT_NAME], text[MPI_MAX_INFO_VAL];
    MPI_Errhandler handler, set;
    MPI_Info info;

    MPI_Win_get_name(win, name, &length);
    CHECK(length == 0);
    MPI_Win_set_name(win, "a window");
    MPI_Win_get_name(win, name, &length);
    CHECK(length == 8 && strcmp(name, "a window") == 0);
    MPI_Win_get_errhandler(win, &set);
    CHECK(set == MPI_ERRORS_ARE_FATAL);
    MPI_Win_create_errhandler(handle, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_call_errhandler(win, MPI_ERR_QUOTA);
    CHECK(called == MPI_ERR_QUOTA);
    CHECK(MPI_Win_unlock(0, win) != MPI_SUCCESS && called == MPI_ERR_RMA_SYNC);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    MPI_Win_create_keyval(copy, del, &keyval, &deleted);
    MPI_Win_set_attr(win, keyval, &called);
    CHECK(attribute(win, keyval) == &called);
    MPI_Win_delete_attr(win, keyval);
    MPI_Win_get_attr(win, keyval, &value, &flag);
    CHECK(deleted == 1 && !flag);
    MPI_Win_set_attr(win, keyval, &called);
    MPI_Win_free_keyval(&keyval);
    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, "accumulate_ordering", MPI_MAX_INFO_VAL - 1, text, &flag);
    CHECK(flag && strcmp(text, "rar,raw,war,waw") == 0);
    MPI_Info_get(info, "netmod_accumulate_agent", MPI_MAX_INFO_VAL - 1, text, &flag);
    CHECK(flag && (strcmp(text, "processor") == 0 || strcmp(text, "target") == 0));
    MPI_Info_set(info, "no_locks", "true");
    MPI_Win_set_info(win, info);
    MPI_Info_free(&info);
    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, "no_locks", MPI_MAX_INFO_VAL - 1, text, &flag);
    CHECK(flag && strcmp(text, "true") == 0);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    int rank, size, i, count, unit, next;
    MPI_Aint bytes;
    MPI_Win win, other;
    MPI_Group group;
    double *base, *theirs, one = 1, sum[2] = {0};
    struct { double value; int index; } pair, *pairs;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;

    /* Memory that all load from and store to. */
    CHECK(MPI_Win_allocate_shared((rank + 1) * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD,
                                  &base, &win) == MPI_SUCCESS);
    CHECK(*attribute(win, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_SHARED);
    CHECK(*attribute(win, MPI_WIN_MODEL) == MPI_WIN_UNIFIED);
    CHECK(*attribute(win, MPI_WIN_DISP_UNIT) == sizeof(double));
    CHECK(*(MPI_Aint *)attribute(win, MPI_WIN_SIZE) == (MPI_Aint)((rank + 1) * sizeof(double)));
    CHECK((void *)attribute(win, MPI_WIN_BASE) == base);
    settings(win);
    MPI_Win_get_group(win, &group);
    MPI_Group_size(group, &count);
    CHECK(count == size);
    MPI_Group_free(&group);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (i = 0; i <= rank; i++)
        base[i] = 10 * rank + i;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (i = 0; i < size; i++) {
        MPI_Win_shared_query(win, i, &bytes, &unit, &theirs);
        CHECK(bytes == (MPI_Aint)((i + 1) * sizeof(double)) && unit == sizeof(double));
        CHECK(theirs[i] == 11 * i);
    }
    MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &theirs);
    CHECK(bytes == sizeof(double) && theirs[0] == 0);
    MPI_Win_unlock_all(win);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS && deleted == 2);

    /* Sums of all at one place, and pairs. */
    CHECK(MPI_Win_allocate(64, 16, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win) == MPI_SUCCESS);
    pairs = (void *)base;
    base[0] = 0;
    pairs[1].value = 1000;
    pairs[1].index = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    pair.value = rank;
    pair.index = rank;
    for (i = 0; i < 100; i++) {
        MPI_Accumulate(&one, 1, MPI_DOUBLE, next, 0, 1, MPI_DOUBLE, MPI_SUM, win);
        MPI_Fetch_and_op(&one, &sum[0], MPI_DOUBLE, 0, 0, MPI_SUM, win);
        MPI_Accumulate(&pair, 1, MPI_DOUBLE_INT, next, 1, 1, MPI_DOUBLE_INT, MPI_MINLOC, win);
        MPI_Accumulate(&pair, 1, MPI_DOUBLE_INT, 0, 1, 1, MPI_DOUBLE_INT, MPI_MINLOC, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(base[0] == (rank == 0 ? 100.0 * (size + 1) : 100.0));
    CHECK(pairs[1].value == (rank == 0 ? 0 : rank - 1) && pairs[1].index == (rank == 0 ? 0 : rank - 1));

    attached(rank, size);
    allocated(rank, size);
    dynamic(rank, size);
    objects(rank);
    fairness(rank);
    /* Two windows at once. */
    CHECK(MPI_Win_create(sum, sizeof sum, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &other) == MPI_SUCCESS);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, other);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    pair.value = 3.5 + rank;
    MPI_Put(&pair.value, 1, MPI_DOUBLE, next, 1, 1, MPI_DOUBLE, other);
    MPI_Put(&pair.value, 1, MPI_DOUBLE, next, 2, 1, MPI_DOUBLE, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, other);
    CHECK(sum[1] == 3.5 + (rank + size - 1) % size && base[4] == sum[1]);
    CHECK(MPI_Win_free(&other) == MPI_SUCCESS && MPI_Win_free(&win) == MPI_SUCCESS);
    printf("rank %d: windows ok\n", rank);
    MPI_Finalize();
    return 0;
}
