/* What launchers do for other jobs: a name of a service, and, with the argument "jobs", two processes that are started,
 * look the name up, and connect to it. Prints "rank N: asks ok". */
#include "check.h"

#include <string.h>

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

int main(int argc, char **argv)
{
    static const char service[] = "netmod a b=c";
    MPI_Comm parent, inter, again;
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME];
    int rank, size, other, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        CHECK(size == 2 && argc == 3 && strcmp(argv[2], "two words") == 0);
        MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, parent);
        if (rank == 0)
            MPI_Lookup_name(service, MPI_INFO_NULL, port);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &again);
        MPI_Comm_remote_size(again, &other);
        CHECK(other == sum);
        MPI_Comm_disconnect(&again);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    if (rank == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        CHECK(class_of(MPI_Lookup_name(service, MPI_INFO_NULL, found)) == MPI_ERR_NAME);
        CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(MPI_Publish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(MPI_Lookup_name(service, MPI_INFO_NULL, found) == MPI_SUCCESS && strcmp(port, found) == 0);
    }
    if (argc > 1 && strcmp(argv[1], "jobs") == 0) {
        char *args[] = { "child", "two words", NULL };
        MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
        MPI_Comm_remote_size(inter, &other);
        MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, inter);
        CHECK(other == 2 && sum == 2);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &again);
        MPI_Comm_disconnect(&again);
        MPI_Comm_disconnect(&inter);
    }
    if (rank == 0) {
        CHECK(MPI_Unpublish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(class_of(MPI_Lookup_name(service, MPI_INFO_NULL, found)) == MPI_ERR_NAME);
        CHECK(MPI_Close_port(port) == MPI_SUCCESS);
    }
    MPI_Finalize();
    printf("rank %d: asks ok\n", rank);
    return 0;
}
