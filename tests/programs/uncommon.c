/* Functions that few programs call, each with what it is to give: requests and statuses, buffers of communicators and
 * sessions, neighbours, files in two steps, and numbers of handles. 2 ranks; argument: a folder for a file.
 *
 * Prints "rank N: uncommon ok". */
#include "check.h"

#include <string.h>

enum { TAG = 7, VALUES = 1000 };

static int rank, size, peer;

static void requests(void)
{
    int got[2] = { -1, -1 }, flag = 1, at = 9, count = 9, indices[2] = { 9, 9 };
    MPI_Request both[2];
    MPI_Status statuses[2], status;

    MPI_Irecv(&got[0], 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &both[0]);
    MPI_Irecv(&got[1], 1, MPI_INT, peer, TAG + 1, MPI_COMM_WORLD, &both[1]);
    MPI_Request_get_status_all(2, both, &flag, statuses);
    CHECK(!flag);
    MPI_Request_get_status_any(2, both, &at, &flag, &status);
    CHECK(!flag);
    MPI_Request_get_status_some(2, both, &count, indices, statuses);
    CHECK(count == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&rank, 1, MPI_INT, peer, TAG + 1, MPI_COMM_WORLD);
    do
        MPI_Request_get_status_any(2, both, &at, &flag, &status);
    while (!flag);
    CHECK(at == 1 && status.MPI_TAG == TAG + 1);
    MPI_Request_get_status_some(2, both, &count, indices, statuses);
    CHECK(count == 1 && indices[0] == 1 && statuses[0].MPI_SOURCE == peer);
    MPI_Request_get_status_all(2, both, &flag, statuses);
    CHECK(!flag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&rank, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD);
    do
        MPI_Request_get_status_all(2, both, &flag, statuses);
    while (!flag);
    /* They are not freed by that. */
    CHECK(both[0] != MPI_REQUEST_NULL && both[1] != MPI_REQUEST_NULL);
    MPI_Waitall(2, both, statuses);
    CHECK(got[0] == peer && got[1] == peer);

    int value = 0;
    MPI_Status_get_source(&statuses[0], &value);
    CHECK(value == peer);
    MPI_Status_get_tag(&statuses[0], &value);
    CHECK(value == TAG);
    MPI_Status_set_source(&statuses[0], 3);
    MPI_Status_set_tag(&statuses[0], 4);
    MPI_Status_set_error(&statuses[0], MPI_ERR_ARG);
    CHECK(statuses[0].MPI_SOURCE == 3 && statuses[0].MPI_TAG == 4 && statuses[0].MPI_ERROR == MPI_ERR_ARG);
    MPI_Status_get_error(&statuses[0], &value);
    CHECK(value == MPI_ERR_ARG);
}

/* A buffered send by a communicator, whose buffer is empty when a flush ends. */
static void buffered(MPI_Comm comm, MPI_Session session)
{
    static char room[VALUES * sizeof(int) + MPI_BSEND_OVERHEAD];
    int sent[VALUES], got[VALUES], i, bytes = 0;
    void *at = NULL;
    MPI_Request receive, flush;

    for (i = 0; i < VALUES; i++)
        sent[i] = rank + i;
    if (session != MPI_SESSION_NULL)
        MPI_Session_attach_buffer(session, room, sizeof room);
    else if (comm == MPI_COMM_WORLD)
        MPI_Buffer_attach(room, sizeof room);
    else
        MPI_Comm_attach_buffer(comm, room, sizeof room);
    for (i = 0; i < 2; i++) {
        MPI_Irecv(got, VALUES, MPI_INT, peer, TAG, comm, &receive);
        MPI_Bsend(sent, VALUES, MPI_INT, peer, TAG, comm);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        CHECK(got[VALUES - 1] == peer + VALUES - 1);
        if (i == 0 && session != MPI_SESSION_NULL)
            MPI_Session_flush_buffer(session);
        else if (i == 0 && comm == MPI_COMM_WORLD)
            MPI_Buffer_flush();
        else if (i == 0)
            MPI_Comm_flush_buffer(comm);
        else if (session != MPI_SESSION_NULL)
            MPI_Session_iflush_buffer(session, &flush);
        else if (comm == MPI_COMM_WORLD)
            MPI_Buffer_iflush(&flush);
        else
            MPI_Comm_iflush_buffer(comm, &flush);
    }
    MPI_Wait(&flush, MPI_STATUS_IGNORE);
    if (session != MPI_SESSION_NULL)
        MPI_Session_detach_buffer(session, &at, &bytes);
    else if (comm == MPI_COMM_WORLD)
        MPI_Buffer_detach(&at, &bytes);
    else
        MPI_Comm_detach_buffer(comm, &at, &bytes);
    CHECK(at == (void *)room && bytes == (int)sizeof room);
}

