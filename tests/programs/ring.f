C     Sends around the ranks with mpif.h, and an attribute that C would get by its address.
C     Prints "rank N: ring ok".
      program ring
      implicit none
      include 'mpif.h'
      integer error, rank, size, before, got, sum, n, key
      integer status(MPI_STATUS_SIZE), requests(2)
      integer (kind=MPI_ADDRESS_KIND) value
      double precision values(3)
      logical flag

      call MPI_INIT(error)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, size, error)
      before = mod(rank + size - 1, size)
      call MPI_IRECV(got, 1, MPI_INTEGER, before, 7, MPI_COMM_WORLD,
     &               requests(1), error)
      call MPI_ISEND(rank, 1, MPI_INTEGER, mod(rank + 1, size), 7,
     &               MPI_COMM_WORLD, requests(2), error)
      call MPI_WAIT(requests(1), status, error)
      call MPI_WAIT(requests(2), MPI_STATUS_IGNORE, error)
      call MPI_GET_COUNT(status, MPI_INTEGER, n, error)
      if (got .ne. before .or. status(MPI_SOURCE) .ne. before) stop 2
      if (status(MPI_TAG) .ne. 7 .or. n .ne. 1) stop 3
      call MPI_ALLREDUCE(rank, sum, 1, MPI_INTEGER, MPI_SUM,
     &                   MPI_COMM_WORLD, error)
      if (sum .ne. size * (size - 1) / 2) stop 4
      values = rank + 0.5d0
      call MPI_ALLREDUCE(MPI_IN_PLACE, values, 3, MPI_DOUBLE_PRECISION,
     &                   MPI_SUM, MPI_COMM_WORLD, error)
      if (any(abs(values - (sum + size * 0.5d0)) .gt. 1d-9)) stop 5
      call MPI_COMM_CREATE_KEYVAL(MPI_COMM_NULL_COPY_FN,
     &     MPI_COMM_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND, error)
      value = -rank
      call MPI_COMM_SET_ATTR(MPI_COMM_WORLD, key, value, error)
      value = 77
      call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, key, value, flag, error)
      if (.not. flag .or. value .ne. -rank) stop 6
      print '(a,i0,a)', 'rank ', rank, ': ring ok'
      call MPI_FINALIZE(error)
      end
