#!/bin/sh
# Offers this library as an MPI of the system, below MPICH's priority (40) and Open MPI's (50): it is
# taken where it is the only one, or where the administrator says so.
set -e
[ "$1" = configure ] || exit 0
prefix=@PREFIX@
lib=@LIB@
update-alternatives --install /usr/bin/mpicc mpi "$prefix/bin/mpicc" 30 \
    --slave /usr/bin/mpic++ mpic++ "$prefix/bin/mpicxx" \
    --slave /usr/bin/mpicxx mpicxx "$prefix/bin/mpicxx" \
    --slave /usr/bin/mpiCC mpiCC "$prefix/bin/mpicxx" \
    --slave /usr/bin/mpifort mpifort "$prefix/bin/mpifort" \
    --slave /usr/bin/mpif77 mpif77 "$prefix/bin/mpifort" \
    --slave /usr/bin/mpif90 mpif90 "$prefix/bin/mpifort"
update-alternatives --install /usr/bin/mpirun mpirun "$prefix/bin/mpirun" 30 \
    --slave /usr/bin/mpiexec mpiexec "$prefix/bin/mpiexec"
update-alternatives --install /usr/include/@MULTIARCH@/mpi mpi-@MULTIARCH@ "$prefix/include" 30 \
    --slave "$lib/libmpi.so" libmpi.so-@MULTIARCH@ "$prefix/lib/libmpi.so" \
    --slave "$lib/pkgconfig/mpi.pc" mpi.pc-@MULTIARCH@ "$prefix/lib/pkgconfig/mpi.pc"
