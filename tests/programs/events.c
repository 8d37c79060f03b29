/* Events of the tool interface: rank 1 breaks the connections between the two processes, which
 * either go on or are lost, as the argument says, or receives nothing for a while ("slow"). With a thread of the
 * library events are told while the program makes no call if it has asked for MPI_THREAD_MULTIPLE (a second argument
 * "multiple"), and otherwise in its next call. Prints "rank N: events ok". */
#include "check.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_multiple;
static pthread_t self;
static int told, peers[16], freed, reads;
static MPI_Count times[16];
static char block[1 << 18];

static void on_event(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety,
                     void *data)
{
    int both[2], peer, source = -1, begun;
    MPI_Count now;

    (void)handle;
    CHECK(is_multiple || pthread_equal(pthread_self(), self));
    CHECK(data == &told && safety == MPI_T_CB_REQUIRE_NONE && told < 16);
    CHECK(MPI_T_event_copy(event, both) == MPI_SUCCESS);
    CHECK(MPI_T_event_read(event, 0, &peer) == MPI_SUCCESS && peer == both[0]);
    CHECK(MPI_T_event_read(event, 2, &peer) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_get_source(event, &source) == MPI_SUCCESS && source == 0);
    CHECK(MPI_T_event_get_timestamp(event, times + told) == MPI_SUCCESS);
    CHECK(MPI_T_source_get_timestamp(0, &now) == MPI_SUCCESS && now >= times[told]);
    /* All of MPI may be called. */
    CHECK(MPI_Initialized(&begun) == MPI_SUCCESS && begun);
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &peer) == MPI_SUCCESS && peer == 2);
    peers[told] = both[0];
    __atomic_store_n(&told, told + 1, __ATOMIC_RELEASE);
}

static void never(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety,
                  void *data)
{
    (void)event, (void)handle, (void)safety, (void)data;
    CHECK(!"a function at a higher level of safety was called");
}

static void on_dropped(MPI_Count count, MPI_T_event_registration handle, int source, MPI_T_cb_safety safety,
                       void *data)
{
    (void)count, (void)handle, (void)source, (void)safety, (void)data;
    CHECK(!"events were dropped");
}

static void on_free(MPI_T_event_registration handle, MPI_T_cb_safety safety, void *data)
{
    (void)handle, (void)safety;
    CHECK(data == &freed);
    freed++;
}

/* Ends all connections of this process over TCP, as a network would. */
static void break_connections(void)
{
    struct sockaddr_storage peer;
    int fd;

    for (fd = 3; fd < 256; fd++) {
        socklen_t length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
            (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) && reads++ >= 0)
            shutdown(fd, SHUT_RDWR);
    }
}

