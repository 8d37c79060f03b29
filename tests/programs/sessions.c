/* Sessions that begin and end again and again, and errors of their beginning. Argument: "world" to use MPI_COMM_WORLD
 * after them, "session" for one more session, or "exit". Prints "rank N: sessions ok". */
#include "check.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int told, told_class;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    told++;
    MPI_Error_class(*code, &told_class);
}

static void on_session_error(MPI_Session *session, int *code, ...)
{
    (void)session;
    told++;
    MPI_Error_class(*code, &told_class);
}

/* A session with a communicator of all processes. Returns the rank in it. */
static int one_session(int number)
{
    MPI_Session session, other;
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, sum, flag;
    char text[32];

    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other) == MPI_SUCCESS && other != session);
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    /* The library goes on with the second session. */
    CHECK(MPI_Session_finalize(&other) == MPI_SUCCESS && other == MPI_SESSION_NULL);
    snprintf(text, sizeof text, "round %d", number);
    CHECK(MPI_Comm_create_from_group(group, text, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == size * (size - 1) / 2);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS && session == MPI_SESSION_NULL);
    return rank;
}

static void errors_of_the_beginning(void)
{
    MPI_Errhandler handler;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Group group;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_SOME");
    CHECK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS && session == MPI_SESSION_NULL);
    MPI_Session_create_errhandler(on_session_error, &handler);
    CHECK(MPI_Session_init(info, handler, &session) != MPI_SUCCESS && told == 1);
    CHECK(told_class == MPI_ERR_INFO_VALUE && session == MPI_SESSION_NULL);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_SERIALIZED");
    CHECK(MPI_Session_init(info, handler, &session) == MPI_SUCCESS && told == 1);
    MPI_Errhandler_free(&handler);
    MPI_Info_free(&info);

    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    CHECK(MPI_Comm_create_from_group(group, "none", MPI_INFO_NULL, handler, NULL) != MPI_SUCCESS);
    CHECK(told == 2 && told_class == MPI_ERR_ARG);
    MPI_Errhandler_free(&handler);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    int rank = 0, flag, status;
    const char *end = argc > 1 ? argv[1] : "exit";
    pid_t child;

    errors_of_the_beginning();
    for (int n = 0; n < 5; n++)
        rank = one_session(n);
    /* A child that ends does not end MPI for its parent. */
    child = fork();
    if (child == 0)
        exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    if (strcmp(end, "world") == 0) {
        MPI_Init(&argc, &argv);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_rank(MPI_COMM_WORLD, &flag);
        CHECK(flag == rank);
    } else if (strcmp(end, "session") == 0) {
        CHECK(one_session(99) == rank);
    }
    printf("rank %d: sessions ok\n", rank);
    fflush(stdout);
    if (strcmp(end, "world") == 0) {
        MPI_Finalize();
        CHECK(MPI_Finalized(&flag) == MPI_SUCCESS && flag);
    }
    return 0;
}
