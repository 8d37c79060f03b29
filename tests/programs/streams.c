/* Streams and their communicators: messages between streams match on the indices of both. Prints
 * "rank N: streams ok". */
#include "check.h"

#include <pthread.h>
#include <string.h>

enum { STREAMS = 3, LONG = 1 << 19 };

static int rank, size, next, before;

static int class_of(int code)
{
    int class = MPI_SUCCESS;

    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

static void one_stream(void)
{
    MPIX_Stream stream, other = MPIX_STREAM_NULL, found;
    MPI_Comm comm, twin;
    MPI_Request request;
    int sum, n, mine = rank + 1;

    CHECK(MPIX_Stream_create(MPI_INFO_NULL, &stream) == MPI_SUCCESS && stream != MPIX_STREAM_NULL);
    CHECK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm) == MPI_SUCCESS);
    CHECK(MPIX_Comm_get_stream(comm, 0, &found) == MPI_SUCCESS && found == stream);
    MPIX_Comm_get_stream(comm, 1, &found);
    CHECK(found == MPIX_STREAM_NULL);
    MPIX_Comm_get_stream(MPI_COMM_WORLD, 0, &found);
    CHECK(found == MPIX_STREAM_NULL);
    MPI_Comm_compare(comm, MPI_COMM_WORLD, &n);
    CHECK(n == MPI_CONGRUENT);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size * (size + 1) / 2);
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 1, &n, 1, MPI_INT, before, 1, comm, MPI_STATUS_IGNORE);
    CHECK(n == before);
    /* It has no indices. */
    CHECK(class_of(MPIX_Stream_send(&rank, 1, MPI_INT, next, 1, comm, 0, 0)) == MPI_ERR_OTHER);
    CHECK(class_of(MPIX_Stream_recv(&n, 1, MPI_INT, next, 1, MPI_COMM_WORLD, 0, 0, MPI_STATUS_IGNORE)) ==
          MPI_ERR_OTHER);

    MPI_Comm_dup(comm, &twin);
    MPI_Comm_free(&comm);
    MPIX_Comm_get_stream(twin, 0, &found);
    CHECK(found == stream);
    CHECK(class_of(MPIX_Stream_free(&stream)) == MPI_ERR_OTHER && stream == found);
    MPI_Comm_idup(twin, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&twin);
    MPIX_Comm_get_stream(comm, 0, &found);
    CHECK(found == stream);
    MPI_Comm_free(&comm);
    CHECK(MPIX_Stream_progress(stream) == MPI_SUCCESS);
    CHECK(MPIX_Stream_free(&stream) == MPI_SUCCESS && stream == MPIX_STREAM_NULL);
    CHECK(MPIX_Stream_progress(found) != MPI_SUCCESS && MPIX_Stream_free(&other) != MPI_SUCCESS);
    CHECK(MPIX_Stream_comm_create(MPI_COMM_SELF, MPIX_STREAM_NULL, &comm) == MPI_SUCCESS);
    MPI_Comm_free(&comm);
}

/* Messages with the same tag go from each stream to each. They are received in the other order. */
static void all_pairs(MPI_Comm comm)
{
    int out[STREAMS][STREAMS], in[STREAMS][STREAMS], n = 0;
    MPI_Request requests[2 * STREAMS * STREAMS];
    MPI_Status status;

    for (int from = 0; from < STREAMS; from++)
        for (int to = 0; to < STREAMS; to++) {
            out[from][to] = 100 * rank + 10 * from + to;
            MPIX_Stream_isend(&out[from][to], 1, MPI_INT, next, 3, comm, from, to, &requests[n++]);
        }
    for (int from = STREAMS - 1; from >= 0; from--)
        for (int to = 0; to < STREAMS; to++)
            MPIX_Stream_irecv(&in[from][to], 1, MPI_INT, before, 3, comm, from, to, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int from = 0; from < STREAMS; from++)
        for (int to = 0; to < STREAMS; to++)
            CHECK(in[from][to] == 100 * before + 10 * from + to);

    /* The first streams are those of MPI's own functions. */
    MPI_Isend(&rank, 1, MPI_INT, next, 4, comm, &requests[0]);
    MPIX_Stream_recv(&n, 1, MPI_INT, before, 4, comm, 0, 0, &status);
    CHECK(n == before && status.MPI_SOURCE == before && status.MPI_TAG == 4);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPIX_Stream_isend(&rank, 1, MPI_INT, next, 5, comm, 0, 0, &requests[0]);
    MPI_Recv(&n, 1, MPI_INT, before, 5, comm, MPI_STATUS_IGNORE);
    CHECK(n == before);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);

    /* One between other streams is not seen by a receive or a probe between these. */
    MPIX_Stream_isend(&rank, 1, MPI_INT, rank, 6, comm, 1, 2, &requests[0]);
    MPI_Iprobe(MPI_ANY_SOURCE, 6, comm, &n, MPI_STATUS_IGNORE);
    CHECK(!n);
    n = -1;
    MPIX_Stream_recv(&n, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, 1, 2, &status);
    CHECK(n == rank && status.MPI_SOURCE == rank && status.MPI_TAG == 6);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPIX_Stream_recv(&n, 1, MPI_INT, MPI_PROC_NULL, 6, comm, 0, 0, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    MPIX_Stream_send(&n, 1, MPI_INT, MPI_PROC_NULL, 6, comm, 0, 0);
}

