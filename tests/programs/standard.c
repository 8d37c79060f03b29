/* Calls what the standard's ABI has of its own or in another form. Prints "rank N: standard ok". */
#include "check.h"

#include <string.h>

static int rank, size, handled;

static void abi(void)
{
    int major, minor, flag, one = 1, zero = 0, yes = 0, no = 7, length = 16;
    MPI_Info info;
    char value[16];
    CHECK(MPI_Abi_get_version(&major, &minor) == MPI_SUCCESS);
    CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION);
    MPI_Abi_get_info(&info);
    MPI_Info_get_string(info, "mpi_count_size", &length, value, &flag);
    CHECK(flag && strcmp(value, "8") == 0);
    MPI_Info_free(&info);
    CHECK(info == MPI_INFO_NULL);

    MPI_Abi_get_fortran_info(&info);
    CHECK(info == MPI_INFO_NULL);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_logical_size", "4");
    CHECK(MPI_Abi_set_fortran_info(info) == MPI_SUCCESS);
    MPI_Info_free(&info);
    MPI_Abi_get_fortran_info(&info);
    MPI_Info_get_nkeys(info, &length);
    CHECK(length == 1);
    MPI_Info_free(&info);

    CHECK(MPI_Abi_get_fortran_booleans(4, &yes, &no, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Abi_set_fortran_booleans(4, &one, &zero) == MPI_SUCCESS);
    CHECK(MPI_Abi_get_fortran_booleans(4, &yes, &no, &flag) == MPI_SUCCESS);
    CHECK(flag && yes == 1 && no == 0);
    MPI_Error_class(MPI_Abi_set_fortran_booleans(4, &zero, &one), &flag);
    CHECK(flag == MPI_ERR_ABI);
}

static void handles(void)
{
    MPI_Comm twin;
    MPI_Datatype pair;
    CHECK(MPI_Comm_toint(MPI_COMM_WORLD) == 0x101 && MPI_Comm_fromint(0x101) == MPI_COMM_WORLD);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_File_toint(MPI_FILE_NULL) == 0x118);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(twin)) == twin && (intptr_t)twin >= 0x1000);
    MPI_Comm_free(&twin);
    CHECK(twin == MPI_COMM_NULL);
    MPI_Type_contiguous(2, MPI_FLOAT_INT, &pair);
    int integers[1], count, addresses, types, combiner;
    MPI_Datatype parts[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
    MPI_Type_get_envelope(pair, &count, &addresses, &types, &combiner);
    CHECK(count == 1 && types == 1 && combiner == MPI_COMBINER_CONTIGUOUS);
    MPI_Type_get_contents(pair, 1, 0, 2, integers, NULL, parts);
    CHECK(integers[0] == 2 && parts[0] == MPI_FLOAT_INT && parts[1] == MPI_DATATYPE_NULL);
    MPI_Type_free(&pair);
}

