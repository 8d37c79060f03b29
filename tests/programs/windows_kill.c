/* Accesses a window until a process is lost. Arguments: the kind of epoch (fence, group, lock, flush,
 * lock_all, words), and microseconds after which the last rank dies by itself, or 0 if it does not. Each
 * of the others prints what it was told, and "rank N: windows_kill ok". */
#include "check.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { COUNT = 64 };

static void die(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* One epoch: each accesses all others. Returns the first error. */
static int epoch(const char *kind, int size, int rank, MPI_Group group, MPI_Win win)
{
    int code = MPI_SUCCESS, target, i;
    static int out[COUNT], in[COUNT];

    if (strcmp(kind, "fence") == 0)
        code = MPI_Win_fence(0, win);
    else if (strcmp(kind, "group") == 0) {
        code = MPI_Win_post(group, 0, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_start(group, 0, win);
    } else if (strcmp(kind, "lock") != 0)
        code = MPI_Win_lock_all(0, win);
    for (i = 0; i < size && code == MPI_SUCCESS; i++) {
        target = (rank + i) % size;
        if (strcmp(kind, "lock") == 0)
            code = MPI_Win_lock(i % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win);
        if (code == MPI_SUCCESS)
            code = MPI_Accumulate(out, COUNT, MPI_INT, target, 0, COUNT, MPI_INT, MPI_SUM, win);
        if (code == MPI_SUCCESS)
            code = MPI_Get(in, COUNT, MPI_INT, target, COUNT, COUNT, MPI_INT, win);
        if (code == MPI_SUCCESS && strcmp(kind, "words") == 0)
            code = MPI_Fetch_and_op(out, in, MPI_INT, target, 0, MPI_SUM, win);
        if (code == MPI_SUCCESS && (strcmp(kind, "flush") == 0 || strcmp(kind, "words") == 0))
            code = MPI_Win_flush(target, win);
        if (code == MPI_SUCCESS && strcmp(kind, "lock") == 0)
            code = MPI_Win_unlock(target, win);
    }
    if (code != MPI_SUCCESS)
        return code;
    if (strcmp(kind, "fence") == 0)
        return MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (strcmp(kind, "group") == 0) {
        code = MPI_Win_complete(win);
        return code == MPI_SUCCESS ? MPI_Win_wait(win) : code;
    }
    return strcmp(kind, "lock") == 0 ? MPI_SUCCESS : MPI_Win_unlock_all(win);
}

int main(int argc, char **argv)
{
    int rank, size, class, length, code = MPI_SUCCESS;
    char text[MPI_MAX_ERROR_STRING];
    static int memory[2 * COUNT];
    struct itimerval after = {0};
    MPI_Group group;
    MPI_Win win;
    int *base = memory;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 4);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    if (strcmp(argv[2], "create") == 0)
        MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else
        MPI_Win_allocate(sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    /* All have the window before one dies. */
    MPI_Barrier(MPI_COMM_WORLD);
    after.it_value.tv_usec = atoi(argv[3]);
    if (rank == size - 1 && after.it_value.tv_usec > 0) {
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &after, NULL);
    }
    while (code == MPI_SUCCESS)
        code = epoch(argv[1], size, rank, group, win);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    printf("rank %d: class %d: %s\n", rank, class, text);
    printf("rank %d: windows_kill ok\n", rank);
    fflush(stdout);
    /* The end of MPI would wait for the dead. */
    _exit(0);
}
