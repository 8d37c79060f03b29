/* Errors of requests go to the handler of their communicator, also when that was freed. Prints
 * "rank N: handlers ok". */
#include "check.h"


static MPI_Comm called_for = MPI_COMM_NULL;
static int calls;

static void note(MPI_Comm *comm, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    CHECK(class == MPI_ERR_TRUNCATE || class == MPI_ERR_IN_STATUS || class == MPI_ERR_REQUEST);
    called_for = *comm;
    calls++;
}

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* A receive of this rank's own message, which is too long for it. */
static MPI_Request too_short(MPI_Comm comm, int rank, int *room)
{
    int data[2] = {1, 2};
    MPI_Request request;

    CHECK(MPI_Irecv(room, 1, MPI_INT, rank, 7, comm, &request) == MPI_SUCCESS);
    CHECK(MPI_Send(data, 2, MPI_INT, rank, 7, comm) == MPI_SUCCESS);
    return request;
}

int main(int argc, char **argv)
{
    int rank, room, index, flag, count, indices[1];
    MPI_Comm own, returning;
    MPI_Errhandler handler;
    MPI_Request request, all[2];
    MPI_Status status, statuses[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_dup(MPI_COMM_WORLD, &returning);
    MPI_Comm_create_errhandler(note, &handler);
    MPI_Comm_set_errhandler(own, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_set_errhandler(returning, MPI_ERRORS_RETURN);

    /* MPI_COMM_WORLD still has MPI_ERRORS_ARE_FATAL. */
    request = too_short(own, rank, &room);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPI_ERR_TRUNCATE);
    CHECK(calls == 1 && called_for == own && request == MPI_REQUEST_NULL);

    request = too_short(returning, rank, &room);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPI_ERR_TRUNCATE);
    request = too_short(returning, rank, &room);
    do {
        index = MPI_Test(&request, &flag, &status);
    } while (index == MPI_SUCCESS && !flag);
    CHECK(class_of(index) == MPI_ERR_TRUNCATE);
    all[0] = MPI_REQUEST_NULL;
    all[1] = too_short(returning, rank, &room);
    CHECK(class_of(MPI_Waitany(2, all, &index, &status)) == MPI_ERR_TRUNCATE && index == 1);
    all[1] = too_short(returning, rank, &room);
    CHECK(class_of(MPI_Waitall(2, all, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
    all[0] = too_short(returning, rank, &room);
    CHECK(class_of(MPI_Waitsome(1, all, &count, indices, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(count == 1 && indices[0] == 0 && calls == 1);

    /* A message that was matched belongs to its communicator, too. */
    {
        int data[2] = {1, 2};
        MPI_Message message;
        MPI_Isend(data, 2, MPI_INT, rank, 9, returning, &all[0]);
        MPI_Mprobe(rank, 9, returning, &message, MPI_STATUS_IGNORE);
        CHECK(class_of(MPI_Mrecv(&room, -1, MPI_INT, &message, &status)) == MPI_ERR_COUNT);
        CHECK(class_of(MPI_Mrecv(&room, 1, MPI_INT, &message, &status)) == MPI_ERR_TRUNCATE);
        CHECK(message == MPI_MESSAGE_NULL);
        MPI_Wait(&all[0], MPI_STATUS_IGNORE);
    }

    /* A persistent request that is active must not be started. */
    MPI_Recv_init(&room, 1, MPI_INT, rank, 8, own, &request);
    MPI_Start(&request);
    CHECK(class_of(MPI_Start(&request)) == MPI_ERR_REQUEST && calls == 2 && called_for == own);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);

    /* The communicator goes before its operation. */
    called_for = MPI_COMM_NULL;
    request = too_short(own, rank, &room);
    MPI_Comm_free(&own);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPI_ERR_TRUNCATE);
    CHECK(calls == 3 && called_for != MPI_COMM_NULL);

    /* The error of a status is the program's, whatever it says. */
    status.MPI_SOURCE = MPI_ANY_SOURCE;
    status.MPI_TAG = MPI_ANY_TAG;
    MPI_Status_set_error(&status, 333);
    MPI_Status_set_elements(&status, MPI_INT, 2);
    MPI_Status_set_cancelled(&status, 0);
    MPI_Status_get_error(&status, &count);
    CHECK(count == 333 && status.MPI_ERROR == 333);

    MPI_Comm_free(&returning);
    printf("rank %d: handlers ok\n", rank);
    MPI_Finalize();
    return 0;
}
