/* Parallel HDF5: a table of 24 rows for each rank in one file, contiguous and in chunks, by collective and by
 * independent transfers, of which each rank writes every n-th row. Arguments: write or read, and the file.
 * Who reads takes other parts than who has written. Prints "rank N: hdf5 ok". */
#include "check.h"
#include <hdf5.h>
#include <string.h>

enum { EACH = 24, COLUMNS = 1000 };

static const char *names[] = {"contiguous", "chunked", "contiguous alone", "chunked alone"};

static int value(int table, int row, int column) { return table * 100000000 + row * COLUMNS + column; }

static hid_t transfer(int is_collective)
{
    hid_t how = H5Pcreate(H5P_DATASET_XFER);

    CHECK(H5Pset_dxpl_mpio(how, is_collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT) >= 0);
    return how;
}

static hid_t opened(const char *file, int is_new)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), opened;

    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0);
    opened = is_new ? H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(file, H5F_ACC_RDONLY, access);
    CHECK(opened >= 0);
    H5Pclose(access);
    return opened;
}

static void write_tables(const char *name, int rank, int size)
{
    hsize_t dims[2] = {EACH * size, COLUMNS}, chunk[2] = {5, 300};
    hsize_t start[2] = {rank, 0}, stride[2] = {size, 1}, count[2] = {EACH, COLUMNS};
    int *rows = malloc(EACH * COLUMNS * sizeof *rows), table, i;
    hid_t file = opened(name, 1), all = H5Screate_simple(2, dims, NULL);
    hid_t mine = H5Screate_simple(2, count, NULL), attribute, one = H5Screate(H5S_SCALAR);

    CHECK(rows);
    CHECK(H5Sselect_hyperslab(all, H5S_SELECT_SET, start, stride, count, NULL) >= 0);
    for (table = 0; table < 4; table++) {
        hid_t made = H5Pcreate(H5P_DATASET_CREATE), data, how = transfer(table < 2);
        if (table % 2)
            CHECK(H5Pset_chunk(made, 2, chunk) >= 0);
        data = H5Dcreate2(file, names[table], H5T_NATIVE_INT, all, H5P_DEFAULT, made, H5P_DEFAULT);
        CHECK(data >= 0);
        for (i = 0; i < EACH * COLUMNS; i++)
            rows[i] = value(table, i / COLUMNS * size + rank, i % COLUMNS);
        CHECK(H5Dwrite(data, H5T_NATIVE_INT, mine, all, how, rows) >= 0);
        H5Pclose(how);
        H5Pclose(made);
        H5Dclose(data);
    }
    attribute = H5Acreate2(file, "ranks", H5T_NATIVE_INT, one, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &size) >= 0);
    H5Aclose(attribute);
    H5Sclose(one);
    H5Sclose(mine);
    H5Sclose(all);
    CHECK(H5Fclose(file) >= 0);
    free(rows);
}

static void read_tables(const char *name, int rank, int size)
{
    hid_t file = opened(name, 0), attribute = H5Aopen(file, "ranks", H5P_DEFAULT);
    int writers, table, i, width = COLUMNS / size;
    hsize_t start[2] = {0, rank * width}, count[2] = {0, width};

    CHECK(H5Aread(attribute, H5T_NATIVE_INT, &writers) >= 0);
    H5Aclose(attribute);
    count[0] = EACH * writers;
    for (table = 0; table < 4; table++) {
        hid_t data = H5Dopen2(file, names[table], H5P_DEFAULT), all = H5Dget_space(data);
        hid_t mine = H5Screate_simple(2, count, NULL), how = transfer(table % 3 == 0);
        int *columns = malloc(count[0] * width * sizeof *columns);
        CHECK(columns && data >= 0);
        CHECK(H5Sselect_hyperslab(all, H5S_SELECT_SET, start, NULL, count, NULL) >= 0);
        CHECK(H5Dread(data, H5T_NATIVE_INT, mine, all, how, columns) >= 0);
        for (i = 0; i < (int)count[0] * width; i++)
            CHECK(columns[i] == value(table, i / width, rank * width + i % width));
        free(columns);
        H5Pclose(how);
        H5Sclose(mine);
        H5Sclose(all);
        H5Dclose(data);
    }
    CHECK(H5Fclose(file) >= 0);
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 3);
    if (!strcmp(argv[1], "write"))
        write_tables(argv[2], rank, size);
    else
        read_tables(argv[2], rank, size);
    printf("rank %d: hdf5 ok\n", rank);
    MPI_Finalize();
    return 0;
}