static void long_messages(MPI_Comm comm)
{
    char *out = malloc(LONG), *in = calloc(LONG, 1);
    MPI_Request request;
    MPI_Status status;
    int n;

    memset(out, rank + 1, LONG);
    MPIX_Stream_irecv(in, LONG, MPI_CHAR, before, 7, comm, 2, 1, &request);
    MPIX_Stream_send(out, LONG, MPI_CHAR, next, 7, comm, 2, 1);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_CHAR, &n);
    CHECK(n == LONG && in[0] == before + 1 && in[LONG - 1] == before + 1);
    MPIX_Stream_irecv(in, 8, MPI_CHAR, before, 8, comm, 2, 1, &request);
    MPIX_Stream_send(out, 16, MPI_CHAR, next, 8, comm, 2, 1);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPI_ERR_TRUNCATE);
    free(in);
    free(out);
}

/* Each thread has a stream, and a conversation with that of another process. */
struct talk {
    MPI_Comm comm;
    int index;
};

static void *talk(void *argument)
{
    const struct talk *mine = argument;
    int n, other = (mine->index + 1) % STREAMS;
    MPI_Request request;

    for (int round = 0; round < 100; round++) {
        int out = 1000 * mine->index + round;

        MPIX_Stream_isend(&out, 1, MPI_INT, next, 9, mine->comm, mine->index, other, &request);
        MPIX_Stream_recv(&n, 1, MPI_INT, before, 9, mine->comm, (mine->index + STREAMS - 1) % STREAMS, mine->index,
                         MPI_STATUS_IGNORE);
        CHECK(n == 1000 * ((mine->index + STREAMS - 1) % STREAMS) + round);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return NULL;
}

static void several_streams(int threads)
{
    MPIX_Stream streams[STREAMS], found;
    MPI_Comm comm, twin, uneven;
    struct talk talks[STREAMS];
    pthread_t all[STREAMS];
    int n, sum, mine = 1;

    for (int i = 0; i < STREAMS - 1; i++)
        MPIX_Stream_create(MPI_INFO_NULL, &streams[i]);
    streams[STREAMS - 1] = MPIX_STREAM_NULL;
    CHECK(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, STREAMS, streams, &comm) == MPI_SUCCESS);
    for (int i = 0; i < STREAMS; i++) {
        MPIX_Comm_get_stream(comm, i, &found);
        CHECK(found == streams[i]);
    }
    all_pairs(comm);
    long_messages(comm);
    MPI_Comm_dup(comm, &twin);
    all_pairs(twin);
    MPI_Comm_free(&twin);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size);
    if (threads) {
        for (int i = 0; i < STREAMS; i++) {
            talks[i] = (struct talk){comm, i};
            pthread_create(&all[i], NULL, talk, &talks[i]);
        }
        for (int i = 0; i < STREAMS; i++)
            pthread_join(all[i], NULL);
    }
    CHECK(class_of(MPIX_Stream_send(&n, 1, MPI_INT, next, 3, comm, -1, 0)) == MPI_ERR_ARG);
    CHECK(class_of(MPIX_Stream_send(&n, 1, MPI_INT, next, 3, comm, 0, STREAMS)) == MPI_ERR_OTHER);
    CHECK(class_of(MPIX_Stream_send(&n, 1, MPI_INT, size, 3, comm, 0, 0)) == MPI_ERR_RANK);
    CHECK(class_of(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, -1, streams, &twin)) == MPI_ERR_ARG);
    MPI_Comm_free(&comm);

    /* Rank r has r streams; rank 0 none, which is the null stream. */
    CHECK(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, rank < 2 ? rank : 2, streams, &uneven) == MPI_SUCCESS);
    MPIX_Comm_get_stream(uneven, 0, &found);
    CHECK(found == (rank == 0 ? MPIX_STREAM_NULL : streams[0]));
    CHECK(class_of(MPIX_Stream_send(&n, 1, MPI_INT, 0, 3, uneven, 0, 1)) == MPI_ERR_OTHER);
    if (size > 2 && rank == 2)
        MPIX_Stream_send(&rank, 1, MPI_INT, 1, 3, uneven, 1, 0);
    if (size > 2 && rank == 1) {
        MPIX_Stream_recv(&n, 1, MPI_INT, 2, 3, uneven, 1, 0, MPI_STATUS_IGNORE);
        CHECK(n == 2);
    }

    /* A receive between streams ends when the communicator is revoked. */
    {
        MPI_Request request;

        MPIX_Stream_irecv(&n, 1, MPI_INT, rank, 3, uneven, 0, 0, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        MPIX_Comm_revoke(uneven);
        CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    }
    CHECK(class_of(MPIX_Stream_send(&n, 1, MPI_INT, rank, 3, uneven, 0, 0)) == MPIX_ERR_REVOKED);
    MPI_Comm_free(&uneven);
    CHECK(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, STREAMS, streams, &comm) == MPI_SUCCESS);
    {
        MPI_Request request;

        MPIX_Stream_irecv(&n, 1, MPI_INT, rank, 3, comm, 1, 2, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        MPIX_Comm_revoke(comm);
        CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
        CHECK(class_of(MPIX_Stream_send(&n, 1, MPI_INT, rank, 3, comm, 1, 2)) == MPIX_ERR_REVOKED);
    }
    MPI_Comm_free(&comm);
    for (int i = 0; i < STREAMS - 1; i++)
        CHECK(MPIX_Stream_free(&streams[i]) == MPI_SUCCESS);
}

