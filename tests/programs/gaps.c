/* What the standard asks for and implementations are known to miss: large counts in statuses and packs, partitions of
 * inactive requests, pairs of types, process sets in splits, hardware, sessions, hints, representations of data, the ends
 * of files, and tools. 2 ranks; argument: a folder for a file, or "abort".
 *
 * Prints "rank N: gaps ok". */
#include "check.h"

#include <limits.h>
#include <string.h>

static int rank, size;

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void counts(void)
{
    MPI_Status status;
    MPI_Count many = (MPI_Count)INT_MAX * 4, got = 0, bytes = 0;
    int few = 0, version = 0, minor = 0;

    memset(&status, 0, sizeof status);
    MPI_Status_set_elements_c(&status, MPI_INT, many);
    MPI_Get_count_c(&status, MPI_INT, &got);
    CHECK(got == many);
    MPI_Get_elements_c(&status, MPI_INT, &got);
    CHECK(got == many);
    MPI_Get_count(&status, MPI_INT, &few);
    CHECK(few == MPI_UNDEFINED);
    MPI_Pack_size_c(many, MPI_INT, MPI_COMM_WORLD, &bytes);
    CHECK(bytes >= many * (MPI_Count)sizeof(int));
    MPI_Get_version(&version, &minor);
    CHECK(version == MPI_VERSION && minor == MPI_SUBVERSION);
}

static void partitions(void)
{
    int data[4] = { 0 }, flag = 0, peer = 1 - rank;
    MPI_Request request = MPI_REQUEST_NULL;

    MPI_Parrived(request, 0, &flag);
    CHECK(flag);
    flag = 0;
    MPI_Precv_init(data, 4, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Parrived(request, 3, &flag);
    CHECK(flag);
    MPI_Request sends;
    MPI_Psend_init(data, 2, 2, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &sends);
    MPI_Start(&request);
    MPI_Start(&sends);
    MPI_Pready_range(0, 1, sends);
    MPI_Wait(&sends, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&sends);
    MPI_Request_free(&request);
}

/* A pair without a name of its own is one by its combiner, or there is none. */
static void pairs(void)
{
    MPI_Datatype pair = MPI_INT;
    int integers, addresses, types, combiner;

    MPI_Type_get_value_index(MPI_INT64_T, MPI_INT32_T, &pair);
    if (pair != MPI_DATATYPE_NULL) {
        MPI_Type_get_envelope(pair, &integers, &addresses, &types, &combiner);
        CHECK(combiner == MPI_COMBINER_VALUE_INDEX || combiner == MPI_COMBINER_NAMED);
    }
}

static void splits(void)
{
    MPI_Info info;
    MPI_Comm part, low, inter;
    int n = 0, value = 1, sum = 0;

    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_pset_name", "mpi://WORLD");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &part);
    CHECK(part != MPI_COMM_NULL);
    MPI_Comm_size(part, &n);
    CHECK(n == size);
    MPI_Comm_free(&part);
    MPI_Info_set(info, "mpi_pset_name", "mpi://SELF");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &part);
    MPI_Comm_size(part, &n);
    CHECK(n == 1);
    MPI_Comm_free(&part);
    MPI_Info_set(info, "mpi_pset_name", "mpi://NONE");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &part);
    CHECK(part == MPI_COMM_NULL);
    MPI_Info_free(&info);

    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &low);
    MPI_Intercomm_create(low, 0, MPI_COMM_WORLD, 1 - rank, 5, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Exscan(&value, &sum, 1, MPI_INT, MPI_SUM, inter)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Scan(&value, &sum, 1, MPI_INT, MPI_SUM, inter)) == MPI_ERR_COMM);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&low);
}

static int has(MPI_Info info, const char *key, const char *value)
{
    char text[MPI_MAX_INFO_VAL];
    int room = sizeof text, flag = 0;

    MPI_Info_get_string(info, key, &room, text, &flag);
    return flag && (!value || strcmp(text, value) == 0);
}

