// The same library in C++.
#include <iostream>
#include <mpi.h>
#include <vector>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = -1, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<double> values(1000, rank), sums(1000);
    MPI_Allreduce(values.data(), sums.data(), 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    const bool right = sums.front() == size * (size - 1) / 2.0 && sums.back() == sums.front();
    if (right)
        std::cout << "rank " + std::to_string(rank) + ": ring ok\n" << std::flush;
    MPI_Finalize();
    return right ? 0 : 1;
}
