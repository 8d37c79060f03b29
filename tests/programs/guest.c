/* What a library must leave alone: the process's signals, its output, and its descriptors. Prints
 * "rank N: guest ok" to the file that the argument names, and nothing else. */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIGNALS 65

struct state {
    struct sigaction actions[SIGNALS];
    sigset_t mask;
};

static struct state look(void)
{
    struct state state;

    memset(&state, 0, sizeof state);
    for (int i = 1; i < SIGNALS; i++)
        sigaction(i, NULL, &state.actions[i]);
    sigprocmask(SIG_SETMASK, NULL, &state.mask);
    return state;
}

/* Returns the first signal that is treated differently, or 0. */
static int difference(const struct state *a, const struct state *b)
{
    for (int i = 1; i < SIGNALS; i++)
        if (a->actions[i].sa_handler != b->actions[i].sa_handler || a->actions[i].sa_flags != b->actions[i].sa_flags ||
            sigismember(&a->mask, i) != sigismember(&b->mask, i))
            return i;
    return 0;
}

/* Returns the number of threads other than this one that would take the program's signals. */
static int takers(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int found = 0;

    while (tasks && (task = readdir(tasks))) {
        char path[300], line[200];
        unsigned long long blocked = 0;
        FILE *file;

        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            sscanf(line, "SigBlk: %llx", &blocked);
        if (file)
            fclose(file);
        /* SIGUSR1 and SIGTERM stand for all. */
        if (!(blocked >> (SIGUSR1 - 1) & 1) || !(blocked >> (SIGTERM - 1) & 1))
            found++;
    }
    if (tasks)
        closedir(tasks);
    return found;
}

int main(int argc, char **argv)
{
    struct state before, during, after;
    int rank, size, sum = 0, wrong, threads;
    char *many = calloc(1 << 20, 1);
    FILE *file;

    before = look();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    /* A large message moves in other ways. */
    MPI_Bcast(many, 1 << 20, MPI_CHAR, 0, MPI_COMM_WORLD);
    during = look();
    threads = takers();
    MPI_Finalize();
    after = look();
    wrong = difference(&before, &during);
    file = argc > 1 ? fopen(argv[1], "a") : NULL;
    if (!file)
        return 10;
    if (wrong || (wrong = difference(&before, &after)))
        fprintf(file, "rank %d: signal %d is treated differently\n", rank, wrong);
    else if (threads)
        fprintf(file, "rank %d: %d threads of the library take signals\n", rank, threads);
    else if (sum == size * (size - 1) / 2)
        fprintf(file, "rank %d: guest ok\n", rank);
    fclose(file);
    free(many);
    return 0;
}