static void hints(void)
{
    MPI_Info info;
    MPI_Session session;
    MPI_Win win;
    int *memory, keys = 0;

    MPI_Get_hw_resource_info(&info);
    MPI_Info_get_nkeys(info, &keys);
    CHECK(keys > 0);
    MPI_Info_free(&info);

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_get_info(session, &info);
    CHECK(has(info, "thread_level", NULL));
    MPI_Info_free(&info);
    MPI_Session_finalize(&session);

    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_get_info(win, &info);
    CHECK(has(info, "no_locks", "false") && has(info, "same_size", "false") && has(info, "same_disp_unit", "false"));
    CHECK(has(info, "accumulate_ops", "same_op_no_op") && has(info, "accumulate_ordering", NULL));
    MPI_Info_free(&info);
    MPI_Win_free(&win);
}

/* Each element is written as a byte. */
static int wide(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    (void)state;
    CHECK(type == MPI_INT);
    *extent = 1;
    return MPI_SUCCESS;
}

static int reads(void *user, MPI_Datatype type, int count, void *file, MPI_Offset at, void *state)
{
    (void)type;
    (void)state;
    for (int i = 0; i < count; i++)
        ((int *)user)[at + i] = ((unsigned char *)file)[i];
    return MPI_SUCCESS;
}

static int writes(void *user, MPI_Datatype type, int count, void *file, MPI_Offset at, void *state)
{
    (void)type;
    (void)state;
    for (int i = 0; i < count; i++)
        ((unsigned char *)file)[i] = (unsigned char)((int *)user)[at + i];
    return MPI_SUCCESS;
}

static void files(const char *folder)
{
    char name[2000];
    int data[4], got[8], i, count = -1;
    MPI_Offset bytes = 0;
    MPI_Aint extent = 0;
    MPI_File file;
    MPI_Status status;

    snprintf(name, sizeof name, "%s/gaps", folder);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
        &file);
    for (i = 0; i < 4; i++)
        data[i] = 4 * rank + i;
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL);
    MPI_File_write_at_all(file, 4 * rank, data, 4, MPI_INT, &status);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    /* The end of the file is in the middle of what is wanted. */
    MPI_File_read_at_all(file, 4, got, 8, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 4 && got[0] == 4 && got[3] == 7);
    MPI_File_read_at_all(file, 8, got, 8, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0);

    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
    MPI_File_get_type_extent(file, MPI_WCHAR, &extent);
    CHECK(extent == 2);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_get_type_extent(file, MPI_WCHAR, &extent);
    CHECK(extent == (MPI_Aint)sizeof(wchar_t));

    MPI_File_set_size(file, 0);
    MPI_Register_datarep("bytes", reads, writes, wide, NULL);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "bytes", MPI_INFO_NULL);
    MPI_File_get_type_extent(file, MPI_INT, &extent);
    CHECK(extent == 1);
    MPI_File_write_at_all(file, 4 * rank, data, 4, MPI_INT, &status);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(file, &bytes);
    CHECK(bytes == 8);
    MPI_File_read_at_all(file, 0, got, 8, MPI_INT, &status);
    for (i = 0; i < 8; i++)
        CHECK(got[i] == i);
    MPI_File_close(&file);
}

static void tools(void)
{
    int provided, n = 0, indices[1];

    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_event_get_num(&n) == MPI_SUCCESS && n > 0);
    CHECK(MPI_T_source_get_num(&n) == MPI_SUCCESS && n > 0);
    CHECK(MPI_T_category_get_num(&n) == MPI_SUCCESS && n > 0);
    CHECK(MPI_T_category_get_events(n, 1, indices) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_category_get_events(-1, 1, indices) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_ERR_NOT_SUPPORTED != MPI_T_ERR_NOT_ACCESSIBLE);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    MPI_Session session;
    char text[MPI_MAX_PSET_NAME_LEN];
    int room = sizeof text;

    MPI_Init(&argc, &argv);
    CHECK(argc == 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(argv[1], "abort") == 0) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ABORT, &session);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 1000, &room, text);
        printf("rank %d: goes on\n", rank);
        return 0;
    }
    CHECK(size == 2);
    counts();
    partitions();
    pairs();
    splits();
    hints();
    files(argv[1]);
    tools();
    MPI_Finalize();
    printf("rank %d: gaps ok\n", rank);
    return 0;
}
