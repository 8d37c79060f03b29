/* MPICH's extensions of plain meaning: layouts of datatypes, values in hexadecimal, functions with a state, and what
 * is known of a request. Prints "rank N: extensions ok". */
#include "check.h"

#include <stddef.h>
#include <string.h>

static int destroyed, errors, told_code;
static MPI_Comm told_comm;

static void destroy(void *state)
{
    int flag;

    /* Nothing is locked: MPI may be called. */
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && flag);
    MPI_Comm_rank(MPI_COMM_SELF, &flag);
    destroyed += *(int *)state;
}

static void on_error(MPI_Comm comm, int code, void *state)
{
    told_comm = comm;
    told_code = code;
    errors += *(int *)state;
}

static void on_win_error(MPI_Win win, int code, void *state)
{
    (void)win;
    (void)code;
    errors += *(int *)state;
}

static void on_file_error(MPI_File file, int code, void *state)
{
    (void)code;
    CHECK(file == MPI_FILE_NULL);
    errors += *(int *)state;
}

static void on_session_error(MPI_Session session, int code, void *state)
{
    (void)session;
    (void)code;
    errors += *(int *)state;
}

/* inout = in + inout + state, of integers. */
static void combine(void *in, void *inout, MPI_Count count, MPI_Datatype type, void *state)
{
    CHECK(type == MPI_INT);
    for (MPI_Count n = 0; n < count; n++)
        ((int *)inout)[n] += ((int *)in)[n] + (state == NULL ? 0 : *(int *)state);
}

/* The runs of a type: as they are packed, and the same in pieces. */
static void look_at(MPI_Datatype type, const char *memory, int runs)
{
    MPI_Count size, count, bytes, got;
    MPIX_Iov all[64], one;
    char packed[1024];
    int at = 0, position = 0;

    MPI_Type_size_c(type, &size);
    CHECK(MPIX_Type_iov_len(type, size, &count, &bytes) == MPI_SUCCESS);
    CHECK(count == runs && bytes == size);
    CHECK(MPIX_Type_iov(type, 0, all, 64, &got) == MPI_SUCCESS && got == runs);
    MPI_Pack(memory, 1, type, packed, sizeof packed, &at, MPI_COMM_SELF);
    for (int n = 0; n < runs; n++) {
        CHECK(all[n].iov_len > 0);
        CHECK(memcmp(memory + (MPI_Aint)all[n].iov_base, packed + position, (size_t)all[n].iov_len) == 0);
        position += (int)all[n].iov_len;
        CHECK(MPIX_Type_iov(type, n, &one, 1, &got) == MPI_SUCCESS && got == 1);
        CHECK(one.iov_base == all[n].iov_base && one.iov_len == all[n].iov_len);
        CHECK(MPIX_Type_iov_len(type, position, &count, &bytes) == MPI_SUCCESS);
        CHECK(count == n + 1 && bytes == position);
        CHECK(MPIX_Type_iov_len(type, position - 1, &count, &bytes) == MPI_SUCCESS);
        CHECK(count == n && bytes == position - all[n].iov_len);
    }
    CHECK(position == at);
    CHECK(MPIX_Type_iov(type, runs, &one, 1, &got) == MPI_SUCCESS && got == 0);
    CHECK(MPIX_Type_iov(type, 0, NULL, 0, &got) == MPI_SUCCESS && got == 0);
}

static void layouts(void)
{
    struct Pair {
        int first;
        double second;
        char third;
    };
    char memory[1024];
    int lengths[4] = {2, 1, 3, 1}, places[4] = {0, 2, 5, 9}, parts[3] = {1, 1, 1};
    MPI_Aint at[3] = {offsetof(struct Pair, first), offsetof(struct Pair, second), offsetof(struct Pair, third)};
    MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, type;

    for (int n = 0; n < (int)sizeof memory; n++)
        memory[n] = (char)(n * 7 + n / 256);
    look_at(MPI_INT, memory, 1);
    MPI_Type_vector(5, 2, 4, MPI_INT, &type);
    MPI_Type_commit(&type);
    look_at(type, memory, 5);
    MPI_Type_free(&type);
    MPI_Type_create_struct(3, parts, at, types, &type);
    MPI_Type_commit(&type);
    /* The last two parts are neighbours. */
    look_at(type, memory, 2);
    MPI_Type_free(&type);
    /* The first two blocks are neighbours. */
    MPI_Type_indexed(4, lengths, places, MPI_SHORT, &type);
    MPI_Type_commit(&type);
    look_at(type, memory, 3);
    MPI_Type_free(&type);
}

