! Sends around the ranks in Fortran. Prints "rank N: ring ok".
program ring
    use mpi
    implicit none
    integer :: error, rank, size, before, got, sum, status(MPI_STATUS_SIZE), requests(2), n
    double precision :: values(3), parts(3)

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, size, error)
    before = mod(rank + size - 1, size)
    call MPI_Irecv(got, 1, MPI_INTEGER, before, 7, MPI_COMM_WORLD, requests(1), error)
    call MPI_Isend(rank, 1, MPI_INTEGER, mod(rank + 1, size), 7, MPI_COMM_WORLD, requests(2), error)
    call MPI_Wait(requests(1), status, error)
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE, error)
    call MPI_Get_count(status, MPI_INTEGER, n, error)
    if (got /= before .or. status(MPI_SOURCE) /= before .or. status(MPI_TAG) /= 7 .or. n /= 1) stop 2
    call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    if (sum /= size * (size - 1) / 2) stop 3
    ! The address of MPI_IN_PLACE is known to the interface for Fortran only.
    values = rank + 0.5d0
    parts = values
    call MPI_Allreduce(MPI_IN_PLACE, values, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    if (any(abs(values - (sum + size * 0.5d0)) > 1d-9)) stop 4
    call MPI_Bcast(parts, 3, MPI_DOUBLE_PRECISION, size - 1, MPI_COMM_WORLD, error)
    if (any(abs(parts - (size - 0.5d0)) > 1d-9)) stop 5
    print '(a,i0,a)', 'rank ', rank, ': ring ok'
    call MPI_Finalize(error)
end program ring
