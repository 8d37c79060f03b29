! Attributes, generalized requests, operations and error handlers whose functions are in Fortran.
! Prints "rank N: callbacks ok".
module functions
    use mpi
    implicit none
    integer :: copies = 0, deletes = 0, queries = 0, frees = 0, cancels = 0, errors = 0
    integer(kind=MPI_ADDRESS_KIND), parameter :: extra = 4711
contains
    subroutine copy(comm, keyval, state, value_in, value_out, flag, ierror)
        integer :: comm, keyval, ierror
        integer(kind=MPI_ADDRESS_KIND) :: state, value_in, value_out
        logical :: flag
        if (state == extra) copies = copies + 1
        value_out = value_in + 1
        flag = .true.
        ierror = MPI_SUCCESS
    end subroutine

    subroutine delete(comm, keyval, value, state, ierror)
        integer :: comm, keyval, ierror
        integer(kind=MPI_ADDRESS_KIND) :: value, state
        if (state == extra .and. value > 0) deletes = deletes + 1
        ierror = MPI_SUCCESS
    end subroutine

    subroutine query(state, status, ierror)
        integer(kind=MPI_ADDRESS_KIND) :: state
        integer :: status(MPI_STATUS_SIZE), ierror
        if (state == extra) queries = queries + 1
        call MPI_Status_set_elements(status, MPI_INTEGER, 3, ierror)
        call MPI_Status_set_cancelled(status, .false., ierror)
        status(MPI_SOURCE) = 5
        status(MPI_TAG) = 6
        ierror = MPI_SUCCESS
    end subroutine

    subroutine release(state, ierror)
        integer(kind=MPI_ADDRESS_KIND) :: state
        integer :: ierror
        if (state == extra) frees = frees + 1
        ierror = MPI_SUCCESS
    end subroutine

    subroutine cancel(state, complete, ierror)
        integer(kind=MPI_ADDRESS_KIND) :: state
        logical :: complete
        integer :: ierror
        if (state == extra .and. .not. complete) cancels = cancels + 1
        ierror = MPI_SUCCESS
    end subroutine

    subroutine largest(in, inout, count, datatype)
        integer :: count, datatype
        integer :: in(count), inout(count)
        inout = max(in, inout)
    end subroutine

    subroutine note(comm, code)
        integer :: comm, code, class, ierror
        call MPI_Error_class(code, class, ierror)
        if (class == MPI_ERR_RANK) errors = errors + 1
    end subroutine

    subroutine check(is_true, what)
        logical :: is_true
        character(len=*) :: what
        integer :: ierror
        if (.not. is_true) then
            write (0, *) 'callbacks: ', what
            call MPI_Abort(MPI_COMM_WORLD, 3, ierror)
        end if
    end subroutine
end module

program callbacks
    use functions
    implicit none
    integer :: rank, size, ierror, keyval, old_keyval, comm, old, request, op, handler, sum, type, copy_type
    integer :: status(MPI_STATUS_SIZE), elements
    integer(kind=MPI_ADDRESS_KIND) :: value
    logical :: flag

    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)

    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
    call check(flag .and. value >= 32767, 'MPI_TAG_UB as a number')
    call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, old, flag, ierror)
    call check(flag .and. old == value, 'MPI_TAG_UB by the old function')

    call MPI_Comm_create_keyval(copy, delete, keyval, extra, ierror)
    call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, value, flag, ierror)
    call check(.not. flag, 'an attribute before it is set')
    value = 2_MPI_ADDRESS_KIND**40
    call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value, ierror)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call MPI_Comm_get_attr(comm, keyval, value, flag, ierror)
    call check(flag .and. value == 2_MPI_ADDRESS_KIND**40 + 1 .and. copies == 1, 'the copy of an attribute')
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, ierror)
    call check(deletes == 1, 'the deletion of an attribute')

    call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, old_keyval, 0, ierror)
    call MPI_Attr_put(comm, old_keyval, -7, ierror)
    call MPI_Attr_get(comm, old_keyval, old, flag, ierror)
    call check(flag .and. old == -7, 'an attribute of the old functions')

    call MPI_Type_contiguous(3, MPI_INTEGER, type, ierror)
    call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, op, extra, ierror)
    value = -9
    call MPI_Type_set_attr(type, op, value, ierror)
    call MPI_Type_dup(type, copy_type, ierror)
    value = 0
    call MPI_Type_get_attr(copy_type, op, value, flag, ierror)
    call check(flag .and. value == -9, 'an attribute of a datatype')

    call MPI_Grequest_start(query, release, cancel, extra, request, ierror)
    call MPI_Cancel(request, ierror)
    call MPI_Test(request, flag, status, ierror)
    call check(.not. flag .and. cancels == 1, 'a generalized request that is not over')
    call MPI_Grequest_complete(request, ierror)
    call MPI_Wait(request, status, ierror)
    call MPI_Get_elements(status, MPI_INTEGER, elements, ierror)
    call check(queries == 1 .and. frees == 1, 'the functions of a generalized request')
    call check(status(MPI_SOURCE) == 5 .and. status(MPI_TAG) == 6 .and. elements == 3, 'its status')

    call MPI_Op_create(largest, .true., op, ierror)
    call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, op, comm, ierror)
    call check(sum == size - 1, 'an operation')

    call MPI_Comm_create_errhandler(note, handler, ierror)
    call MPI_Comm_set_errhandler(comm, handler, ierror)
    call MPI_Send(rank, 1, MPI_INTEGER, size, 0, comm, ierror)
    call check(ierror /= MPI_SUCCESS .and. errors == 1, 'an error handler')

    call MPI_Comm_free(comm, ierror)
    call check(deletes == 2, 'the deletion with the communicator')
    call MPI_Finalize(ierror)
    write (*, '(A,I0,A)') 'rank ', rank, ': callbacks ok'
end program
