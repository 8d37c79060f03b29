#!/bin/sh
# Compiles and links MPI programs: passes its arguments to the compiler, with what MPI needs.
# Installing it replaces the words in @.
set -eu

# One of c, c++ and fortran.
language=@LANGUAGE@
library=@LIBRARY@
name=$(basename -- "$0")
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
prefix=$(dirname -- "$here")

fail() {
    echo "$name: $1" >&2
    exit 1
}

case $language in
    c) compiler=${MPICH_CC:-cc} own=-cc variable=MPICH_CC ;;
    c++) compiler=${MPICH_CXX:-c++} own=-cxx variable=MPICH_CXX ;;
    *) compiler=${MPICH_FC:-${MPICH_F90:-${MPICH_F77:-gfortran}}} own=-fc variable=MPICH_FC ;;
esac

show=no
show_what=all
links=yes
profile=
count=$#
[ "$count" -gt 0 ] || fail "nothing to compile; -help names the options"
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    case $language:$argument in
        *:-show) show=yes ;;
        *:-compile_info | *:-compile-info) show=yes show_what=compiler ;;
        *:-link_info | *:-link-info) show=yes show_what=linker ;;
        *:-show-compile-info) show=yes show_what=compile ;;
        *:-show-link-info) show=yes show_what=link ;;
        *:-echo) set -x ;;
        c:-cc=* | c++:-cxx=* | c++:-CC=* | fortran:-fc=* | fortran:-f90=* | fortran:-f77=*)
            compiler=${argument#*=}
            ;;
        *:-profile=*) profile=-l${argument#*=} ;;
        *:-static-mpi) fail "the MPI library is a shared one only: leave -static-mpi out" ;;
        *:-config=*) fail "there are no files of configurations: name the compiler by $own= or $variable" ;;
        *:-help | *:--help)
            cat <<HELP
$name [OPTIONS] ARGUMENTS: compiles and links an MPI program with $compiler

  -show           prints the command instead of running it
  -compile_info   prints the command that compiles (-show-compile-info: without the compiler)
  -link_info      prints the command that links (-show-link-info: without the compiler)
  $own=NAME       uses this compiler, as does the variable $variable
  -profile=NAME   links the library NAME before MPI
  -echo           prints each step

All other arguments are the compiler's.
HELP
            exit 0
            ;;
        *:-c | *:-S | *:-E | *:-M | *:-MM | *:-fsyntax-only) links=no; set -- "$@" "$argument" ;;
        *) set -- "$@" "$argument" ;;
    esac
done
# Without a file the compiler only speaks of itself, and an option to link would make it complain.
[ "$#" -gt 0 ] || [ "$show" = yes ] || links=no
case "$#:${1-}" in
    1:-v | 1:-V | 1:--version | 1:-dump*) links=no ;;
esac
[ -z "${MPICH_RECURSION_CHECK-}" ] ||
    fail "it calls itself: $variable and $own= name the compiler below ($compiler is called now)"
export MPICH_RECURSION_CHECK=1

# The include folder's option, and what links after the program's own.
include=-I$prefix/@INCLUDE@
dtags=--enable-new-dtags
fortran=
if [ "$language" = fortran ]; then
    # The interface for Fortran is that of MPICH, over the C functions of this library.
    for folder in /usr/include/*/mpich none; do
        triplet=$(basename -- "$(dirname -- "$folder")")
        [ ! -f "$folder/mpif.h" ] || [ ! -e "/usr/lib/$triplet/libmpichfort.so" ] || break
    done
    [ "$folder" != none ] ||
        fail "MPICH's interface for Fortran (mpif.h, mpi.mod, libmpichfort.so) is missing: install Debian's package libmpich-dev"
    include=-I$folder
    # Its library asks for libmpich.so.12, which only the older kind of path finds for it.
    dtags=--disable-new-dtags
    fortran=-lmpichfort
    # Programs pass buffers of any type.
    set -- -fallow-argument-mismatch -fallow-invalid-boz "$@"
fi
lib=$prefix/lib

if [ "$show_what" = compiler ] || [ "$show_what" = compile ]; then
    links=no
elif [ "$show_what" != all ]; then
    include=
fi
if [ "$show_what" = linker ] || [ "$show_what" = link ]; then
    links=yes
    set --
fi
[ "$show_what" != compile ] && [ "$show_what" != link ] || compiler=
[ -z "$include" ] || set -- "$include" "$@"
[ "$links" = no ] ||
    set -- "$@" "-L$lib" "-Wl,-rpath,$lib" "-Wl,$dtags" ${profile:+"$profile"} ${fortran:+"$fortran"} "-l$library"

# The compiler may have several words.
# shellcheck disable=SC2086
if [ "$show" = yes ]; then
    echo $compiler "$@"
else
    exec $compiler "$@"
fi
