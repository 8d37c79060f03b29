/* The tool interface: its variables before MPI, during it and afterwards, and its own error codes.
 * Prints "rank N: tools ok". */
#include "check.h"

#include <string.h>

static char name[64], meaning[512];

/* Returns the handle of a control variable. */
static MPI_T_cvar_handle control(const char *of, MPI_Datatype wanted, int *count, int *scope)
{
    int index, verbosity, length = sizeof name, bind;
    MPI_T_enum names;
    MPI_Datatype type;
    MPI_T_cvar_handle handle;

    CHECK(MPI_T_cvar_get_index(of, &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_info(index, name, &length, &verbosity, &type, &names, NULL, NULL, &bind,
                              scope) == MPI_SUCCESS);
    CHECK(strcmp(name, of) == 0 && length == (int)strlen(of) + 1);
    CHECK(type == wanted && bind == MPI_T_BIND_NO_OBJECT && verbosity >= MPI_T_VERBOSITY_USER_BASIC);
    CHECK(MPI_T_cvar_handle_alloc(index, NULL, &handle, count) == MPI_SUCCESS);
    return handle;
}

/* Returns the index of a performance variable of a class. */
static int figure(const char *of, int class)
{
    int index, found, verbosity, bind, readonly, continuous, atomic, length = sizeof name;
    int other = class == MPI_T_PVAR_CLASS_LEVEL ? MPI_T_PVAR_CLASS_COUNTER : MPI_T_PVAR_CLASS_LEVEL;
    MPI_T_enum names;
    MPI_Datatype type;

    CHECK(MPI_T_pvar_get_index(of, class, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index(of, other, &found) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_pvar_get_info(index, name, &length, &verbosity, &found, &type, &names, NULL, NULL,
                              &bind, &readonly, &continuous, &atomic) == MPI_SUCCESS);
    CHECK(strcmp(name, of) == 0 && found == class && bind == MPI_T_BIND_NO_OBJECT);
    CHECK(readonly == continuous && readonly == !atomic);
    CHECK((names == MPI_T_ENUM_NULL) == (type != MPI_INT));
    return index;
}

static void controls_before(void)
{
    int count, scope, value = 1, n, item;
    long long size = -1;
    double seconds = 7.5;
    char text[4096];
    MPI_Count bytes = 1 << 16;
    MPI_T_enum names;
    MPI_T_cvar_handle leaks, eager, time, log, stale;

    leaks = control("NETMOD_MPI_LEAKS", MPI_INT, &count, &scope);
    CHECK(count == 1 && scope == MPI_T_SCOPE_LOCAL);
    CHECK(MPI_T_cvar_get_index("NETMOD_MPI_LEAKS", &n) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_info(n, NULL, NULL, NULL, NULL, &names, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    item = sizeof name;
    CHECK(MPI_T_enum_get_info(names, &n, name, &item) == MPI_SUCCESS && n == 2);
    item = sizeof name;
    CHECK(MPI_T_enum_get_item(names, 1, &n, name, &item) == MPI_SUCCESS && n == 1);
    CHECK(strcmp(name, "yes") == 0 && item == 4);
    CHECK(MPI_T_enum_get_item(names, 2, &n, name, &item) == MPI_T_ERR_INVALID_ITEM);
    CHECK(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, name, &item) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_cvar_write(leaks, &value) == MPI_SUCCESS);
    value = 0;
    CHECK(MPI_T_cvar_read(leaks, &value) == MPI_SUCCESS && value == 1);
    value = 123;
    CHECK(MPI_T_cvar_write(leaks, &value) == MPI_T_ERR_INVALID);
    value = 0;
    CHECK(MPI_T_cvar_write(leaks, &value) == MPI_SUCCESS);

    eager = control("NETMOD_EAGER_MAX", MPI_COUNT, &count, &scope);
    CHECK(count == 1 && MPI_T_cvar_write(eager, &bytes) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_read(eager, &size) == MPI_SUCCESS && size == 1 << 16);
    time = control("NETMOD_CLOSE_TIMEOUT", MPI_DOUBLE, &count, &scope);
    CHECK(count == 1 && MPI_T_cvar_write(time, &seconds) == MPI_SUCCESS);
    log = control("NETMOD_LOG", MPI_CHAR, &count, &scope);
    CHECK(count == sizeof text && MPI_T_cvar_read(log, text) == MPI_SUCCESS);
    CHECK(strcmp(text, "warn") == 0);
    stale = log;
    CHECK(MPI_T_cvar_handle_free(&log) == MPI_SUCCESS && log == MPI_T_CVAR_HANDLE_NULL);
    CHECK(MPI_T_cvar_read(stale, text) == MPI_T_ERR_INVALID_HANDLE);
    MPI_T_cvar_handle_free(&leaks);
    MPI_T_cvar_handle_free(&eager);
    MPI_T_cvar_handle_free(&time);
}

static void controls_during(void)
{
    int count, scope, value = 1;
    double seconds = 0;
    MPI_Count bytes = 0;
    MPI_T_cvar_handle leaks, eager, time;

    eager = control("NETMOD_EAGER_MAX", MPI_COUNT, &count, &scope);
    CHECK(MPI_T_cvar_read(eager, &bytes) == MPI_SUCCESS && bytes == 1 << 16);
    CHECK(MPI_T_cvar_write(eager, &bytes) == MPI_T_ERR_CVAR_SET_NOT_NOW);
    time = control("NETMOD_CLOSE_TIMEOUT", MPI_DOUBLE, &count, &scope);
    CHECK(MPI_T_cvar_read(time, &seconds) == MPI_SUCCESS && seconds == 7.5);
    leaks = control("NETMOD_MPI_LEAKS", MPI_INT, &count, &scope);
    CHECK(MPI_T_cvar_write(leaks, &value) == MPI_SUCCESS);
    value = 0;
    CHECK(MPI_T_cvar_read(leaks, &value) == MPI_SUCCESS && value == 1);
    MPI_T_cvar_handle_free(&leaks);
    MPI_T_cvar_handle_free(&eager);
    MPI_T_cvar_handle_free(&time);
}

static unsigned long long read_of(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;

    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
    return value;
}

/* Messages of this process to itself are counted, and those that wait. */
static void figures_during(void)
{
    int count, buffer[2], state = 0, kept = 3;
    unsigned long long value = 40;
    double age = 0;
    MPI_Request request, late;
    MPI_T_pvar_session session, other;
    MPI_T_pvar_handle posted, unexpected, arrived, twin, one, clock;

    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_create(&other) == MPI_SUCCESS && other != session);
    kept = figure("posted_recvq_length", MPI_T_PVAR_CLASS_LEVEL);
    CHECK(MPI_T_pvar_handle_alloc(session, kept, NULL, &posted, &count) == MPI_SUCCESS && count == 1);
    kept = figure("unexpected_recvq_length", MPI_T_PVAR_CLASS_LEVEL);
    CHECK(MPI_T_pvar_handle_alloc(session, kept, NULL, &unexpected, &count) == MPI_SUCCESS);
    kept = figure("unexpected_messages", MPI_T_PVAR_CLASS_COUNTER);
    CHECK(MPI_T_pvar_handle_alloc(session, kept, NULL, &arrived, &count) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(other, kept, NULL, &twin, &count) == MPI_SUCCESS);
    kept = figure("state", MPI_T_PVAR_CLASS_STATE);
    CHECK(MPI_T_pvar_handle_alloc(session, kept, NULL, &one, &count) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_read(session, one, &state) == MPI_SUCCESS && state == 1);
    kept = figure("age", MPI_T_PVAR_CLASS_TIMER);
    CHECK(MPI_T_pvar_handle_alloc(session, kept, NULL, &clock, &count) == MPI_SUCCESS);

    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_start(session, posted) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_reset(session, posted) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_write(session, posted, &value) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_readreset(session, posted, &value) == MPI_T_ERR_PVAR_NO_ATOMIC);
    CHECK(MPI_T_pvar_read(other, posted, &value) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(read_of(session, posted) == 0 && read_of(session, unexpected) == 0);
    MPI_Irecv(buffer, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &request);
    MPI_Isend(&kept, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &late);
    CHECK(read_of(session, posted) == 1 && read_of(session, unexpected) == 1);
    CHECK(read_of(session, arrived) == 1 && read_of(other, twin) == 0);
    MPI_Recv(buffer + 1, 1, MPI_INT, 0, 6, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&late, MPI_STATUS_IGNORE);
    CHECK(read_of(session, unexpected) == 0 && read_of(session, arrived) == 1);
    CHECK(MPI_T_pvar_write(session, arrived, (value = 40, &value)) == MPI_SUCCESS);
    MPI_Isend(&kept, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &late);
    CHECK(MPI_T_pvar_readreset(session, arrived, &value) == MPI_SUCCESS && value == 41);
    CHECK(read_of(session, arrived) == 0);
    MPI_Recv(buffer + 1, 1, MPI_INT, 0, 6, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&late, MPI_STATUS_IGNORE);
    CHECK(MPI_T_pvar_stop(session, arrived) == MPI_SUCCESS);
    MPI_Isend(&kept, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &late);
    CHECK(read_of(session, arrived) == 0);
    MPI_Recv(buffer + 1, 1, MPI_INT, 0, 6, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&late, MPI_STATUS_IGNORE);
    MPI_Send(&kept, 1, MPI_INT, 0, 5, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(read_of(session, posted) == 0);
    CHECK(MPI_T_pvar_read(session, clock, &age) == MPI_SUCCESS && age >= 0 && age < 600);
    CHECK(MPI_T_pvar_handle_free(session, &one) == MPI_SUCCESS && one == MPI_T_PVAR_HANDLE_NULL);
    CHECK(MPI_T_pvar_handle_free(other, &posted) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_read(other, twin, &value) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_free(&other) == MPI_SUCCESS);
}

/* Messages and bytes between two processes, by netmod, and large ones by mode. */
static void traffic(int rank)
{
    static char block[1 << 20];
    static const char *const netmods[] = {"shm_messages_received", "tcp_messages_received",
                                          "ofi_messages_received", "verbs_messages_received"};
    static const char *const modes[] = {"large_null_bytes", "large_put_bytes", "large_get_bytes",
                                        "large_coop_bytes"};
    MPI_T_pvar_session session;
    MPI_T_pvar_handle by_netmod[4], by_mode[4];
    unsigned long long messages = 0, bytes = 0;
    int n, count, size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2 || rank > 1)
        return;
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    for (n = 0; n < 4; n++) {
        int index = figure(netmods[n], MPI_T_PVAR_CLASS_COUNTER);
        CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, by_netmod + n, &count) == MPI_SUCCESS);
        index = figure(modes[n], MPI_T_PVAR_CLASS_AGGREGATE);
        CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, by_mode + n, &count) == MPI_SUCCESS);
    }
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    for (n = 0; n < 10; n++) {
        if (rank == 0)
            MPI_Send(block, sizeof block, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(block, sizeof block, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (n = 0; n < 4; n++) {
        messages += read_of(session, by_netmod[n]);
        bytes += read_of(session, by_mode[n]);
    }
    if (rank == 1)
        CHECK(messages >= 10 && bytes == 10 * sizeof block);
    else
        CHECK(bytes == 0);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

static void categories(void)
{
    int number, n, m, count, controls, figures, groups, length, all[200], seen = 0, events;

    CHECK(MPI_T_category_get_num(&number) == MPI_SUCCESS && number > 5);
    for (n = 0; n < number; n++) {
        length = sizeof name;
        m = sizeof meaning;
        CHECK(MPI_T_category_get_info(n, name, &length, meaning, &m, &controls, &figures, &groups) ==
              MPI_SUCCESS);
        CHECK(MPI_T_category_get_index(name, &m) == MPI_SUCCESS && m == n);
        CHECK(MPI_T_category_get_num_events(n, &events) == MPI_SUCCESS);
        CHECK(controls + figures + groups + events > 0 && controls < 200 && figures < 200);
        CHECK(MPI_T_category_get_cvars(n, controls, all) == MPI_SUCCESS);
        seen += controls;
        CHECK(MPI_T_cvar_get_num(&count) == MPI_SUCCESS);
        for (m = 0; m < controls; m++)
            CHECK(all[m] >= 0 && all[m] < count);
        CHECK(MPI_T_category_get_pvars(n, figures, all) == MPI_SUCCESS);
        CHECK(MPI_T_category_get_categories(n, groups, all) == MPI_SUCCESS);
        CHECK(MPI_T_category_get_events(n, events, all) == MPI_SUCCESS);
    }
    CHECK(seen == count);
    CHECK(MPI_T_category_get_num_events(number, &n) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_category_get_index("none", &n) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_category_changed(&n) == MPI_SUCCESS && n == 0);
}

int main(int argc, char **argv)
{
    int provided, n, rank, index, length, round;
    MPI_T_pvar_session session, stale;
    MPI_T_cvar_handle cvar;
    char text[MPI_MAX_ERROR_STRING];

    CHECK(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    for (round = 0; round < 100; round++) {
        CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
        CHECK(MPI_T_finalize() == MPI_SUCCESS);
    }
    CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    controls_before();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    n = -1;
    CHECK(MPI_T_cvar_get_num(&n) == MPI_SUCCESS && n > 50);
    CHECK(MPI_T_cvar_handle_alloc(n, NULL, &cvar, &n) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_handle_alloc(-1, NULL, &cvar, &n) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_get_index("none", &index) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_pvar_get_num(&n) == MPI_SUCCESS && n > 40);
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
    controls_during();
    figures_during();
    traffic(rank);
    categories();
    index = figure("busy_polls", MPI_T_PVAR_CLASS_COUNTER);
    printf("rank %d: tools ok\n", rank);
    fflush(stdout);
    MPI_Finalize();

    /* What the process has counted stays. */
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index("state", MPI_T_PVAR_CLASS_STATE, &index) == MPI_SUCCESS);
    {
        MPI_T_pvar_handle state;
        int value = 0;

        CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &state, &n) == MPI_SUCCESS);
        CHECK(MPI_T_pvar_read(session, state, &value) == MPI_SUCCESS && value == 2);
    }
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}
