#!/bin/sh
# Takes back what postinst has offered.
set -e
case $1 in remove | deconfigure) ;; *) exit 0 ;; esac
prefix=@PREFIX@
update-alternatives --remove mpi "$prefix/bin/mpicc"
update-alternatives --remove mpirun "$prefix/bin/mpirun"
update-alternatives --remove mpi-@MULTIARCH@ "$prefix/include"
