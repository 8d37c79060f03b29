/* One collective operation again and again, in one form, while a process dies. Arguments: a seed, which gives the
 * operation, the form, the process, and the moment at which it dies by itself; and the name of a file in which the
 * others count who has ended. Each of them makes all of its calls, also after an error, compares what a call
 * without an error has left, prints what it was told, and "rank N: deaths ok". */
#include "collectives/calls.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

/* Calls after the one at which the process dies, and seconds within which all have made theirs. */
enum { MORE = 6, PATIENCE = 10 };

static int rank, size;
static _Atomic int *ended;

static void die(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

static void *shared(const char *name)
{
    int file = open(name, O_RDWR | O_CREAT, 0600);
    void *memory;

    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Makes one call, and waits for its end; returns its error. */
static int run_once(const Group *group, enum What what, enum Form form, uint64_t key)
{
    Operation *op = make_operation(group, what, form, key);
    int code;

    fill(op, key);
    code = call(op);
    free_types(op);
    if (code == MPI_SUCCESS && form == PERSISTENT)
        code = MPI_Start(&op->request);
    if (code == MPI_SUCCESS && form != BLOCKING)
        code = MPI_Wait(&op->request, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS)
        CHECK(is_right(op));
    if (form == PERSISTENT && op->request != MPI_REQUEST_NULL)
        MPI_Request_free(&op->request);
    free_operation(op);
    return code;
}

/* Goes on with communication until all that live have ended. */
static void wait_for_others(void)
{
    double end = MPI_Wtime() + PATIENCE;
    int flag;

    atomic_fetch_add(ended, 1);
    while (atomic_load(ended) < size - 1) {
        CHECK(MPI_Wtime() < end);
        MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        usleep(200);
    }
}

int main(int argc, char **argv)
{
    int dims[1] = {0}, periods[1] = {1}, victim, last, failed = 0, class = 0, length;
    char text[MPI_MAX_ERROR_STRING] = "all were right";
    struct itimerval after = {0};
    Random random;
    enum What what;
    enum Form form;
    Group group;
    MPI_Comm comm;

    CHECK(argc == 3);
    random = (Random){(uint64_t)atoi(argv[1])};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size <= BLOCKS);
    ended = shared(argv[2]);
    make_operations();
    what = (enum What)(atoi(argv[1]) % WHATS);
    form = (enum Form)((atoi(argv[1]) + atoi(argv[1]) / WHATS) % 3);
    victim = below(&random, size);
    last = one_in(&random, 4) ? 0 : below(&random, 40);
    after.it_value.tv_usec = 1 + below(&random, one_in(&random, 2) ? 2000 : 100);
    if (what >= NEIGHBOR_ALLGATHER) {
        MPI_Dims_create(size, 1, dims);
        MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
    } else {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    group = group_of(comm, "all");
    if (what >= NEIGHBOR_ALLGATHER)
        know_grid(&group, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < last + MORE; i++) {
        int code;

        if (rank == victim && i == last) {
            signal(SIGALRM, die);
            setitimer(ITIMER_REAL, &after, NULL);
        }
        code = run_once(&group, what, form, draw(&random));
        if (code != MPI_SUCCESS && failed++ == 0) {
            MPI_Error_class(code, &class);
            MPI_Error_string(code, text, &length);
        }
        /* Nobody fails while all live. */
        CHECK(code == MPI_SUCCESS || i >= last);
    }
    while (rank == victim)
        pause();
    wait_for_others();
    printf("rank %d: %s %s: %d of %d calls failed, class %d: %s\n", rank, forms[form], names[what], failed,
           last + MORE, class, text);
    printf("rank %d: deaths ok\n", rank);
    fflush(stdout);
    /* The end of MPI would wait for the dead. */
    _exit(0);
}