static void accelerators(void)
{
    const char *types[] = {"cudaStream_t", "hipStream_t"};
    MPIX_Stream stream;
    MPI_Request request;
    MPI_Info info;
    int n = 0, length, code;
    char text[MPI_MAX_ERROR_STRING];

    MPI_Info_create(&info);
    for (int i = 0; i < 2; i++) {
        MPI_Info_set(info, "type", types[i]);
        MPIX_Info_set_hex(info, "value", &n, sizeof n);
        code = MPIX_Stream_create(info, &stream);
        CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_OPERATION);
        MPI_Error_string(code, text, &length);
        CHECK(strstr(text, "accelerators are not supported") != NULL);
    }
    MPI_Info_set(info, "type", "general");
    CHECK(MPIX_Stream_create(info, &stream) == MPI_SUCCESS && MPIX_Stream_free(&stream) == MPI_SUCCESS);
    MPI_Info_free(&info);
    /* Each of these needs a stream of one. */
    CHECK(class_of(MPIX_Send_enqueue(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_OTHER);
    CHECK(class_of(MPIX_Recv_enqueue(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) == MPI_ERR_OTHER);
    CHECK(class_of(MPIX_Isend_enqueue(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request)) == MPI_ERR_OTHER);
    CHECK(class_of(MPIX_Irecv_enqueue(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request)) == MPI_ERR_OTHER);
    CHECK(class_of(MPIX_Allreduce_enqueue(&n, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_OTHER);
    request = MPI_REQUEST_NULL;
    CHECK(class_of(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE)) == MPI_ERR_OTHER);
    code = MPIX_Waitall_enqueue(1, &request, MPI_STATUSES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_OTHER);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "accelerators are not supported") != NULL);
}

int main(int argc, char **argv)
{
    int level, wanted = argc > 1 && strcmp(argv[1], "single") == 0 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;

    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    one_stream();
    several_streams(wanted == MPI_THREAD_MULTIPLE);
    accelerators();
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d: streams ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
