/* Makes and frees windows, or opens and closes files, while a process is lost, and goes on without it. Arguments:
 * what is made (create, allocate, shared, dynamic or file), the process that dies by itself, the call in which it
 * does, the microseconds after which it does then, when the survivors revoke the communicator (soon, or late, after
 * their last call), and the name of a file. Each of the others makes all of its calls, also after an error, prints
 * what it was told, makes the same object with those that live, and prints "rank N: makes_kill ok". */
#include "check.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* Elements of a window, and calls after the one in which the process dies. */
enum { COUNT = 1000, MORE = 3 };

static int memory[COUNT];

static void die(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

static int make_file(MPI_Comm comm, const char *name, int is_alone)
{
    int rank, size, first, second, data = 1, back = 0;
    MPI_File file;

    first = MPI_File_open(comm, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    if (first != MPI_SUCCESS)
        return first;
    if (is_alone) {
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        CHECK(MPI_File_write_at_all(file, rank * 4, &data, 4, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(MPI_File_write_shared(file, &data, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(MPI_File_read_at_all(file, (size - 1 - rank) * 4, &back, 4, MPI_BYTE, MPI_STATUS_IGNORE)
              == MPI_SUCCESS);
        CHECK(back == 1);
    }
    second = MPI_File_close(&file);
    CHECK(file == MPI_FILE_NULL);
    return second;
}

static int make_window(const char *what, MPI_Comm comm, int is_alone)
{
    int rank, code, *base = memory;
    MPI_Aint bytes = sizeof memory;
    MPI_Win win;

    if (strcmp(what, "create") == 0)
        code = MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, comm, &win);
    else if (strcmp(what, "allocate") == 0)
        code = MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, comm, &base, &win);
    else if (strcmp(what, "shared") == 0)
        code = MPI_Win_allocate_shared(bytes, sizeof(int), MPI_INFO_NULL, comm, &base, &win);
    else
        code = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (is_alone && strcmp(what, "dynamic") != 0) {
        int one = 1, size;

        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        base[0] = 0;
        CHECK(MPI_Win_fence(0, win) == MPI_SUCCESS);
        CHECK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win) == MPI_SUCCESS);
        CHECK(MPI_Win_fence(0, win) == MPI_SUCCESS);
        CHECK(rank != 0 || base[0] == size);
    }
    code = MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL);
    return code;
}

static int make(const char *what, MPI_Comm comm, const char *name, int is_alone)
{
    return strcmp(what, "file") == 0 ? make_file(comm, name, is_alone) : make_window(what, comm, is_alone);
}

int main(int argc, char **argv)
{
    int rank, class = MPI_SUCCESS, length, code, victim, last, call, failed = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    struct itimerval after = {0};
    MPI_Comm left;

    CHECK(argc == 7);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    victim = atoi(argv[2]);
    last = atoi(argv[3]);
    after.it_value.tv_usec = atoi(argv[4]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (call = 0; call <= last + MORE; call++) {
        if (rank == victim && call == last) {
            signal(SIGALRM, die);
            setitimer(ITIMER_REAL, &after, NULL);
        }
        code = make(argv[1], MPI_COMM_WORLD, argv[6], 0);
        if (code != MPI_SUCCESS && failed++ == 0) {
            MPI_Error_class(code, &class);
            MPI_Error_string(code, text, &length);
            /* One that dies early in a call may be the first that has ended the one before. */
            CHECK(call >= last - 1);
            /* One that was told early may have revoked the communicator before this process was told. */
            CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED);
            if (strcmp(argv[5], "soon") == 0)
                MPIX_Comm_revoke(MPI_COMM_WORLD);
        }
    }
    while (rank == victim)
        pause();
    printf("rank %d: %d of %d calls failed, class %d: %s\n", rank, failed, call, class, text);
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    CHECK(MPIX_Comm_shrink(MPI_COMM_WORLD, &left) == MPI_SUCCESS);
    CHECK(make(argv[1], left, argv[6], 1) == MPI_SUCCESS);
    /* Who ends is lost, too. */
    MPI_Barrier(left);
    printf("rank %d: makes_kill ok\n", rank);
    fflush(stdout);
    /* The end of MPI would wait for the dead. */
    _exit(0);
}
