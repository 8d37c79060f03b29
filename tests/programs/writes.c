/* Writes and reads interleaved blocks by collective calls until a process is lost. Arguments: the name
 * of a file, and microseconds after which the last rank dies by itself, or 0 if it does not. Each of the
 * others prints what it was told, and "rank N: writes ok". */
#include "check.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { COUNT = 1 << 16 };

static void die(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    int rank, size, block, i, round, class, length, code = MPI_SUCCESS;
    char text[MPI_MAX_ERROR_STRING];
    static int data[COUNT], back[COUNT];
    struct itimerval after = {0};
    MPI_Datatype run, type;
    MPI_File file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 3);
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file)
          == MPI_SUCCESS);
    /* All have the file before one dies. */
    MPI_Barrier(MPI_COMM_WORLD);
    after.it_value.tv_usec = atoi(argv[2]);
    if (rank == size - 1 && after.it_value.tv_usec > 0) {
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &after, NULL);
    }
    for (round = 0; code == MPI_SUCCESS; round++) {
        block = 1 << round % 12;
        MPI_Type_contiguous(block, MPI_INT, &run);
        MPI_Type_create_resized(run, 0, (MPI_Aint)block * size * sizeof(int), &type);
        MPI_Type_commit(&type);
        for (i = 0; i < COUNT; i++)
            data[i] = rank * 1000 + round + i;
        code = MPI_File_set_view(file, (MPI_Offset)rank * block * sizeof(int), MPI_INT, type, "native",
                                 MPI_INFO_NULL);
        if (code == MPI_SUCCESS)
            code = MPI_File_write_at_all(file, 0, data, COUNT, MPI_INT, MPI_STATUS_IGNORE);
        memset(back, 0, sizeof back);
        if (code == MPI_SUCCESS)
            code = MPI_File_read_at_all(file, 0, back, COUNT, MPI_INT, MPI_STATUS_IGNORE);
        CHECK(code != MPI_SUCCESS || memcmp(data, back, sizeof data) == 0);
        MPI_Type_free(&type);
        MPI_Type_free(&run);
    }
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    printf("rank %d: class %d: %s\n", rank, class, text);
    /* All take part in a close, too, and its error does not keep the file open. */
    CHECK(MPI_File_close(&file) != MPI_SUCCESS && file == MPI_FILE_NULL);
    printf("rank %d: writes ok\n", rank);
    fflush(stdout);
    /* The end of MPI would wait for the dead. */
    _exit(0);
}
