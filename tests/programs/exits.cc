// The end of MPI from places where a process ends: handlers of exit, destructors of static and of
// thread-local objects. The first argument says from where; the case prints "rank N: exits ok".
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mpi.h>

namespace {

int rank = -1, size;
const char *place;

void check(bool right, const char *what)
{
    if (!right) {
        std::fprintf(stderr, "rank %d: %s: not so: %s\n", rank, place, what);
        std::_Exit(9);
    }
}

bool is(const char *name) { return std::strcmp(place, name) == 0; }

// Messages and objects, as at any other time.
void use_mpi()
{
    int flag = 0, sum = 0;
    MPI_Initialized(&flag);
    check(flag, "initialized");
    MPI_Finalized(&flag);
    check(!flag, "not finalized yet");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == size * (size - 1) / 2, "the sum of all ranks");
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_free(&twin);
}

void finalize()
{
    use_mpi();
    check(MPI_Finalize() == MPI_SUCCESS, "finalize");
    int flag = 0;
    MPI_Finalized(&flag);
    check(flag, "finalized");
    std::printf("rank %d: exits ok\n", rank);
    std::fflush(stdout);
}

void at_exit()
{
    if (is("atexit-early") || is("atexit-late"))
        finalize();
    if (is("abort") && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (is("finalized")) {
        int flag = 0;
        MPI_Finalized(&flag);
        check(flag, "finalized");
        MPI_Initialized(&flag);
        check(flag, "initialized once");
        std::printf("rank %d: exits ok\n", rank);
        std::fflush(stdout);
    }
}

struct AtEnd {
    const char *where;
    explicit AtEnd(const char *name) : where(name) {}
    ~AtEnd()
    {
        if (is(where))
            finalize();
    }
};

AtEnd of_program("static");
thread_local AtEnd of_thread("thread-local");

} // namespace

int main(int argc, char **argv)
{
    place = argc > 1 ? argv[1] : "";
    if (!is("atexit-late"))
        std::atexit(at_exit);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    use_mpi();
    if (is("atexit-late"))
        std::atexit(at_exit);
    // Makes the object of this thread.
    check(of_thread.where != nullptr, "an object of the thread");
    if (is("finalized"))
        MPI_Finalize();
    // A rank that has no handler to abort waits for one that has.
    if (is("abort") && rank != 1)
        MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
