/* Memory of an accelerator is refused by its name, in every kind of call; memory that both can
 * access is not. The first argument is a runtime library, the second one its name in messages.
 * Prints "rank N: accelerator ok". */
#include "check.h"
#include <dlfcn.h>
#include <string.h>

static const char *owner;

static void refused(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length;

    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_BUFFER);
    MPI_Error_string(code, text, &length);
    if (!strstr(text, owner) || !strstr(text, "accelerator")) {
        fprintf(stderr, "%s\n", text);
        CHECK(0);
    }
}

static void *memory(void *library, const char *kind)
{
    void *(*make)(void);

    *(void **)&make = dlsym(library, kind);
    CHECK(make);
    return make();
}

int main(int argc, char **argv)
{
    int rank, size, ints[4] = {1, 2, 3, 4}, back[4];
    char *device, *managed, *host;
    void *library;
    MPI_Datatype strided, far;
    MPI_Aint where;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(argc == 3);
    owner = argv[2];
    /* The program has sent messages before it loads the library. */
    CHECK(MPI_Allreduce(MPI_IN_PLACE, ints, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    library = dlopen(argv[1], RTLD_NOW);
    CHECK(library);
    device = memory(library, "fake_device");
    managed = memory(library, "fake_managed");
    host = memory(library, "fake_host");

    refused(MPI_Send(device, 8, MPI_INT, rank, 1, MPI_COMM_WORLD));
    refused(MPI_Send(device + 4096, 8, MPI_INT, rank, 1, MPI_COMM_WORLD));
    refused(MPI_Recv(device, 8, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    refused(MPI_Irecv(device, 8, MPI_INT, rank, 1, MPI_COMM_WORLD, &request));
    refused(MPI_Send_init(device, 8, MPI_INT, rank, 1, MPI_COMM_WORLD, &request));
    refused(MPI_Allreduce(device, back, 4, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    refused(MPI_Bcast(device, 4, MPI_INT, 0, MPI_COMM_WORLD));
    MPI_Type_vector(2, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    refused(MPI_Send(device, 2, strided, rank, 1, MPI_COMM_WORLD));
    MPI_Get_address(device, &where);
    MPI_Type_create_hindexed_block(1, 1, &where, MPI_INT, &far);
    MPI_Type_commit(&far);
    refused(MPI_Send(MPI_BOTTOM, 1, far, rank, 1, MPI_COMM_WORLD));
    /* Nothing is accessed. */
    CHECK(MPI_Sendrecv(device, 0, MPI_INT, rank, 2, device, 0, MPI_INT, rank, 2, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE) == MPI_SUCCESS);

    memcpy(managed, ints, sizeof ints);
    CHECK(MPI_Sendrecv(managed, 4, MPI_INT, (rank + 1) % size, 3, host, 4, MPI_INT,
                       (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(memcmp(host, ints, sizeof ints) == 0);

    MPI_Type_free(&strided);
    MPI_Type_free(&far);
    printf("rank %d: accelerator ok\n", rank);
    MPI_Finalize();
    return 0;
}
