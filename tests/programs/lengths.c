/* Sends around the ranks messages of each length where something changes: nothing, what fits into
 * a header, a page, the eager limit (the argument), MiBs; packed and with gaps, in every mode.
 * Prints "rank N: lengths ok". */
#include "check.h"

#include <string.h>

/* Bytes side by side in a layout with gaps, and from the begin of one block to the next. */
#define BLOCK 24
#define STRIDE 40
#define LONGEST ((2 << 20) + 1)
#define GAP 0x5a

static int rank, size, left, right;
static unsigned char *out, *in, *buffer;

/* Returns the bytes that a message of so many bytes spans in memory. */
static size_t span(int length, int gaps)
{
    return gaps ? (size_t)(length / BLOCK) * STRIDE + length % BLOCK : (size_t)length;
}

/* Makes the type of a whole message: blocks with gaps between them, and a shorter last one. */
static MPI_Datatype layout(int length, int gaps)
{
    int lengths[2] = {1, length % BLOCK};
    MPI_Aint places[2] = {0, (MPI_Aint)(length / BLOCK) * STRIDE};
    MPI_Datatype types[2] = {MPI_BYTE, MPI_BYTE}, whole;

    if (gaps) {
        MPI_Type_vector(length / BLOCK, BLOCK, STRIDE, MPI_BYTE, &types[0]);
        MPI_Type_create_struct(2, lengths, places, types, &whole);
        MPI_Type_free(&types[0]);
    } else {
        MPI_Type_contiguous(length, MPI_BYTE, &whole);
    }
    MPI_Type_commit(&whole);
    return whole;
}

/* Returns byte i of a message from a rank. */
static unsigned char byte(int from, int length, int i)
{
    return (unsigned char)((i * 7u + from * 31u + length) % 251u);
}

static void fill(int length, int gaps)
{
    for (int i = 0; i < length; i++)
        out[gaps ? (size_t)(i / BLOCK) * STRIDE + i % BLOCK : (size_t)i] = byte(rank, length, i);
}

/* Checks the bytes of a message from the left, the gaps between them, and what is behind it. */
static void look(int length, int gaps)
{
    size_t at = 0, end = span(length, gaps);

    for (int i = 0; i < length; i++, at++) {
        if (gaps && i > 0 && i % BLOCK == 0)
            for (int gap = BLOCK; gap < STRIDE; gap++, at++)
                CHECK(in[at] == GAP);
        CHECK(in[at] == byte(left, length, i));
    }
    CHECK(at <= end && in[end] == GAP);
}

enum mode { SEND, SSEND, BSEND, RSEND, ISEND, ISSEND, IBSEND, IRSEND, PLAIN, SYNC, BUFFERED, READY, BOTH, MODES };

/* Receives from the left, and sends to the right in a mode. */
static void exchange(enum mode mode, int length, MPI_Datatype sent, MPI_Datatype received)
{
    static int (*const blocking[])(const void *, int, MPI_Datatype, int, int, MPI_Comm) = {
        MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
    static int (*const at_once[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
        MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend, MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init, MPI_Rsend_init};
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    int tag = mode, count;

    if (mode == BOTH) {
        MPI_Sendrecv(out, 1, sent, right, tag, in, 1, received, left, tag, MPI_COMM_WORLD, &statuses[0]);
    } else {
        MPI_Irecv(in, 1, received, left, tag, MPI_COMM_WORLD, &requests[0]);
        /* A ready message must not be sent before its receive is posted. */
        if (mode == RSEND || mode == IRSEND || mode == READY)
            MPI_Sendrecv(NULL, 0, MPI_BYTE, left, MODES, NULL, 0, MPI_BYTE, right, MODES, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        if (mode < ISEND)
            CHECK(blocking[mode](out, 1, sent, right, tag, MPI_COMM_WORLD) == MPI_SUCCESS);
        else
            CHECK(at_once[mode - ISEND](out, 1, sent, right, tag, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
        if (mode >= PLAIN)
            CHECK(MPI_Start(&requests[1]) == MPI_SUCCESS);
        CHECK(MPI_Waitall(2, requests, statuses) == MPI_SUCCESS);
        CHECK(requests[0] == MPI_REQUEST_NULL && (requests[1] != MPI_REQUEST_NULL) == (mode >= PLAIN));
        if (mode >= PLAIN)
            MPI_Request_free(&requests[1]);
    }
    MPI_Get_count(&statuses[0], MPI_BYTE, &count);
    CHECK(statuses[0].MPI_SOURCE == left && statuses[0].MPI_TAG == tag && count == length);
}

static void all_modes(int length, int gaps_out, int gaps_in)
{
    MPI_Datatype sent = layout(length, gaps_out), received = layout(length, gaps_in);

    fill(length, gaps_out);
    for (enum mode mode = SEND; mode < MODES; mode++) {
        memset(in, GAP, span(length, gaps_in) + 1);
        exchange(mode, length, sent, received);
        look(length, gaps_in);
    }
    MPI_Type_free(&sent);
    MPI_Type_free(&received);
}

int main(int argc, char **argv)
{
    int eager = argc > 1 ? atoi(argv[1]) : 1 << 17;
    int lengths[] = {0,         1,     8,         31,        32,        33,      255,     4095,   4097,
                     eager - 1, eager, eager + 1, 2 * eager, 1 << 20, (1 << 20) + 3, LONGEST};
    int room = LONGEST + MPI_BSEND_OVERHEAD;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    out = malloc(span(LONGEST, 1));
    in = malloc(span(LONGEST, 1) + 1);
    buffer = malloc(room);
    CHECK(out && in && buffer);
    MPI_Buffer_attach(buffer, room);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int gaps = 0; gaps < 4; gaps++)
            all_modes(lengths[i], gaps & 1, gaps >> 1);
    MPI_Buffer_detach(&buffer, &room);
    free(out);
    free(in);
    free(buffer);
    printf("rank %d: lengths ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