static MPI_T_event_registration handle_of(const char *event)
{
    MPI_T_event_registration handle;
    MPI_Datatype types[2];
    MPI_Aint places[2];
    MPI_T_enum elements;
    MPI_Info info;
    char name[64];
    int index, verbosity, count = 2, bind, length = sizeof name;

    CHECK(MPI_T_event_get_index(event, &index) == MPI_SUCCESS);
    CHECK(MPI_T_event_get_info(index, name, &length, &verbosity, types, places, &count, &elements, &info,
                               NULL, NULL, &bind) == MPI_SUCCESS);
    CHECK(strcmp(name, event) == 0 && count == 2 && bind == MPI_T_BIND_NO_OBJECT);
    CHECK(types[0] == MPI_INT && types[1] == MPI_INT && places[0] == 0 && places[1] == sizeof(int));
    CHECK(MPI_T_enum_get_info(elements, &count, NULL, NULL) == MPI_SUCCESS && count == 2);
    MPI_Info_free(&info);
    CHECK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &handle) == MPI_SUCCESS);
    CHECK(MPI_T_event_register_callback(handle, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, never) ==
          MPI_SUCCESS);
    CHECK(MPI_T_event_callback_get_info(handle, MPI_T_CB_REQUIRE_NONE, &info) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_event_register_callback(handle, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &told, on_event) ==
          MPI_SUCCESS);
    CHECK(MPI_T_event_callback_get_info(handle, MPI_T_CB_REQUIRE_NONE, &info) == MPI_SUCCESS);
    MPI_Info_free(&info);
    CHECK(MPI_T_event_callback_set_info(handle, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_T_event_handle_get_info(handle, &info) == MPI_SUCCESS);
    MPI_Info_free(&info);
    CHECK(MPI_T_event_handle_set_info(handle, MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_T_event_set_dropped_handler(handle, on_dropped) == MPI_SUCCESS);
    return handle;
}

int main(int argc, char **argv)
{
    int provided, rank, other, number = 5, sources, length, n;
    const char *kind = argc > 1 ? argv[1] : "connection_resumed", *thread = getenv("NETMOD_PROGRESS");
    char name[32];
    MPI_T_source_order order;
    MPI_Count ticks, most;
    MPI_T_event_registration handle;
    MPI_Request requests[64];

    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_source_get_num(&sources) == MPI_SUCCESS && sources == 1);
    length = sizeof name;
    CHECK(MPI_T_source_get_info(0, name, &length, NULL, NULL, &order, &ticks, &most, NULL) == MPI_SUCCESS);
    CHECK(order == MPI_T_SOURCE_ORDERED && ticks == 1000000000 && most > 0);
    CHECK(MPI_T_source_get_info(1, name, &length, NULL, NULL, &order, &ticks, &most, NULL) ==
          MPI_T_ERR_INVALID_INDEX);
    handle = handle_of(kind);
    is_multiple = argc > 2 && strcmp(argv[2], "multiple") == 0;
    self = pthread_self();
    MPI_Init_thread(&argc, &argv, is_multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    MPI_Sendrecv_replace(&number, 1, MPI_INT, other, 0, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(told == 0);
    if (strcmp(kind, "connection_lost") == 0) {
        MPI_Irecv(&number, 1, MPI_INT, other, 9, MPI_COMM_WORLD, requests);
        if (rank == 1)
            break_connections();
        /* A communicator without the other process goes on, also in the call that finds the loss. */
        while (told == 0)
            CHECK(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_SELF, &n, MPI_STATUS_IGNORE) == MPI_SUCCESS && n == 0);
        CHECK(MPI_Wait(requests, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    } else if (strcmp(kind, "connection_resumed") == 0) {
        if (rank == 1) {
            break_connections();
            CHECK(reads > 0);
        }
        if (thread != NULL && strcmp(thread, "thread") == 0) {
            double end = MPI_Wtime() + (is_multiple ? 20 : 0.1);

            while (MPI_Wtime() < end && __atomic_load_n(&told, __ATOMIC_ACQUIRE) == 0)
                usleep(1000);
            CHECK((told > 0) == is_multiple);
        }
        for (n = 0; n < 100; n++)
            CHECK(MPI_Sendrecv_replace(&number, 1, MPI_INT, other, 0, other, 0, MPI_COMM_WORLD,
                                       MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(number == 5);
    } else if (rank == 0) {
        for (n = 0; n < 64; n++)
            MPI_Isend(block, sizeof block, MPI_CHAR, 1, 1, MPI_COMM_WORLD, requests + n);
        MPI_Send(&number, 0, MPI_INT, 1, 2, MPI_COMM_WORLD);
        MPI_Waitall(64, requests, MPI_STATUSES_IGNORE);
    } else {
        for (n = 0; n < 64; n++)
            MPI_Recv(block, sizeof block, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&number, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_SELF, &n, MPI_STATUS_IGNORE);
    if (strcmp(kind, "peer_slow") != 0 || rank == 0) {
        CHECK(told >= 1);
        for (n = 0; n < told; n++)
            CHECK(peers[n] == other && (n == 0 || times[n] >= times[n - 1]));
    }
    n = told;
    CHECK(MPI_T_event_handle_free(handle, &freed, on_free) == MPI_SUCCESS && freed == 1);
    CHECK(MPI_T_event_handle_free(handle, &freed, on_free) == MPI_T_ERR_INVALID_HANDLE && freed == 1);
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && told == n);
    printf("rank %d: events ok\n", rank);
    fflush(stdout);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    MPI_Finalize();
    return 0;
}
