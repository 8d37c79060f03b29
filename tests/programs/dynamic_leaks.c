/* Starts a job and leaves it, and meets at a port and parts, again and again: descriptors, maps, threads and memory of
 * the ranks and of the launcher stay what they are after the first times. Argument: the number of times.
 *
 * Prints "rank N: dynamic_leaks ok". */
#include <mpi.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { FIRST = 10, KINDS = 6 };

static const char *const names[KINDS] = { "descriptors", "maps", "threads", "processes of the launcher", "KiB of its own",
    "KiB that it shares" };
/* By how much each may grow, whatever the number of times: what the allocator keeps, and the rings of shared memory, whose
 * pages count from their first use on. Two ranks share 4 MiB. */
static const long spare[KINDS] = { 0, 4, 0, 0, 1024, 4 << 10 };

static long entries(const char *folder)
{
    long n = 0;
    DIR *open = opendir(folder);

    CHECK(open != NULL);
    while (readdir(open))
        n++;
    closedir(open);
    return n;
}

static long lines(const char *file)
{
    long n = 0;
    int c;
    FILE *in = fopen(file, "r");

    CHECK(in != NULL);
    while ((c = getc(in)) != EOF)
        n += c == '\n';
    fclose(in);
    return n;
}

/* The number of a process's children. */
static long children(pid_t parent)
{
    char path[300], stat[1000], *after;
    long n = 0;
    struct dirent *entry;
    DIR *open = opendir("/proc");

    CHECK(open != NULL);
    while ((entry = readdir(open))) {
        int of = 0;
        size_t length;
        FILE *in;

        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        if (atoi(entry->d_name) == 0 || !(in = fopen(path, "r")))
            continue;
        length = fread(stat, 1, sizeof stat - 1, in);
        stat[length] = 0;
        fclose(in);
        after = strrchr(stat, ')');
        if (after && sscanf(after + 1, " %*c %d", &of) == 1 && of == parent)
            n++;
    }
    closedir(open);
    return n;
}

/* What a process and its launcher hold. */
static void count(long held[KINDS])
{
    char fds[64], tasks[64], sizes[64];
    long pages = 0, shared = 0;
    pid_t launcher = getppid();
    FILE *in;

    snprintf(fds, sizeof fds, "/proc/%d/fd", launcher);
    snprintf(tasks, sizeof tasks, "/proc/%d/task", launcher);
    snprintf(sizes, sizeof sizes, "/proc/self/statm");
    held[0] = entries("/proc/self/fd") + entries(fds);
    held[1] = lines("/proc/self/maps");
    held[2] = entries("/proc/self/task") + entries(tasks);
    held[3] = children(launcher);
    in = fopen(sizes, "r");
    CHECK(in && fscanf(in, "%*d %ld %ld", &pages, &shared) == 2);
    fclose(in);
    held[4] = (pages - shared) * (sysconf(_SC_PAGESIZE) / 1024);
    held[5] = shared * (sysconf(_SC_PAGESIZE) / 1024);
}

static void once(char *self, MPI_Comm half, const char *port, int high)
{
    MPI_Comm inter;

    MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Comm_disconnect(&inter);
    if (high)
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
    else
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    MPI_Comm_disconnect(&inter);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, half;
    char port[MPI_MAX_PORT_NAME] = "";
    long before[KINDS], after[KINDS];
    int rank, size, high, times, tries = 0, i, grown = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    CHECK(argc == 2);
    times = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size > 1);
    high = rank >= size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, high, 0, &half);
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (i = 0; i < FIRST; i++)
        once(argv[0], half, port, high);
    /* The last job ends while this process goes on. */
    MPI_Barrier(MPI_COMM_WORLD);
    sleep(1);
    count(before);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < times; i++)
        once(argv[0], half, port, high);
    MPI_Barrier(MPI_COMM_WORLD);
    while (grown && tries++ < 50) {
        usleep(100000);
        count(after);
        for (i = 0, grown = 0; i < KINDS; i++)
            grown |= after[i] > before[i] + spare[i];
    }
    for (i = 0; i < KINDS; i++)
        printf("rank %d: %s: %ld, then %ld\n", rank, names[i], before[i], after[i]);
    CHECK(!grown);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Close_port(port);
    MPI_Comm_free(&half);
    MPI_Finalize();
    printf("rank %d: dynamic_leaks ok\n", rank);
    return 0;
}
