/* Functions of the program that MPI calls, each of which calls MPI again: with messages, objects
 * and collective operations. Prints "rank N: callbacks ok". */
#include "check.h"

#include <string.h>

static int rank, size, calls;

/* Uses most of what a call could hold a lock of. */
static void use_mpi(void)
{
    int out = 42 + calls, in = 0, count, flag;
    MPI_Request request;
    MPI_Status status;
    MPI_Datatype pair;
    MPI_Comm twin;
    MPI_Info info;
    char name[MPI_MAX_OBJECT_NAME], text[MPI_MAX_ERROR_STRING];

    calls++;
    CHECK(MPI_Irecv(&in, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &request) == MPI_SUCCESS);
    CHECK(MPI_Send(&out, 1, MPI_INT, 0, 5, MPI_COMM_SELF) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && in == out && status.MPI_TAG == 5);
    CHECK(MPI_Get_count(&status, MPI_INT, &count) == MPI_SUCCESS && count == 1);
    CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status) == MPI_SUCCESS);
    in = 0;
    CHECK(MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF) == MPI_SUCCESS && in == out);
    CHECK(MPI_Type_contiguous(2, MPI_INT, &pair) == MPI_SUCCESS);
    CHECK(MPI_Type_commit(&pair) == MPI_SUCCESS && MPI_Type_free(&pair) == MPI_SUCCESS);
    CHECK(MPI_Comm_dup(MPI_COMM_SELF, &twin) == MPI_SUCCESS);
    CHECK(MPI_Comm_get_name(twin, name, &count) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&twin) == MPI_SUCCESS && twin == MPI_COMM_NULL);
    CHECK(MPI_Info_create(&info) == MPI_SUCCESS && MPI_Info_free(&info) == MPI_SUCCESS);
    CHECK(MPI_Error_string(MPI_ERR_RANK, text, &count) == MPI_SUCCESS && count > 0);
}

static void sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int bytes, *a = in, *b = inout;

    use_mpi();
    CHECK(MPI_Type_size(*type, &bytes) == MPI_SUCCESS && bytes == sizeof(int));
    for (int i = 0; i < *count; i++)
        b[i] += a[i];
}

