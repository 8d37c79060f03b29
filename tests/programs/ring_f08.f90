! Sends around the ranks with mpi_f08, whose handles and statuses are types, and a graph without weights.
! Prints "rank N: ring ok".
program ring
    use mpi_f08
    implicit none
    integer :: rank, size, before, after, got, sum, n, incoming, outgoing, old(MPI_STATUS_SIZE)
    integer :: sources(1), destinations(1)
    double precision :: values(3)
    logical :: flag
    type(MPI_Comm) :: graph
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status, again

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, size)
    before = mod(rank + size - 1, size)
    after = mod(rank + 1, size)
    call MPI_Irecv(got, 1, MPI_INTEGER, before, 7, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(rank, 1, MPI_INTEGER, after, 7, MPI_COMM_WORLD, requests(2))
    call MPI_Wait(requests(1), status)
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
    call MPI_Get_count(status, MPI_INTEGER, n)
    if (got /= before .or. status%MPI_SOURCE /= before .or. status%MPI_TAG /= 7 .or. n /= 1) stop 2
    if (requests(1) /= MPI_REQUEST_NULL) stop 3
    ! A status of the older interfaces and back.
    call MPI_Status_f082f(status, old)
    if (old(MPI_SOURCE) /= before .or. old(MPI_TAG) /= 7) stop 4
    call MPI_Status_f2f08(old, again)
    call MPI_Get_count(again, MPI_INTEGER, n)
    if (again%MPI_SOURCE /= before .or. again%MPI_TAG /= 7 .or. n /= 1) stop 5
    call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (sum /= size * (size - 1) / 2) stop 6
    values = rank + 0.5d0
    call MPI_Allreduce(MPI_IN_PLACE, values, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    if (any(abs(values - (sum + size * 0.5d0)) > 1d-9)) stop 7
    sources = before
    destinations = after
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED, &
        MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, incoming, outgoing, flag)
    if (incoming /= 1 .or. outgoing /= 1 .or. flag) stop 8
    call MPI_Comm_free(graph)
    print '(a,i0,a)', 'rank ', rank, ': ring ok'
    call MPI_Finalize()
end program ring
