/* Calls what programs call most, of every kind of object. Prints "rank N: functions ok". */
#include "check.h"

#include <string.h>

static int rank, size, copies, deletes, errors, last_code;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    /* Functions of the program may call MPI. */
    int n;
    MPI_Comm_size(comm, &n);
    CHECK(n == size && keyval != MPI_KEYVAL_INVALID && extra == &copies);
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value;
    CHECK(extra == &copies);
    deletes++;
    return MPI_SUCCESS;
}

static void handle_error(MPI_Comm *comm, int *code, ...)
{
    CHECK(*comm == MPI_COMM_WORLD);
    errors++;
    last_code = *code;
}

static void larger(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int *a = in, *b = inout, bytes;
    MPI_Type_size(*type, &bytes);
    CHECK(bytes == sizeof(int));
    for (int i = 0; i < *count; i++)
        b[i] = a[i] > b[i] ? a[i] : b[i];
}

static void communicators(void)
{
    MPI_Comm half, twin, alone;
    MPI_Group world, odd, both;
    int n, r, result, ranks[1] = {0}, range[1][3] = {{1, size - 1, 2}}, length;
    char name[MPI_MAX_OBJECT_NAME];

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_size(half, &n);
    MPI_Comm_rank(half, &r);
    CHECK(n == (size + 1 - rank % 2) / 2 && r == n - 1 - rank / 2);
    MPI_Comm_set_name(half, "half");
    MPI_Comm_get_name(half, name, &length);
    CHECK(length == 4 && strcmp(name, "half") == 0);
    MPI_Comm_dup(half, &twin);
    MPI_Comm_compare(half, twin, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_free(&half);
    MPI_Comm_free(&twin);
    CHECK(half == MPI_COMM_NULL && twin == MPI_COMM_NULL);
    MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &alone);
    CHECK(alone == MPI_COMM_NULL);

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, size > 1, range, &odd);
    MPI_Group_size(odd, &n);
    CHECK(n == size / 2);
    MPI_Group_union(odd, world, &both);
    MPI_Group_compare(both, world, &result);
    CHECK(result == (size > 1 ? MPI_SIMILAR : MPI_IDENT));
    MPI_Group_translate_ranks(both, 1, ranks, world, &r);
    CHECK(r == (size > 1 ? 1 : 0));
    MPI_Group_free(&both);
    MPI_Group_free(&odd);
    MPI_Group_free(&world);
    CHECK(world == MPI_GROUP_NULL);
}

static void attributes(void)
{
    int keyval, flag, *upper, value;
    char *found;
    MPI_Comm twin;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &flag);
    CHECK(flag && *upper >= 32767);
    MPI_Comm_create_keyval(copy, delete, &keyval, &copies);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &value);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    CHECK(copies == 1);
    MPI_Comm_get_attr(twin, keyval, &found, &flag);
    CHECK(flag && found == (char *)&value + 1);
    MPI_Comm_free(&twin);
    CHECK(deletes == 1);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    CHECK(deletes == 2);
    MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &found, &flag);
    CHECK(!flag);
    MPI_Comm_free_keyval(&keyval);
    CHECK(keyval == MPI_KEYVAL_INVALID);
}

static void what_finds_nothing_leaves_the_status(void)
{
    MPI_Status status = {.MPI_SOURCE = 71, .MPI_TAG = 72, .MPI_ERROR = 73};
    MPI_Message message;
    MPI_Request request;
    int flags[4] = {1, 1, 1, 1}, out = 5, in = 0;

    MPI_Iprobe(rank, 99, MPI_COMM_WORLD, &flags[0], &status);
    MPI_Improbe(rank, 99, MPI_COMM_WORLD, &flags[1], &message, &status);
    MPI_Irecv(&in, 1, MPI_INT, rank, 99, MPI_COMM_WORLD, &request);
    MPI_Test(&request, &flags[2], &status);
    MPI_Request_get_status(request, &flags[3], &status);
    CHECK(!flags[0] && !flags[1] && !flags[2] && !flags[3]);
    CHECK(status.MPI_SOURCE == 71 && status.MPI_TAG == 72 && status.MPI_ERROR == 73);
    MPI_Send(&out, 1, MPI_INT, rank, 99, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    CHECK(in == 5 && status.MPI_SOURCE == rank && status.MPI_TAG == 99 && status.MPI_ERROR == 73);
}

static void errors_and_infos(void)
{
    MPI_Errhandler mine;
    MPI_Info info;
    char text[MPI_MAX_ERROR_STRING], value[16];
    int length, class, code, flag, n;

    MPI_Comm_create_errhandler(handle_error, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    MPI_Errhandler_free(&mine);
    code = MPI_Send(&n, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    CHECK(errors == 1 && code == last_code);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_RANK);
    MPI_Error_string(code, text, &length);
    CHECK(strlen(text) == (size_t)length && length > 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Send(&n, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_COUNT && errors == 1);
    code = MPI_Recv(&n, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TYPE);
    /* A result without a place is told before anything is done, and is no error of the communicator. */
    code = MPI_Comm_dup(MPI_COMM_SELF, NULL);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_ARG);
    /* What the launcher refuses, or cannot do, is an error of MPI_COMM_SELF. */
    code = MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Unpublish_name("a service", MPI_INFO_NULL, "a port");
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_SERVICE);
#ifdef MPIX_STREAM_NULL
    /* A function that is not there says so through the error handler. */
    code = MPIX_Send_enqueue(&n, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_OTHER);
#endif
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);

    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "a value");
    MPI_Info_get_nkeys(info, &n);
    MPI_Info_get(info, "key", 4, value, &flag);
    CHECK(n == 1 && flag && strcmp(value, "a va") == 0);
    MPI_Info_get(info, "none", 4, value, &flag);
    CHECK(!flag);
    MPI_Info_free(&info);
    CHECK(info == MPI_INFO_NULL);
}