static void operations(void)
{
    int one[3] = {rank, 1, 2}, all[3], before = calls, expected = size * (size - 1) / 2;
    MPI_Op op;
    MPI_Request request;

    CHECK(MPI_Op_create(sum, 1, &op) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(one, all, 3, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(all[0] == expected && all[1] == size && all[2] == 2 * size);
    memset(all, 0, sizeof all);
    CHECK(MPI_Iallreduce(one, all, 3, MPI_INT, op, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && all[0] == expected);
    CHECK(MPI_Scan(one, all, 3, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(all[0] == rank * (rank + 1) / 2);
    /* The operation stays until the request that uses it has ended. */
    CHECK(MPI_Ireduce(one, all, 3, MPI_INT, op, 0, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    CHECK(MPI_Op_free(&op) == MPI_SUCCESS && op == MPI_OP_NULL);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(rank != 0 || all[0] == expected);
    one[0] = 3, one[1] = 4;
    CHECK(MPI_Op_create(sum, 0, &op) == MPI_SUCCESS);
    CHECK(MPI_Reduce_local(&one[0], &one[1], 1, MPI_INT, op) == MPI_SUCCESS && one[1] == 7);
    CHECK(MPI_Op_free(&op) == MPI_SUCCESS);
    CHECK(calls > before);
}

static void handle(MPI_Comm *comm, int *code, ...)
{
    int class;
    MPI_Errhandler own;

    use_mpi();
    CHECK(MPI_Error_class(*code, &class) == MPI_SUCCESS && class == MPI_ERR_RANK);
    /* The handler itself, and an error within it. */
    CHECK(MPI_Comm_get_errhandler(*comm, &own) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(MPI_Send(&class, 1, MPI_INT, size + 9, 0, *comm) != MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(*comm, own) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_free(&own) == MPI_SUCCESS);
}

static void handlers(void)
{
    MPI_Errhandler handler;
    MPI_Comm comm;
    int before = calls, class;

    CHECK(MPI_Comm_create_errhandler(handle, &handler) == MPI_SUCCESS);
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(comm, handler) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    CHECK(MPI_Error_class(MPI_Send(&before, 1, MPI_INT, size, 0, comm), &class) == MPI_SUCCESS);
    CHECK(class == MPI_ERR_RANK && calls == before + 1);
    CHECK(MPI_Comm_call_errhandler(comm, MPI_ERR_RANK) == MPI_SUCCESS && calls == before + 2);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    void *same;
    int found;

    (void)extra;
    use_mpi();
    CHECK(MPI_Comm_get_attr(comm, keyval, &same, &found) == MPI_SUCCESS && found && same == in);
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int n, total;

    (void)keyval, (void)value, (void)extra;
    use_mpi();
    CHECK(MPI_Comm_size(comm, &n) == MPI_SUCCESS);
    /* The communicator can still be used. */
    CHECK(MPI_Allreduce(&n, &total, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && total == n * n);
    return MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag)
{
    int bytes;

    (void)keyval, (void)extra;
    use_mpi();
    CHECK(MPI_Type_size(type, &bytes) == MPI_SUCCESS && bytes == 3 * sizeof(int));
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype type, int keyval, void *value, void *extra)
{
    int bytes;

    (void)keyval, (void)value, (void)extra;
    use_mpi();
    CHECK(MPI_Type_size(type, &bytes) == MPI_SUCCESS && bytes == 3 * sizeof(int));
    return MPI_SUCCESS;
}

/* A refusal to copy or delete is the call's error. */
static int refuse(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value;
    use_mpi();
    return *(int *)extra;
}

static void attributes(void)
{
    int keyval, refusing, before = calls, answer = MPI_ERR_OTHER, n;
    void *value;
    MPI_Comm first, second;
    MPI_Datatype triple, twin;

    CHECK(MPI_Comm_create_keyval(copy, delete, &keyval, NULL) == MPI_SUCCESS);
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &first) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(first, keyval, &keyval) == MPI_SUCCESS);
    CHECK(MPI_Comm_dup(first, &second) == MPI_SUCCESS && calls == before + 1);
    CHECK(MPI_Comm_get_attr(second, keyval, &value, &n) == MPI_SUCCESS && n);
    CHECK(value == (char *)&keyval + 1);
    CHECK(MPI_Comm_set_attr(second, keyval, NULL) == MPI_SUCCESS && calls == before + 2);
    CHECK(MPI_Comm_delete_attr(second, keyval) == MPI_SUCCESS && calls == before + 3);
    CHECK(MPI_Comm_free(&second) == MPI_SUCCESS && calls == before + 3);
    CHECK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &refusing, &answer) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(first, refusing, NULL) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(first, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(first, refusing) != MPI_SUCCESS);
    answer = MPI_SUCCESS;
    CHECK(MPI_Comm_free_keyval(&refusing) == MPI_SUCCESS && MPI_Comm_free_keyval(&keyval) == MPI_SUCCESS);
    before = calls;
    CHECK(MPI_Comm_free(&first) == MPI_SUCCESS && calls == before + 2);

    before = calls;
    CHECK(MPI_Type_create_keyval(copy_type, delete_type, &keyval, NULL) == MPI_SUCCESS);
    CHECK(MPI_Type_contiguous(3, MPI_INT, &triple) == MPI_SUCCESS);
    CHECK(MPI_Type_set_attr(triple, keyval, NULL) == MPI_SUCCESS);
    CHECK(MPI_Type_dup(triple, &twin) == MPI_SUCCESS && calls == before + 1);
    CHECK(MPI_Type_free(&twin) == MPI_SUCCESS && calls == before + 2);
    CHECK(MPI_Type_free(&triple) == MPI_SUCCESS && calls == before + 3);
    CHECK(MPI_Type_free_keyval(&keyval) == MPI_SUCCESS);
}

static int query(void *state, MPI_Status *status)
{
    use_mpi();
    CHECK(MPI_Status_set_elements(status, MPI_INT, *(int *)state) == MPI_SUCCESS);
    CHECK(MPI_Status_set_cancelled(status, 0) == MPI_SUCCESS);
    status->MPI_SOURCE = 7;
    status->MPI_TAG = 8;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    use_mpi();
    *(int *)state = -1;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    use_mpi();
    *(int *)state = complete ? 200 : 100;
    return MPI_SUCCESS;
}

static void requests(void)
{
    int state = 3, count, flag, index;
    MPI_Request request, both[2];
    MPI_Status status;

    CHECK(MPI_Grequest_start(query, release, cancel, &state, &request) == MPI_SUCCESS);
    CHECK(MPI_Test(&request, &flag, &status) == MPI_SUCCESS && !flag);
    CHECK(MPI_Cancel(&request) == MPI_SUCCESS && state == 100);
    CHECK(MPI_Grequest_complete(request) == MPI_SUCCESS);
    CHECK(MPI_Request_get_status(request, &flag, &status) == MPI_SUCCESS && flag);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && request == MPI_REQUEST_NULL && state == -1);
    CHECK(MPI_Get_elements(&status, MPI_INT, &count) == MPI_SUCCESS && count == 100);
    CHECK(status.MPI_SOURCE == 7 && status.MPI_TAG == 8);
    /* Beside another request, in a call for any. */
    state = 4;
    CHECK(MPI_Grequest_start(query, release, cancel, &state, &both[0]) == MPI_SUCCESS);
    CHECK(MPI_Irecv(&flag, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &both[1]) == MPI_SUCCESS);
    CHECK(MPI_Grequest_complete(both[0]) == MPI_SUCCESS);
    CHECK(MPI_Waitany(2, both, &index, &status) == MPI_SUCCESS && index == 0 && state == -1);
    CHECK(MPI_Send(&rank, 1, MPI_INT, 0, 6, MPI_COMM_SELF) == MPI_SUCCESS);
    CHECK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE) == MPI_SUCCESS && flag == rank);
}

static int last_words(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int flag = 1;

    (void)comm, (void)keyval, (void)value, (void)extra;
    CHECK(MPI_Finalized(&flag) == MPI_SUCCESS && !flag);
    use_mpi();
    printf("rank %d: callbacks ok\n", rank);
    fflush(stdout);
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int keyval;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    operations();
    handlers();
    attributes();
    requests();
    /* The end deletes the attributes of MPI_COMM_SELF first. */
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last_words, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    MPI_Finalize();
    return 0;
}
