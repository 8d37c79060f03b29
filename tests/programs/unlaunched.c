/* A program that no launcher has started, and that starts a job: it has no child that it does not know, names of
 * services are kept for both, and the job ends with it.
 *
 * Argument "leaves": ends without MPI_Finalize while the job waits for it, whose process it has printed. */
#include "check.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    char port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME], *args[] = { argv[1], NULL };
    int size, other, sum, *universe, flag;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (parent != MPI_COMM_NULL) {
        CHECK(argc == 2 && size == 2);
        int pid = (int)getpid();
        MPI_Gather(&pid, 1, MPI_INT, NULL, 0, MPI_INT, 0, parent);
        /* The service of the program that has asked for this job, and which it serves. */
        MPI_Lookup_name("unlaunched", MPI_INFO_NULL, found);
        MPI_Comm_connect(found, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, inter);
        CHECK(sum == 1);
        MPI_Comm_disconnect(&inter);
        if (strcmp(argv[1], "leaves") == 0)
            MPI_Recv(&sum, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    CHECK(argc == 2 && size == 1);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
    CHECK(!flag || *universe == 1);
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name("unlaunched", MPI_INFO_NULL, port);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);

    int pids[2];
    MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(inter, &other);
    CHECK(other == 2);
    MPI_Gather(NULL, 0, MPI_INT, pids, 1, MPI_INT, MPI_ROOT, inter);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    MPI_Comm again;
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &again);
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, again);
    CHECK(sum == 2);
    MPI_Comm_disconnect(&again);
    if (strcmp(argv[1], "leaves") == 0) {
        printf("processes: %d %d\n", pids[0], pids[1]);
        fflush(stdout);
        _exit(0);
    }
    MPI_Comm_disconnect(&inter);
    MPI_Unpublish_name("unlaunched", MPI_INFO_NULL, port);
    MPI_Close_port(port);
    MPI_Finalize();
    printf("rank 0: unlaunched ok\n");
    return 0;
}
