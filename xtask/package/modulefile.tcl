#%Module1.0
# Puts the MPI library that this file lies beside into the environment.
set prefix [file normalize [file join [file dirname $ModulesCurrentModulefile] .. .. ..]]

proc ModulesHelp { } {
    puts stderr "Netmod's MPI library: mpicc, mpiexec, libmpi.so.12, libmpi_abi.so.1."
}
module-whatis "Netmod's MPI library"
conflict mpi mpich openmpi netmod-mpi
prepend-path PATH $prefix/bin
prepend-path LD_LIBRARY_PATH $prefix/lib
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
setenv MPI_HOME $prefix