static void large_counts(void)
{
    const MPI_Count counts[] = {60, 0x3654321f71234567, 0x7654321ff1234567, 0x7fffffffffffffff};
    MPI_Status status;
    MPI_Count count;
    int i, flag;

    for (i = 0; i < 8; i++) {
        MPI_Status_set_elements_x(&status, MPI_BYTE, counts[i / 2]);
        MPI_Status_set_cancelled(&status, i % 2);
        MPI_Get_elements_x(&status, MPI_BYTE, &count);
        MPI_Test_cancelled(&status, &flag);
        CHECK(count == counts[i / 2] && flag == i % 2);
    }
}

static void types_and_messages(void)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    int from[12], into[6], n, flag, done, at[4], count, position = 0;
    char packed[64], *buffer;
    void *detached;
    MPI_Datatype column, pair, types[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Aint lb, extent, places[2];
    struct {
        int i;
        double d;
    } mixed = {rank, rank + 0.5}, other;
    int lengths[2] = {1, 1};
    MPI_Request requests[4];
    MPI_Status statuses[4], status;
    MPI_Message message;

    for (int i = 0; i < 12; i++)
        from[i] = 100 * rank + i;
    MPI_Type_vector(6, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_get_extent(column, &lb, &extent);
    MPI_Type_size(column, &n);
    CHECK(lb == 0 && extent == 11 * (MPI_Aint)sizeof(int) && n == 6 * (int)sizeof(int));
    MPI_Sendrecv(from, 1, column, next, 1, into, 6, MPI_INT, before, 1, MPI_COMM_WORLD, &status);
    for (int i = 0; i < 6; i++)
        CHECK(into[i] == 100 * before + 2 * i);
    MPI_Get_count(&status, MPI_INT, &n);
    CHECK(n == 6);
    MPI_Get_count(&status, column, &n);
    CHECK(n == 1);
    MPI_Type_free(&column);
    CHECK(column == MPI_DATATYPE_NULL);

    MPI_Get_address(&mixed.i, &places[0]);
    MPI_Get_address(&mixed.d, &places[1]);
    places[1] -= places[0];
    places[0] = 0;
    MPI_Type_create_struct(2, lengths, places, types, &pair);
    MPI_Type_commit(&pair);
    MPI_Isend(&mixed, 1, pair, next, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Mprobe(before, 2, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(&other, 1, pair, &message, &status);
    CHECK(other.i == before && other.d == before + 0.5 && message == MPI_MESSAGE_NULL);
    MPI_Get_elements(&status, pair, &n);
    CHECK(n == 2);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Pack(&mixed, 1, pair, packed, sizeof packed, &position, MPI_COMM_WORLD);
    CHECK(position == (int)(sizeof(int) + sizeof(double)));
    position = 0;
    MPI_Unpack(packed, sizeof packed, &position, &other, 1, pair, MPI_COMM_WORLD);
    CHECK(other.i == rank && other.d == rank + 0.5);
    MPI_Type_free(&pair);

    /* Several requests at once. */
    for (int i = 0; i < 4; i++)
        MPI_Irecv(&into[i], 1, MPI_INT, before, 10 + i, MPI_COMM_WORLD, &requests[i]);
    MPI_Testall(4, requests, &flag, statuses);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 3; i >= 0; i--)
        MPI_Send(&from[i], 1, MPI_INT, next, 10 + i, MPI_COMM_WORLD);
    MPI_Waitany(4, requests, &n, &status);
    CHECK(n >= 0 && n < 4 && requests[n] == MPI_REQUEST_NULL && status.MPI_TAG == 10 + n);
    for (done = 1; done < 4; done += count) {
        MPI_Waitsome(4, requests, &count, at, statuses);
        CHECK(count >= 1);
        for (int i = 0; i < count; i++)
            CHECK(statuses[i].MPI_TAG == 10 + at[i]);
    }
    MPI_Waitsome(4, requests, &count, at, statuses);
    CHECK(count == MPI_UNDEFINED);
    for (int i = 0; i < 4; i++)
        CHECK(into[i] == 100 * before + i);

    /* Buffered, persistent and cancelled messages. */
    buffer = malloc(1024 + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(buffer, 1024 + MPI_BSEND_OVERHEAD);
    MPI_Bsend(from, 12, MPI_INT, next, 20, MPI_COMM_WORLD);
    MPI_Recv(into, 3, MPI_INT, MPI_PROC_NULL, 20, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    {
        int all[12];
        MPI_Recv(all, 12, MPI_INT, before, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(all[11] == 100 * before + 11);
    }
    MPI_Buffer_detach(&detached, &n);
    CHECK(detached == buffer && n == 1024 + MPI_BSEND_OVERHEAD);
    free(buffer);
    MPI_Send_init(&from[5], 1, MPI_INT, next, 21, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&into[5], 1, MPI_INT, before, 21, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        into[5] = -1;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(into[5] == 100 * before + 5);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Irecv(into, 1, MPI_INT, before, 22, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
}

static void collectives(void)
{
    int sum, mine = rank + 1, all = size * (size + 1) / 2, *list, *counts, *displs, root = size - 1;
    double values[2] = {rank, -rank}, results[2];
    MPI_Op op;
    MPI_Request request;

    list = malloc(sizeof *list * (size + 1) * size);
    counts = malloc(sizeof *counts * size);
    displs = malloc(sizeof *displs * size);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == all);
    sum = mine;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == all);
    MPI_Reduce(values, results, 2, MPI_DOUBLE, MPI_MAX, root, MPI_COMM_WORLD);
    CHECK(rank != root || (results[0] == size - 1 && results[1] == 0));
    MPI_Op_create(larger, 1, &op);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(sum == size);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == (rank + 1) * (rank + 2) / 2);
    sum = rank == root ? 77 : 0;
    MPI_Bcast(&sum, 1, MPI_INT, root, MPI_COMM_WORLD);
    CHECK(sum == 77);
    MPI_Allgather(&rank, 1, MPI_INT, list, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        CHECK(list[i] == i);
    for (int i = 0; i < size; i++)
        list[size + i] = 100 * rank + i;
    MPI_Alltoall(list + size, 1, MPI_INT, list, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        CHECK(list[i] == 100 * i + rank);

    /* Rank r gives r + 1 numbers. */
    for (int i = 0; i < size; i++) {
        counts[i] = i + 1;
        displs[i] = i * (i + 1) / 2;
    }
    {
        int *own = malloc(sizeof *own * (rank + 1));
        for (int i = 0; i <= rank; i++)
            own[i] = rank;
        memset(list, 0xff, sizeof *list * all);
        MPI_Gatherv(own, rank + 1, MPI_INT, list, counts, displs, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; rank == root && i < size; i++)
            CHECK(list[displs[i]] == i && list[displs[i] + i] == i);
        memset(list, 0xff, sizeof *list * all);
        MPI_Allgatherv(own, rank + 1, MPI_INT, list, counts, displs, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < size; i++)
            CHECK(list[displs[i]] == i && list[displs[i] + i] == i);
        memset(own, 0xff, sizeof *own * (rank + 1));
        MPI_Scatterv(list, counts, displs, MPI_INT, own, rank + 1, MPI_INT, root, MPI_COMM_WORLD);
        CHECK(own[0] == rank && own[rank] == rank);
        free(own);
    }
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == all && request == MPI_REQUEST_NULL);
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 2; i++) {
        sum = 0;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(sum == all);
    }
    MPI_Request_free(&request);
    free(list);
    free(counts);
    free(displs);
}

int main(int argc, char **argv)
{
    int provided;
    void *memory;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE)
        return 4;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(MPI_Wtime() >= 0 && MPI_Wtick() > 0);
    MPI_Alloc_mem(64, MPI_INFO_NULL, &memory);
    CHECK(memory != NULL);
    MPI_Free_mem(memory);
    communicators();
    attributes();
    what_finds_nothing_leaves_the_status();
    errors_and_infos();
    large_counts();
    types_and_messages();
    collectives();
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d: functions ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
