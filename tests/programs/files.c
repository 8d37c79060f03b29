/* Files: handles, error handlers, views, accesses of all kinds, and a data representation. The first
 * argument is the name of a file to be made. Prints "rank N: files ok". */
#include "check.h"

#include <string.h>

static int called;

static void handle(MPI_File *file, int *code, ...)
{
    int class = -1;
    MPI_Error_class(*code, &class);
    called = *file == MPI_FILE_NULL ? 1000 + class : class;
}

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *state)
{
    int size;
    MPI_Type_size(type, &size);
    CHECK(state == &called);
    *bytes = size;
    return MPI_SUCCESS;
}

static int from_file(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    int i;
    CHECK(type == MPI_INT && position == 0 && state == &called);
    for (i = 0; i < count; i++)
        ((int *)memory)[i] = ~((int *)file)[i];
    return MPI_SUCCESS;
}

static int to_file(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    return from_file(file, type, count, memory, position, state);
}

int main(int argc, char **argv)
{
    int rank, size, i, flag, amode, class, count, data[4], back[4] = {0};
    MPI_File file = MPI_FILE_NULL;
    MPI_Errhandler handler, set;
    MPI_Datatype etype, filetype, every;
    MPI_Offset offset, bytes;
    MPI_Request request;
    MPI_Status status;
    MPI_Aint unit;
    MPI_Group group;
    MPI_Info info;
    char datarep[MPI_MAX_DATAREP_STRING];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (i = 0; i < 4; i++)
        data[i] = 10 * rank + i;

    /* Errors return unless a handler is set. */
    MPI_File_get_errhandler(MPI_FILE_NULL, &set);
    CHECK(set == MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file), &class);
    CHECK(class == MPI_ERR_NO_SUCH_FILE && file == MPI_FILE_NULL);
    MPI_Error_class(MPI_File_delete(argv[1], MPI_INFO_NULL), &class);
    CHECK(class == MPI_ERR_NO_SUCH_FILE);
    MPI_File_create_errhandler(handle, &handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(called == 1000 + MPI_ERR_AMODE);

    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file)
          == MPI_SUCCESS);
    CHECK(file != MPI_FILE_NULL);
    MPI_File_get_amode(file, &amode);
    CHECK(amode == (MPI_MODE_RDWR | MPI_MODE_CREATE));
    MPI_File_call_errhandler(file, MPI_ERR_QUOTA);
    CHECK(called == MPI_ERR_QUOTA);
    CHECK(MPI_File_seek(file, -1, MPI_SEEK_SET) != MPI_SUCCESS && called == MPI_ERR_ARG);
    CHECK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN) == MPI_SUCCESS);

    /* Each process has every size-th integer. */
    MPI_Type_create_resized(MPI_INT, 0, size * sizeof(int), &every);
    MPI_Type_commit(&every);
    CHECK(MPI_File_set_view(file, rank * sizeof(int), MPI_INT, every, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_File_get_view(file, &offset, &etype, &filetype, datarep);
    CHECK(offset == (MPI_Offset)(rank * sizeof(int)) && etype == MPI_INT && strcmp(datarep, "native") == 0);
    MPI_Type_free(&filetype);
    CHECK(MPI_File_write_all(file, data, 4, MPI_INT, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 4);
    MPI_File_get_position(file, &offset);
    CHECK(offset == 4);
    MPI_File_get_byte_offset(file, 1, &offset);
    CHECK(offset == (MPI_Offset)((rank + size) * sizeof(int)));
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(file, &bytes);
    CHECK(bytes == (MPI_Offset)(4 * size * sizeof(int)));
    CHECK(MPI_File_iread_at(file, 1, back, 2, MPI_INT, &request) == MPI_SUCCESS);
    MPI_Wait(&request, &status);
    CHECK(back[0] == data[1] && back[1] == data[2]);
    CHECK(MPI_File_read_at_all_begin(file, 0, back, 4, MPI_INT) == MPI_SUCCESS);
    CHECK(MPI_File_read_at_all_end(file, back, &status) == MPI_SUCCESS);
    CHECK(memcmp(back, data, sizeof data) == 0);

    /* The shared file pointer, in the order of ranks. */
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CHECK(MPI_File_seek_shared(file, -4 * size, MPI_SEEK_END) == MPI_SUCCESS);
    CHECK(MPI_File_write_ordered(file, data, 2, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_File_get_position_shared(file, &offset);
    CHECK(offset == 2 * size);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at(file, 2 * rank, back, 2, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(memcmp(back, data, 2 * sizeof(int)) == 0);
    CHECK(MPI_File_read_shared(file, back, 0, MPI_INT, &status) == MPI_SUCCESS);

    /* A representation of the program. */
    CHECK(MPI_Register_datarep("inverted", from_file, to_file, extent, &called) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "inverted", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_write_at_all(file, 4 * rank, data, 4, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(MPI_File_read_at_all(file, 4 * rank, back, 4, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(memcmp(back, data, sizeof data) == 0);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CHECK(MPI_File_read_at(file, 4 * rank, back, 1, MPI_INT, &status) == MPI_SUCCESS && back[0] == ~data[0]);

    MPI_File_get_type_extent(file, MPI_INT, &unit);
    CHECK(unit == sizeof(int));
    MPI_File_set_atomicity(file, 1);
    MPI_File_get_atomicity(file, &flag);
    CHECK(flag);
    MPI_File_get_group(file, &group);
    MPI_Group_size(group, &count);
    CHECK(count == size);
    MPI_Group_free(&group);
    MPI_File_get_info(file, &info);
    MPI_File_set_info(file, info);
    MPI_Info_free(&info);
    CHECK(MPI_File_preallocate(file, 1000) == MPI_SUCCESS && MPI_File_set_size(file, 500) == MPI_SUCCESS);
    MPI_File_get_size(file, &bytes);
    CHECK(bytes == 500);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS && file == MPI_FILE_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(rank > 0 || MPI_File_delete(argv[1], MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_Type_free(&every);
    MPI_Errhandler_free(&handler);
    printf("rank %d: files ok\n", rank);
    MPI_Finalize();
    return 0;
}
