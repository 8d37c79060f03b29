/* Finds operations that have failed: a test and a look at a request that is over with an error, a
   message that ends within an element, a block of another length. Prints "rank N: failures ok". */
#include "check.h"

static int class_of(int code)
{
    int class = -1;

    MPI_Error_class(code, &class);
    return class;
}

int main(int argc, char **argv)
{
    int rank, flag, code, two[2] = {1, 2}, one[1], spread[3], sent[10] = {0}, all[40], tries;
    MPI_Comm self = MPI_COMM_SELF, world = MPI_COMM_WORLD;
    MPI_Datatype gaps;
    MPI_Request request;
    MPI_Status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);

    MPI_Irecv(one, 1, MPI_INT, 0, 4, self, &request);
    flag = 7;
    CHECK(MPI_Test(&request, &flag, &status) == MPI_SUCCESS && flag == 0);
    MPI_Send(two, 2, MPI_INT, 0, 4, self);
    flag = 0;
    code = MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE && flag);
    flag = 0;
    code = MPI_Test(&request, &flag, &status);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE && flag && request == MPI_REQUEST_NULL);
    CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 4);

    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Irecv(spread, 1, gaps, 0, 5, self, &request);
    MPI_Send(two, 3, MPI_CHAR, 0, 5, self);
    CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_TYPE);
    MPI_Type_free(&gaps);

    /* Rank 0 sends less than everybody expects, itself too. */
    code = MPI_Allgather(sent, rank == 0 ? 1 : 10, MPI_INT, all, 10, MPI_INT, world);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE);
    for (tries = 0; tries < 3; tries++) {
        code = MPI_Alltoall(sent, 2, MPI_INT, all, 2, MPI_INT, world);
        CHECK(code == MPI_SUCCESS);
    }
    MPI_Finalize();
    printf("rank %d: failures ok\n", rank);
    return 0;
}
