/* Ports that are wrong, closed, or at which nobody accepts: errors that say so, at all processes of
 * the group, after which everything goes on. */
#include "check.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME], wrong[MPI_MAX_PORT_NAME], text[MPI_MAX_ERROR_STRING];
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Info limit;
    int rank, length, code, i;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Info_create(&limit);
    MPI_Info_set(limit, "timeout", "1");

    /* Not a name; a name with another character. */
    code = MPI_Comm_connect("tcp://here", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    CHECK(class_of(code) == MPI_ERR_PORT);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "netmod-port:"));
    CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
    strcpy(wrong, port);
    wrong[strlen(wrong) - 9] ^= 1;
    CHECK(class_of(MPI_Comm_connect(wrong, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Close_port(wrong)) == MPI_ERR_PORT);

    /* A root that is none; an intercommunicator is not a group. */
    CHECK(class_of(MPI_Comm_accept(port, limit, 2, MPI_COMM_WORLD, &inter)) == MPI_ERR_ROOT);

    /* Nobody comes; nobody accepts. */
    code = MPI_Comm_accept(port, limit, 0, MPI_COMM_WORLD, &inter);
    CHECK(code != MPI_SUCCESS);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "nobody has connected"));
    if (rank == 0)
        MPI_Recv(wrong, sizeof wrong, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        code = MPI_Comm_connect(wrong, limit, 0, MPI_COMM_SELF, &inter);
        CHECK(code != MPI_SUCCESS);
        MPI_Error_string(code, text, &length);
        CHECK(strstr(text, "MPI_Comm_accept"));
    }
    MPI_Barrier(MPI_COMM_WORLD);

    /* It is closed meanwhile. */
    CHECK(MPI_Close_port(port) == MPI_SUCCESS);
    CHECK(class_of(MPI_Close_port(port)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(class_of(MPI_Comm_connect(wrong, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    MPI_Barrier(MPI_COMM_WORLD);

    /* A socket between two processes, of which the other end is not read; and one that is none. */
    CHECK(class_of(MPI_Comm_join(-1, &inter)) == MPI_ERR_ARG);
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(write(pair[1], "something else, and more of it", 30) == 30);
    CHECK(MPI_Comm_join(pair[0], &inter) != MPI_SUCCESS);

    /* All still works. */
    CHECK(MPI_Allreduce(&(int){1}, &i, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && i == 2);
    MPI_Info_free(&limit);
    MPI_Finalize();
    printf("rank %d: dynamic_errors ok\n", rank);
    return 0;
}