static void sessions(void)
{
    MPI_Session session;
    MPI_Errhandler handler;
    MPI_Group group;
    MPI_Comm comm;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
    MPI_Session_get_errhandler(session, &handler);
    CHECK(handler == MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "uncommon", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    buffered(comm, session);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    CHECK(session == MPI_SESSION_NULL);
}

/* A ring of two: each of the two neighbours is the peer. */
static void neighbours(void)
{
    int dims = 2, ring = 1, counts[2] = { 1, 1 }, places[2] = { 0, 1 }, sent[2], got[2];
    int index[2] = { 1, 2 }, edges[2] = { 1, 0 }, found = -1, near = -1;
    MPI_Aint offsets[2] = { 0, sizeof(int) };
    MPI_Datatype types[2] = { MPI_INT, MPI_INT };
    MPI_Comm cart, graph;
    MPI_Request done;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &dims, &ring, 0, &cart);
    for (int kind = 0; kind < 5; kind++) {
        sent[0] = 10 * rank;
        sent[1] = 10 * rank + 1;
        got[0] = got[1] = -1;
        if (kind == 0)
            MPI_Ineighbor_allgather(sent, 1, MPI_INT, got, 1, MPI_INT, cart, &done);
        else if (kind == 1)
            MPI_Ineighbor_allgatherv(sent, 1, MPI_INT, got, counts, places, MPI_INT, cart, &done);
        else if (kind == 2)
            MPI_Ineighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, cart, &done);
        else if (kind == 3)
            MPI_Ineighbor_alltoallv(sent, counts, places, MPI_INT, got, counts, places, MPI_INT, cart, &done);
        else
            MPI_Ineighbor_alltoallw(sent, counts, offsets, types, got, counts, offsets, types, cart, &done);
        MPI_Wait(&done, MPI_STATUS_IGNORE);
        if (kind < 2)
            CHECK(got[0] == 10 * peer && got[1] == 10 * peer);
        else
            CHECK(got[0] == 10 * peer + 1 && got[1] == 10 * peer);
    }
    MPI_Comm_free(&cart);

    MPI_Graph_create(MPI_COMM_WORLD, 2, index, edges, 0, &graph);
    MPI_Graph_neighbors_count(graph, rank, &found);
    MPI_Graph_neighbors(graph, rank, 1, &near);
    CHECK(found == 1 && near == peer);
    MPI_Comm_free(&graph);
}

static void in_two_steps(const char *folder)
{
    char name[2000];
    int mine[4], all[8], got[4], i;
    MPI_File file;
    MPI_Request done;
    MPI_Status status;
    MPI_Offset own = rank * (MPI_Offset)sizeof mine;

    snprintf(name, sizeof name, "%s/uncommon", folder);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
        &file);
    for (i = 0; i < 4; i++)
        mine[i] = 100 * rank + i;
    MPI_File_write_ordered_begin(file, mine, 4, MPI_INT);
    MPI_File_write_ordered_end(file, mine, &status);
    MPI_Get_count(&status, MPI_INT, &i);
    CHECK(i == 4);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered_begin(file, got, 4, MPI_INT);
    MPI_File_read_ordered_end(file, got, &status);
    CHECK(memcmp(got, mine, sizeof got) == 0);

    MPI_File_seek(file, own, MPI_SEEK_SET);
    for (i = 0; i < 4; i++)
        mine[i] += 1000;
    MPI_File_write_all_begin(file, mine, 4, MPI_INT);
    MPI_File_write_all_end(file, mine, &status);
    MPI_File_seek(file, own, MPI_SEEK_SET);
    MPI_File_read_all_begin(file, got, 4, MPI_INT);
    MPI_File_read_all_end(file, got, &status);
    CHECK(memcmp(got, mine, sizeof got) == 0);
    for (i = 0; i < 4; i++)
        mine[i] += 1000;
    MPI_File_write_at_all_begin(file, own, mine, 4, MPI_INT);
    MPI_File_write_at_all_end(file, mine, &status);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);

    /* By the shared pointer each reads one half, in whichever order, and writes one. */
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_iread_shared(file, got, 4, MPI_INT, &done);
    MPI_Wait(&done, &status);
    CHECK(got[0] == 2000 || got[0] == 2100);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    for (i = 0; i < 4; i++)
        mine[i] = 5;
    MPI_File_iwrite_shared(file, mine, 4, MPI_INT, &done);
    MPI_Wait(&done, &status);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_read_at_all(file, 0, all, 8, MPI_INT, &status);
    for (i = 0; i < 8; i++)
        CHECK(all[i] == 5);
    MPI_File_close(&file);
}