static void arrays_of_arrays(void)
{
    int sizes[2] = {4, 6}, part[2] = {2, 3}, starts[2] = {1, 1}, numbers[16];
    int distribs[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    int dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, grid[2] = {1, 1};
    MPI_Datatype type, base;
    MPI_Type_create_subarray(2, sizes, part, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    MPI_Type_get_contents(type, 8, 0, 1, numbers, NULL, &base);
    CHECK(numbers[0] == 2 && numbers[7] == MPI_ORDER_FORTRAN && base == MPI_INT);
    MPI_Type_free(&type);
    MPI_Type_create_darray(1, 0, 2, sizes, distribs, dargs, grid, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_get_contents(type, 12, 0, 1, numbers, NULL, &base);
    CHECK(numbers[5] == MPI_DISTRIBUTE_BLOCK && numbers[6] == MPI_DISTRIBUTE_CYCLIC);
    CHECK(numbers[7] == MPI_DISTRIBUTE_DFLT_DARG && numbers[8] == 2 && numbers[11] == MPI_ORDER_C);
    MPI_Type_free(&type);
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    CHECK(*comm == MPI_COMM_WORLD && class == MPI_ERR_RANK && *code <= MPI_ERR_LASTCODE);
    handled++;
}

static void errors(void)
{
    int class, mine, code, length, *last, flag;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Errhandler own;
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    /* What means nobody in the other ABI is no rank here. */
    code = MPI_Send(NULL, 0, MPI_INT, -2, 0, MPI_COMM_WORLD);
    CHECK(handled == 1 && code != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&own);
    CHECK(own == MPI_ERRHANDLER_NULL);
    for (int n = 0; n < 600; n++) {
        char tag[32];
        code = MPI_Send(NULL, 0, MPI_INT, 0, -n - 3, MPI_COMM_WORLD);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_TAG && code > class && code <= MPI_ERR_LASTCODE);
        MPI_Error_string(code, text, &length);
        snprintf(tag, sizeof tag, "%d", -n - 3);
        CHECK(strstr(text, tag) && strstr(text, "MPI_ERR_TAG"));
    }
    MPI_Error_string(MPI_ERR_REQUEST, text, &length);
    CHECK(strstr(text, "MPI_ERR_REQUEST"));
    MPI_Add_error_class(&mine);
    CHECK(mine == MPI_ERR_LASTCODE + 1);
    MPI_Add_error_code(mine, &code);
    MPI_Add_error_string(code, "of the program");
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK(class == mine && strcmp(text, "of the program") == 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last == code);
}

static int refuse(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    return MPI_ERR_REQUEST;
}

static void attributes(void)
{
    int key, flag, class, *bound;
    char *value;
    MPI_Comm twin;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_get_attr(twin, key, &value, &flag);
    CHECK(flag && value == (char *)&key);
    MPI_Comm_free(&twin);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key);
    MPI_Error_class(MPI_Comm_delete_attr(MPI_COMM_WORLD, key), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    CHECK(flag && *bound >= 32767);
    MPI_Error_class(MPI_Comm_get_attr(MPI_COMM_WORLD, 0x64400001, &bound, &flag), &class);
    CHECK(class == MPI_ERR_KEYVAL);
}

static void messages(void)
{
    /* More requests than a call keeps in its frame. */
    enum { MANY = 100 };
    MPI_Request all[MANY];
    MPI_Status statuses[MANY], status;
    int sent[MANY], got[MANY], left = (rank + size - 1) % size, right = (rank + 1) % size, count;
    for (int n = 0; n < MANY / 2; n++) {
        MPI_Irecv(&got[n], 1, MPI_INT, MPI_ANY_SOURCE, n, MPI_COMM_WORLD, &all[n]);
        sent[n] = rank * MANY + n;
        MPI_Isend(&sent[n], 1, MPI_INT, right, n, MPI_COMM_WORLD, &all[MANY / 2 + n]);
    }
    for (int n = 0; n < MANY; n++)
        statuses[n].MPI_ERROR = 77;
    CHECK(MPI_Waitall(MANY, all, statuses) == MPI_SUCCESS);
    for (int n = 0; n < MANY / 2; n++) {
        MPI_Get_count(&statuses[n], MPI_INT, &count);
        CHECK(got[n] == left * MANY + n && statuses[n].MPI_SOURCE == left && count == 1);
        CHECK(statuses[n].MPI_TAG == n && statuses[n].MPI_ERROR == 77);
        CHECK(all[n] == MPI_REQUEST_NULL && all[MANY / 2 + n] == MPI_REQUEST_NULL);
    }
    status.MPI_ERROR = 77;
    MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    CHECK(status.MPI_ERROR == 77);
    MPI_Wait(&all[0], &status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    MPI_Status_set_source(&status, MPI_ROOT);
    MPI_Status_set_cancelled(&status, 1);
    MPI_Status_set_elements_c(&status, MPI_BYTE, (MPI_Count)1 << 33);
    MPI_Test_cancelled(&status, &count);
    CHECK(status.MPI_SOURCE == MPI_ROOT && count);
    MPI_Count large;
    MPI_Get_count_c(&status, MPI_BYTE, &large);
    CHECK(large == (MPI_Count)1 << 33);
}

static void numbers(void)
{
    int level, result, topology, dims[1] = {0}, periods[1] = {0}, from, to;
    int ranks[2] = {0, MPI_PROC_NULL}, others[2];
    MPI_Group world;
    MPI_Comm line, node, twin;
    MPI_Query_thread(&level);
    CHECK(level == MPI_THREAD_MULTIPLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_compare(MPI_COMM_WORLD, twin, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_free(&twin);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(world, 2, ranks, world, others);
    CHECK(others[0] == 0 && others[1] == MPI_PROC_NULL);
    MPI_Group_translate_ranks(world, 1, ranks, MPI_GROUP_EMPTY, others);
    CHECK(others[0] == MPI_UNDEFINED);
    MPI_Group_compare(world, world, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_free(&world);
    MPI_Topo_test(MPI_COMM_WORLD, &topology);
    CHECK(topology == MPI_UNDEFINED);
    MPI_Dims_create(size, 1, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &line);
    MPI_Topo_test(line, &topology);
    MPI_Cart_shift(line, 0, 1, &from, &to);
    CHECK(topology == MPI_CART && from == (rank == 0 ? MPI_PROC_NULL : rank - 1));
    CHECK(to == (rank == size - 1 ? MPI_PROC_NULL : rank + 1));
    MPI_Comm_free(&line);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &result);
    CHECK(result >= 1);
    MPI_Comm_free(&node);
}

static void weights(void)
{
    int weighted, in, out, one[1] = {0}, self[1], kept[1] = {5}, degree[1] = {1};
    MPI_Comm graph;
    self[0] = rank;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, self, MPI_UNWEIGHTED, 1, self, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && !weighted);
    MPI_Dist_graph_neighbors(graph, 1, one, MPI_UNWEIGHTED, 1, one, MPI_UNWEIGHTED);
    CHECK(one[0] == rank);
    MPI_Comm_free(&graph);
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, self, degree, self, kept, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && weighted);
    MPI_Comm_free(&graph);
}

static void in_place(void)
{
    int sum = rank + 1, types_sum = 0, *counts = calloc(size, sizeof *counts);
    int *displs = calloc(size, sizeof *displs), *in = calloc(size, sizeof *in);
    MPI_Datatype *types = malloc(size * sizeof *types);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size + 1) / 2);
    for (int n = 0; n < size; n++) {
        counts[n] = 1;
        displs[n] = n * (int)sizeof *in;
        types[n] = MPI_INT;
        in[n] = rank;
    }
    MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, in, counts, displs, types, MPI_COMM_WORLD);
    for (int n = 0; n < size; n++)
        types_sum += in[n];
    CHECK(types_sum == size * (size - 1) / 2);
    free(counts), free(displs), free(in), free(types);
}

int main(int argc, char **argv)
{
    int version, subversion, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Get_version(&version, &subversion);
    CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    abi();
    handles();
    arrays_of_arrays();
    errors();
    attributes();
    messages();
    numbers();
    weights();
    in_place();
    printf("rank %d: standard ok\n", rank);
    return MPI_Finalize();
}
