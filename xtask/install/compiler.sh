#!/bin/sh
# Compiles and links MPI programs: passes its arguments to the compiler, with what MPI needs.
#
#   -show           prints the command instead of running it
#   -compile_info   prints the command that compiles
#   -link_info      prints the command that links
#   @OPTION@=NAME   uses this compiler, as does the variable @VARIABLE@
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
prefix=$(dirname -- "$here")
compiler=${@VARIABLE@:-@COMPILER@}
compile="-I$prefix/include"
link="-L$prefix/lib -Wl,-rpath,$prefix/lib -Wl,--enable-new-dtags -lmpi"

show=no
links=yes
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    case $argument in
        -show) show=yes ;;
        -compile_info | -compile-info) echo "$compiler $compile"; exit 0 ;;
        -link_info | -link-info) echo "$compiler $link"; exit 0 ;;
        @OPTION@=*) compiler=${argument#@OPTION@=} ;;
        -c | -S | -E | -M | -MM | -fsyntax-only) links=no; set -- "$@" "$argument" ;;
        *) set -- "$@" "$argument" ;;
    esac
done
# Without a file the compiler only speaks of itself, and an option to link would make it complain.
[ "$#" -gt 0 ] || [ "$show" = yes ] || links=no
case "$#:${1-}" in
    1:-v | 1:-V | 1:--version | 1:-dump*) links=no ;;
esac
[ "$links" = yes ] || link=

# The compiler and both sets of flags are several words where they are.
# shellcheck disable=SC2086
if [ "$show" = yes ]; then
    echo $compiler $compile "$@" $link
else
    exec $compiler $compile "$@" $link
fi
