// MPI's old interface for C++, as MPICH's headers have it: objects, operations and attributes of
// the program, and exceptions as errors. Prints "rank N: bindings ok".
#include <iostream>
#include <mpi.h>
#include <string>

namespace {

void add(const void *in, void *inout, int count, const MPI::Datatype &)
{
    for (int i = 0; i < count; i++)
        static_cast<int *>(inout)[i] += static_cast<const int *>(in)[i];
}

MPI::Comm *handled_for;

void note(MPI::Comm &comm, int *, ...)
{
    handled_for = &comm;
}

// Returns true if a wrong rank is told to a handler of the program.
bool handles(MPI::Intracomm &comm)
{
    int value = 0;
    MPI::Errhandler handler = MPI::Comm::Create_errhandler(note);
    comm.Set_errhandler(handler);
    handler.Free();
    comm.Send(&value, 1, MPI::INT, comm.Get_size(), 0);
    return handled_for != nullptr;
}

int copies, deletes;

int copy(const MPI::Comm &, int, void *state, void *in, void *out, bool &flag)
{
    copies += state == &copies;
    *static_cast<void **>(out) = in;
    flag = true;
    return MPI_SUCCESS;
}

int remove(MPI::Comm &, int, void *value, void *state)
{
    deletes += state == &copies && value == &deletes;
    return MPI_SUCCESS;
}

// Returns true if an attribute is copied and deleted with its communicator.
bool keeps(MPI::Intracomm &comm)
{
    void *value = nullptr;
    int keyval = MPI::Comm::Create_keyval(copy, remove, &copies);
    comm.Set_attr(keyval, &deletes);
    MPI::Intracomm other = comm.Dup();
    bool found = other.Get_attr(keyval, &value) && value == &deletes;
    other.Free();
    comm.Delete_attr(keyval);
    MPI::Comm::Free_keyval(keyval);
    return found && copies == 1 && deletes == 2;
}

// Returns true if a wrong rank is told by an exception.
bool throws(MPI::Intracomm &comm)
{
    int value = 0;
    comm.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    try {
        comm.Send(&value, 1, MPI::INT, comm.Get_size(), 0);
    } catch (MPI::Exception &error) {
        return error.Get_error_class() == MPI::ERR_RANK;
    }
    return false;
}

} // namespace

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    MPI::Intracomm comm = MPI::COMM_WORLD.Dup();
    const int rank = comm.Get_rank(), size = comm.Get_size();
    int sum = 0, got = -1;
    MPI::Op operation;
    operation.Init(add, true);
    comm.Allreduce(&rank, &sum, 1, MPI::INT, operation);
    operation.Free();
    MPI::Status status;
    MPI::Request request = comm.Isend(&rank, 1, MPI::INT, (rank + 1) % size, 7);
    comm.Recv(&got, 1, MPI::INT, MPI::ANY_SOURCE, 7, status);
    request.Wait();
    MPI::Datatype pairs = MPI::INT.Create_vector(2, 1, 2);
    pairs.Commit();
    const bool right = sum == size * (size - 1) / 2 && got == (rank + size - 1) % size &&
                       status.Get_source() == got && pairs.Get_size() == 8 && keeps(comm) &&
                       throws(comm) && handles(comm);
    pairs.Free();
    comm.Free();
    MPI::Finalize();
    if (right)
        std::cout << "rank " + std::to_string(rank) + ": bindings ok\n" << std::flush;
    return right ? 0 : 1;
}
