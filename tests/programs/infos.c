/* Uses infos and an error handler of sessions before the library is initialized, while it runs, and
   after its end. Prints "rank N: infos ok". */
#include "check.h"

#include <string.h>

static int has(MPI_Info info, const char *key, const char *wanted)
{
    char value[32];
    int flag, room = sizeof value;

    MPI_Info_get_string(info, key, &room, value, &flag);
    return flag && room == (int)strlen(wanted) + 1 && strcmp(value, wanted) == 0;
}

static int errors;

static void count(MPI_Session *session, int *code, ...)
{
    (void)session;
    (void)code;
    errors++;
}

int main(int argc, char **argv)
{
    MPI_Info early, copy, late, kept, none = MPI_INFO_NULL;
    MPI_Errhandler handler, other;
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, class, keys;

    CHECK(MPI_Info_create(&early) == MPI_SUCCESS);
    CHECK(MPI_Info_set(early, "mpi_assert_exact_length", "true") == MPI_SUCCESS);
    CHECK(MPI_Info_dup(early, &copy) == MPI_SUCCESS);
    CHECK(MPI_Info_free(&copy) == MPI_SUCCESS && copy == MPI_INFO_NULL);
    /* Nobody has set an error handler: the code alone tells. */
    MPI_Error_class(MPI_Info_get_nkeys(none, &keys), &class);
    CHECK(class == MPI_ERR_INFO);

    CHECK(MPI_Info_create_env(argc, argv, &kept) == MPI_SUCCESS);
    CHECK(MPI_Session_create_errhandler(count, &handler) == MPI_SUCCESS);
    CHECK(MPI_Session_init(MPI_INFO_NULL, handler, &session) == MPI_SUCCESS);
    CHECK(MPI_Group_from_session_pset(session, "mpi://NONE", &group) != MPI_SUCCESS);
    CHECK(errors == 1);
    MPI_Init(&argc, &argv);
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(has(early, "mpi_assert_exact_length", "true"));
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, early, &comm);
    MPI_Comm_get_info(comm, &late);
    CHECK(has(late, "mpi_assert_exact_length", "true"));
    MPI_Info_free(&late);
    MPI_Comm_free(&comm);
    MPI_Info_set(early, "set", "while it ran");
    MPI_Info_set(kept, "set", "too");
    MPI_Finalize();

    CHECK(has(early, "mpi_assert_exact_length", "true"));
    CHECK(has(early, "set", "while it ran") && has(kept, "set", "too"));
    CHECK(MPI_Info_free(&early) == MPI_SUCCESS && MPI_Info_free(&kept) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_free(&handler) == MPI_SUCCESS && handler == MPI_ERRHANDLER_NULL);
    CHECK(MPI_Session_create_errhandler(count, &other) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_free(&other) == MPI_SUCCESS);

    MPI_Info_create(&late);
    MPI_Info_set(late, "key", "value");
    CHECK(has(late, "key", "value"));
    MPI_Info_free(&late);
    printf("rank %d: infos ok\n", rank);
    return 0;
}
