// An error handler that throws: the exception passes through the library, which can be used
// afterwards. Prints "rank N: throws ok". With an argument another function throws, which may not.
#include <iostream>
#include <mpi.h>
#include <stdexcept>
#include <string>

namespace {

void handle(MPI_Comm *, int *code, ...)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(*code, text, &length);
    throw std::runtime_error(std::string(text, length));
}

// Returns true if a call throws the error of a wrong rank or root.
template <class Call> bool throws(Call call)
{
    try {
        call();
    } catch (const std::runtime_error &error) {
        return std::string(error.what()).find("MPI_ERR_R") != std::string::npos;
    }
    return false;
}

// Functions that may not throw, since a call of the library is half done.
void add(void *, void *, int *, MPI_Datatype *) { throw std::runtime_error("from an operation"); }

int remove(MPI_Comm, int, void *, void *) { throw std::runtime_error("from an attribute"); }

int complete(void *, MPI_Status *) { throw std::runtime_error("from a request"); }

int nothing(void *) { return MPI_SUCCESS; }

int cancel(void *, int) { return MPI_SUCCESS; }

// Lets one of them throw; the process ends before this returns.
void misuse(const std::string &what)
{
    try {
        int in[2] = {0, 0}, keyval = 0;
        MPI_Op op;
        MPI_Request request;
        if (what == "operation") {
            MPI_Op_create(add, 1, &op);
            MPI_Reduce_local(&in[0], &in[1], 1, MPI_INT, op);
            MPI_Allreduce(&in[0], &in[1], 1, MPI_INT, op, MPI_COMM_WORLD);
        } else if (what == "attribute") {
            MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, remove, &keyval, nullptr);
            MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, nullptr);
            MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
        } else {
            MPI_Grequest_start(complete, nothing, cancel, nullptr, &request);
            MPI_Grequest_complete(request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } catch (const std::runtime_error &error) {
        std::cout << "an exception came through: " << error.what() << "\n" << std::flush;
    }
}

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1) {
        misuse(argv[1]);
        return 1;
    }
    int rank = 0, size = 0, sum = 0, value = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    bool right = true;
    for (int i = 0; i < 100; i++) {
        right = right && throws([&] { MPI_Send(&value, 1, MPI_INT, size + 1, 0, MPI_COMM_WORLD); });
        right = right && throws([&] { MPI_Bcast(&value, 1, MPI_INT, size + 1, MPI_COMM_WORLD); });
        MPI_Request request;
        right = right && throws([&] { MPI_Irecv(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD, &request); });
        right = right && throws([&] { MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_RANK); });
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        right = right && sum == size * (size - 1) / 2;
    }
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    if (right)
        std::cout << "rank " + std::to_string(rank) + ": throws ok\n" << std::flush;
    return right ? 0 : 1;
}
