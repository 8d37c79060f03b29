/* The tool interface returns its own error codes, before MPI and during it. Prints
 * "rank N: tools ok". */
#include "check.h"

#include <string.h>

int main(int argc, char **argv)
{
    int provided, n, rank, index, length;
    MPI_T_pvar_session session, stale;
    MPI_T_cvar_handle cvar;
    char text[MPI_MAX_ERROR_STRING];

    CHECK(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    n = -1;
    CHECK(MPI_T_cvar_get_num(&n) == MPI_SUCCESS && n == 0);
    CHECK(MPI_T_pvar_get_num(&n) == MPI_SUCCESS && n == 0);
    CHECK(MPI_T_category_get_num(&n) == MPI_SUCCESS && n == 0);
    CHECK(MPI_T_cvar_handle_alloc(n, NULL, &cvar, &n) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_get_index("none", &index) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(session != MPI_T_PVAR_SESSION_NULL);
    stale = session;
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_HANDLE_NULL) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL);
    CHECK(MPI_T_pvar_stop(stale, MPI_T_PVAR_ALL_HANDLES) == MPI_T_ERR_INVALID_SESSION);
    CHECK(MPI_T_pvar_session_free(&stale) == MPI_T_ERR_INVALID_SESSION);
    CHECK(MPI_Error_string(MPI_T_ERR_INVALID_INDEX, text, &length) == MPI_SUCCESS);
    CHECK(strncmp(text, "MPI_T_ERR_INVALID_INDEX", 23) == 0);
    printf("rank %d: tools ok\n", rank);
    MPI_Finalize();
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}