/* Numbers of handles are none of others, and name the same handles. */
static void numbers(void)
{
#ifdef MPI_ABI_VERSION
    MPI_Group group;
    MPI_Request request;
    MPI_Info info;

    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Info_create(&info);
    MPI_Irecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    CHECK(MPI_Group_fromint(MPI_Group_toint(group)) == group);
    CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
    CHECK(MPI_Request_fromint(MPI_Request_toint(request)) == request);
    CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_MAXLOC)) == MPI_MAXLOC);
    CHECK(MPI_Message_fromint(MPI_Message_toint(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
    CHECK(MPI_Session_fromint(MPI_Session_toint(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Info_free(&info);
    MPI_Group_free(&group);

    int sent[2] = { rank, rank }, got[2] = { -1, -1 };
    MPI_Request both[2];
    MPI_Psend_init_c(sent, 2, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]);
    MPI_Precv_init_c(got, 1, 2, MPI_INT, peer, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]);
    MPI_Startall(2, both);
    MPI_Pready(0, both[0]);
    MPI_Pready(1, both[0]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    CHECK(got[0] == peer && got[1] == peer);
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
#else
    MPI_Status status, back;
    MPI_Fint words[MPI_F_STATUS_SIZE];
    MPI_F08_status modern;

    memset(&status, 0, sizeof status);
    status.MPI_SOURCE = 3;
    status.MPI_TAG = 4;
    status.MPI_ERROR = 5;
    CHECK(MPI_Session_f2c(MPI_Session_c2f(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Errhandler_f2c(MPI_Errhandler_c2f(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    CHECK(MPI_Group_f2c(MPI_Group_c2f(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    CHECK(MPI_Info_f2c(MPI_Info_c2f(MPI_INFO_ENV)) == MPI_INFO_ENV);
    CHECK(MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
    CHECK(MPI_Op_f2c(MPI_Op_c2f(MPI_MAXLOC)) == MPI_MAXLOC);
    CHECK(MPI_Request_f2c(MPI_Request_c2f(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
    MPI_Datatype indexed;
    MPI_Aint shift = 8, lower, extent;
    int length = 2;
    MPI_Type_hindexed(1, &length, &shift, MPI_INT, &indexed);
    MPI_Type_get_extent(indexed, &lower, &extent);
    CHECK(lower == 8 && extent == 2 * (MPI_Aint)sizeof(int));
    MPI_Type_free(&indexed);
    MPI_Status_c2f(&status, words);
    memset(&back, 0, sizeof back);
    MPI_Status_f2c(words, &back);
    CHECK(memcmp(&status, &back, sizeof back) == 0);
    MPI_Status_c2f08(&status, &modern);
    memset(&back, 0, sizeof back);
    MPI_Status_f082c(&modern, &back);
    CHECK(memcmp(&status, &back, sizeof back) == 0);
    MPI_Fint again[MPI_F_STATUS_SIZE];
    memset(&modern, 0, sizeof modern);
    MPI_Status_f2f08(words, &modern);
    MPI_Status_f082f(&modern, again);
    CHECK(memcmp(words, again, sizeof again) == 0);
    MPI_Errhandler handler;
    MPI_Errhandler_get(MPI_COMM_WORLD, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
#endif
}

static void types(void)
{
    MPI_Datatype pair = MPI_DATATYPE_NULL, vector;
    MPI_Info hardware;
    int keys = -1, main_thread = 0;

    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair);
    CHECK(pair == MPI_DOUBLE_INT);
    MPI_Type_vector(3, 2, 5, MPI_INT, &vector);
    MPI_Count integers, addresses, counts, datatypes, large[3];
    int combiner, small[3];
    MPI_Aint none;
    MPI_Datatype old;
    MPI_Type_get_envelope_c(vector, &integers, &addresses, &counts, &datatypes, &combiner);
    CHECK(combiner == MPI_COMBINER_VECTOR && integers == 3 && addresses == 0 && counts == 0 && datatypes == 1);
    MPI_Type_get_contents_c(vector, 3, 0, 0, 1, small, &none, large, &old);
    CHECK(small[0] == 3 && small[1] == 2 && small[2] == 5 && old == MPI_INT);
    MPI_Type_get_true_extent_x(vector, &integers, &counts);
    CHECK(integers == 0 && counts == 12 * (MPI_Count)sizeof(int));
    MPI_Type_free(&vector);

    /* Each puts its rank into the memory of the other one. */
    int *memory;
    MPI_Win win;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    MPI_Put(&rank, 1, MPI_INT, peer, 0, 1, MPI_INT, win);
    MPI_Win_flush_local_all(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(*memory == peer);
    MPI_Win_free(&win);
    MPI_Get_hw_resource_info(&hardware);
    MPI_Info_get_nkeys(hardware, &keys);
    CHECK(keys > 0);
    MPI_Info_free(&hardware);
    MPI_Pcontrol(1);
    MPI_Is_thread_main(&main_thread);
    CHECK(main_thread);
}

int main(int argc, char **argv)
{
    MPI_Comm copy;

    MPI_Init(&argc, &argv);
    CHECK(argc == 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size == 2);
    peer = 1 - rank;
    requests();
    buffered(MPI_COMM_WORLD, MPI_SESSION_NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    buffered(copy, MPI_SESSION_NULL);
    MPI_Comm_free(&copy);
    sessions();
    neighbours();
    in_two_steps(argv[1]);
    numbers();
    types();
    MPI_Finalize();
    printf("rank %d: uncommon ok\n", rank);
    return 0;
}