static void states(int rank, int size)
{
    int base = 10, hundred = 100, number = rank + 1, result = 0, class;
    int right = size * (size + 1) / 2 + (size - 1) * base;
    MPI_Errhandler handler;
    MPI_Request request;
    MPI_Session session;
    MPI_Comm comm;
    MPI_Win win;
    MPI_Op op;

    CHECK(MPIX_Op_create_x(combine, destroy, 0, &base, &op) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(&number, &result, 1, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(result == right);
    result = 0;
    MPI_Iallreduce(&number, &result, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
    CHECK(MPI_Op_free(&op) == MPI_SUCCESS && op == MPI_OP_NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(result == right);
    /* One that is freed meanwhile is destroyed with the next. */
    CHECK(MPIX_Op_create_x(combine, destroy, 1, &hundred, &op) == MPI_SUCCESS);
    MPI_Op_free(&op);
    CHECK(destroyed == 110);
    CHECK(MPIX_Op_create_x(combine, NULL, 1, NULL, &op) == MPI_SUCCESS && MPI_Op_free(&op) == MPI_SUCCESS);
    CHECK(destroyed == 110);

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    CHECK(MPIX_Comm_create_errhandler_x(on_error, destroy, &base, &handler) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    CHECK(handler == MPI_ERRHANDLER_NULL && destroyed == 110);
    CHECK(MPI_Send(&number, 1, MPI_INT, size, 0, comm) == told_code && told_comm == comm && errors == 10);
    MPI_Error_class(told_code, &class);
    CHECK(class == MPI_ERR_RANK);
    MPI_Comm_free(&comm);

    CHECK(MPIX_Win_create_errhandler_x(on_win_error, destroy, &hundred, &handler) == MPI_SUCCESS);
    CHECK(destroyed == 110);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_call_errhandler(win, MPI_ERR_WIN);
    CHECK(errors == 110);
    MPI_Win_free(&win);
    MPI_Errhandler_free(&handler);
    CHECK(destroyed == 220);

    CHECK(MPIX_File_create_errhandler_x(on_file_error, destroy, &base, &handler) == MPI_SUCCESS);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_FILE);
    CHECK(errors == 120);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    CHECK(destroyed == 230);

    CHECK(MPIX_Session_create_errhandler_x(on_session_error, destroy, &base, &handler) == MPI_SUCCESS);
    MPI_Session_init(MPI_INFO_NULL, handler, &session);
    MPI_Session_call_errhandler(session, MPI_ERR_SESSION);
    CHECK(errors == 130);
    MPI_Session_finalize(&session);
    MPI_Errhandler_free(&handler);
    CHECK(destroyed == 240);
}

int main(int argc, char **argv)
{
    int rank, size, flag, number = 0;
    unsigned char bytes[4] = {0x00, 0xfe, 0x1a, 0x7b};
    char value[16];
    MPI_Info info;
    MPI_Request request;

    MPI_Info_create(&info);
    CHECK(MPIX_Info_set_hex(info, "address", bytes, sizeof bytes) == MPI_SUCCESS);
    MPI_Info_get(info, "address", 15, value, &flag);
    CHECK(flag && strcmp(value, "00FE1A7B") == 0);
    CHECK(MPIX_Info_set_hex(info, "address", bytes, 0) != MPI_SUCCESS);
    CHECK(MPIX_Info_set_hex(info, "address", bytes, 513) != MPI_SUCCESS);
    MPI_Info_free(&info);
    for (int kind = MPIX_GPU_SUPPORT_CUDA; kind <= MPIX_GPU_SUPPORT_HIP; kind++)
        CHECK(MPIX_GPU_query_support(kind, &flag) == MPI_SUCCESS && flag == 0);
    CHECK(MPIX_GPU_query_support(7, &flag) != MPI_SUCCESS);
    CHECK(MPIX_Request_is_complete(MPI_REQUEST_NULL));

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    layouts();
    states(rank, size);
    MPI_Irecv(&number, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    CHECK(MPIX_Request_is_complete(request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Irecv(&number, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &request);
    CHECK(!MPIX_Request_is_complete(request));
    MPI_Send(&rank, 1, MPI_INT, 0, 7, MPI_COMM_SELF);
    /* It makes no progress; what was there at once is known. */
    for (MPI_Test(&request, &flag, MPI_STATUS_IGNORE); !flag;)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    CHECK(number == rank && MPIX_Request_is_complete(request));
    printf("rank %d: extensions ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
