/* Derived datatypes beside loops written by hand: a line for each figure, as "struct:pack 1048575 48.2", in
 * microseconds.
 *
 *     layouts BYTES        two ranks; BYTES of data, about, in each long layout
 *
 * For each layout rank 0 prints, medians of turns in which each is run once:
 *     hand-pack, pack, hand-unpack, unpack     between memory and a buffer; rank 1 sleeps
 *     contiguous           the same bytes, not of a derived type, to rank 1 and an answer without bytes
 *     send, receive        the layout to bytes at rank 1, bytes of rank 1 to the layout; with the same answer
 * For the layout "types": create, the microseconds of a vector's and a struct's making, commit and end.
 *
 * What is packed, unpacked and received is compared with what the loops have made. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_TURNS 41
/* Seconds that all turns of a layout take, about. */
#define LIMIT 0.25
/* Calls of a short figure between two looks at the clock. */
#define SHORT_CALLS 2000
#define EDGE 512

static int rank;
/* The layout in memory, its packed bytes, and a copy of either. */
static unsigned char *memory, *packed, *copy;
static int *offsets, *lengths;
static MPI_Datatype type;
static int elements, calls;
/* Blocks, planes or lines of the loop by hand. */
static int count;
static size_t data, room;

#define MOVE(TYPE, MEMORY, PACKED) \
    do { \
        if (in) \
            memcpy((MEMORY), (PACKED), sizeof(TYPE)); \
        else \
            memcpy((PACKED), (MEMORY), sizeof(TYPE)); \
    } while (0)
/* A loop and its reverse, each a function of its own as a program would have it. */
#define LOOPS(NAME, BODY) \
    static inline __attribute__((always_inline)) void NAME(unsigned char *m, unsigned char *p, long n, int in) \
        BODY \
    static __attribute__((noinline)) void NAME##_out(unsigned char *m, unsigned char *p) { NAME(m, p, count, 0); } \
    static __attribute__((noinline)) void NAME##_in(unsigned char *m, unsigned char *p) { NAME(m, p, count, 1); }

struct record {
    int32_t number;
    double value;
    char text[3];
};
typedef unsigned char three[3];
typedef struct { uint64_t words[8]; } line;
typedef struct { uint64_t words[32]; } row;

LOOPS(every_second, {
    for (long i = 0; i < n; i++)
        MOVE(uint64_t, m + i * 16, p + i * 8);
})
LOOPS(every_second_line, {
    for (long i = 0; i < n; i++)
        MOVE(line, m + i * 128, p + i * 64);
})
LOOPS(listed, {
    for (long i = 0; i < n; i++)
        MOVE(uint64_t, m + offsets[i] * 8L, p + i * 8);
})
LOOPS(listed_lengths, {
    for (long i = 0; i < n; i++) {
        unsigned char *from = m + offsets[i] * 8L;
        for (int k = 0; k < lengths[i]; k++, p += 8)
            MOVE(uint64_t, from + k * 8, p);
    }
})
LOOPS(records, {
    for (long i = 0; i < n; i++) {
        MOVE(int32_t, m + i * 24, p + i * 15);
        MOVE(double, m + i * 24 + 8, p + i * 15 + 4);
        MOVE(three, m + i * 24 + 16, p + i * 15 + 12);
    }
})
LOOPS(short_rows, {
    for (long i = 0; i < n; i++)
        for (int k = 0; k < 8; k++)
            MOVE(int32_t, m + i * 96 + k * 8, p + i * 32 + k * 4);
})
LOOPS(boxes, {
    for (long i = 0; i < n; i++)
        for (int z = 0; z < 32; z++)
            for (int y = 0; y < 32; y++)
                MOVE(row, m + ((i * 64 + z) * 64 + y) * 512, p + ((i * 32 + z) * 32 + y) * 256);
})
LOOPS(columns, {
    for (long c = 0; c < n; c++)
        for (long r = 0; r < EDGE; r++)
            MOVE(double, m + (r * EDGE + c) * 8, p + (c * EDGE + r) * 8);
})

struct layout {
    const char *name;
    void (*out)(unsigned char *, unsigned char *), (*in)(unsigned char *, unsigned char *);
    /* Sets type, elements, count and data; returns the bytes of memory. */
    size_t (*make)(size_t bytes);
};

static size_t vector_of(int block, size_t bytes) {
    count = bytes / block;
    data = (size_t)count * block;
    MPI_Type_vector(count, block / 8, block / 4, MPI_DOUBLE, &type);
    return 2 * data;
}
static size_t make_vector_8(size_t bytes) { return vector_of(8, bytes); }
static size_t make_vector_64(size_t bytes) { return vector_of(64, bytes); }
static size_t make_small(size_t bytes) {
    (void)bytes;
    return vector_of(8, 32);
}
static size_t make_resized(size_t bytes) {
    elements = count = bytes / 8;
    data = count * 8L;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &type);
    return 2 * data;
}
/* Offsets in doubles, each 2 to 4 after the one before; lengths 1 and 2 in turn. */
static size_t make_offsets(int most, size_t bytes) {
    uint32_t random = 12345;
    int at = 0;
    data = 0;
    for (count = 0; data + 8 * most <= bytes; count++) {
        offsets[count] = at;
        lengths[count] = 1 + count % most;
        data += lengths[count] * 8;
        random = random * 1664525 + 1013904223;
        at += 2 + (random >> 24) % 3;
    }
    return (size_t)at * 8 + 64;
}
static size_t make_indexed_8(size_t bytes) {
    size_t all = make_offsets(1, bytes);
    MPI_Type_create_indexed_block(count, 1, offsets, MPI_DOUBLE, &type);
    return all;
}
static size_t make_indexed_8_16(size_t bytes) {
    size_t all = make_offsets(2, bytes);
    MPI_Type_indexed(count, lengths, offsets, MPI_DOUBLE, &type);
    return all;
}
static void record_type(MPI_Datatype *record) {
    int blocks[3] = {1, 1, 3};
    MPI_Aint places[3] = {0, 8, 16};
    MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    MPI_Type_create_struct(3, blocks, places, types, record);
}
static size_t make_struct(size_t bytes) {
    MPI_Datatype record;
    elements = count = bytes / 15;
    data = count * 15L;
    record_type(&record);
    MPI_Type_create_resized(record, 0, sizeof(struct record), &type);
    MPI_Type_free(&record);
    return count * sizeof(struct record);
}
static size_t make_vectors(size_t bytes) {
    MPI_Datatype inner;
    count = bytes / 32;
    data = count * 32L;
    MPI_Type_vector(8, 1, 2, MPI_INT, &inner);
    MPI_Type_create_hvector(count, 1, 96, inner, &type);
    MPI_Type_free(&inner);
    return count * 96L;
}
static size_t make_box(size_t bytes) {
    int whole[3] = {64, 64, 64}, part[3] = {32, 32, 32}, start[3] = {0, 0, 0};
    elements = count = bytes < 262144 ? 1 : bytes / 262144;
    data = count * 262144L;
    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    return count * 2097152L;
}
static size_t make_transpose(size_t bytes) {
    MPI_Datatype column, next;
    (void)bytes;
    count = EDGE;
    data = EDGE * EDGE * 8L;
    MPI_Type_vector(EDGE, 1, EDGE, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, 8, &next);
    MPI_Type_contiguous(EDGE, next, &type);
    MPI_Type_free(&column);
    MPI_Type_free(&next);
    return data;
}

static const struct layout layouts[] = {
    {"vector-8", every_second_out, every_second_in, make_vector_8},
    {"vector-64", every_second_line_out, every_second_line_in, make_vector_64},
    {"resized", every_second_out, every_second_in, make_resized},
    {"indexed-8", listed_out, listed_in, make_indexed_8},
    {"indexed-8-16", listed_lengths_out, listed_lengths_in, make_indexed_8_16},
    {"struct", records_out, records_in, make_struct},
    {"vectors", short_rows_out, short_rows_in, make_vectors},
    {"box", boxes_out, boxes_in, make_box},
    {"transpose", columns_out, columns_in, make_transpose},
    {"small", every_second_out, every_second_in, make_small},
};
static const struct layout *layout;

static void fail(const char *what) {
    fprintf(stderr, "layouts: %s: %s\n", layout ? layout->name : "all", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void hand_pack(void) { layout->out(memory, packed); }
static void hand_unpack(void) { layout->in(memory, packed); }
static void pack(void) {
    int at = 0;
    MPI_Pack(memory, elements, type, packed, data, &at, MPI_COMM_WORLD);
}
static void unpack(void) {
    int at = 0;
    MPI_Unpack(packed, data, &at, memory, elements, type, MPI_COMM_WORLD);
}

/* One message to rank 1, and the answer. */
static void there(const void *buffer, int n, MPI_Datatype of) {
    if (rank == 0) {
        MPI_Send(buffer, n, of, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(packed, data, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
}
static void contiguous(void) { there(packed, data, MPI_BYTE); }
static void send(void) { there(memory, elements, type); }
/* Rank 0 asks for a message of rank 1. */
static void receive(void) {
    if (rank == 0) {
        MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        MPI_Recv(memory, elements, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(packed, data, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}
static void make_types(void) {
    MPI_Datatype made;
    MPI_Type_vector(4, 1, 2, MPI_DOUBLE, &made);
    MPI_Type_commit(&made);
    MPI_Type_free(&made);
    record_type(&made);
    MPI_Type_commit(&made);
    MPI_Type_free(&made);
}

struct figure {
    const char *name;
    void (*run)(void);
    double turns[MOST_TURNS];
};
static struct figure alone[] = {
    {"hand-pack", hand_pack, {0}}, {"pack", pack, {0}}, {"hand-unpack", hand_unpack, {0}}, {"unpack", unpack, {0}}};
static struct figure together[] = {
    {"contiguous", contiguous, {0}}, {"send", send, {0}}, {"receive", receive, {0}}};
static struct figure types[] = {{"create", make_types, {0}}};

static int less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs each figure once in each turn; the first turn warms up. */
static void measure(const char *name, struct figure *figures, int n, int turns) {
    for (int turn = -1; turn < turns; turn++)
        for (int f = 0; f < n; f++) {
            double start = MPI_Wtime();
            for (int i = 0; i < calls; i++)
                figures[f].run();
            if (turn >= 0)
                figures[f].turns[turn] = (MPI_Wtime() - start) * 1e6 / calls;
        }
    for (int f = 0; rank == 0 && f < n; f++) {
        qsort(figures[f].turns, turns, sizeof(double), less);
        printf("%s:%s %zu %.9g\n", name, figures[f].name, data, figures[f].turns[turns / 2]);
    }
    fflush(stdout);
}

/* Turns of figures that take so many seconds together. */
static int turns_of(double seconds) {
    double turns = LIMIT / (seconds > 1e-9 ? seconds : 1e-9);
    return turns > MOST_TURNS ? MOST_TURNS : turns < 5 ? 5 : (int)turns;
}

static double seconds_of(struct figure *figures, int n) {
    double start = MPI_Wtime();
    for (int f = 0; f < n; f++)
        for (int i = 0; i < calls; i++)
            figures[f].run();
    return MPI_Wtime() - start;
}

static void fill(unsigned char *bytes, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)((i + seed) * 2654435761u >> 13);
}

/* Compares what is packed, if anything is, and what arrives in memory with what the loops make. */
static void compare(void (*to_packed)(void), void (*to_memory)(void)) {
    fill(memory, room, 1);
    fill(packed, data, 2);
    hand_pack();
    memcpy(copy, packed, data);
    fill(packed, data, 3);
    if (to_packed) {
        to_packed();
        if (memcmp(copy, packed, data) != 0)
            fail("other bytes are packed than by hand");
    }
    fill(packed, data, 4);
    hand_unpack();
    memcpy(copy, memory, room);
    fill(memory, room, 1);
    to_memory();
    if (memcmp(copy, memory, room) != 0)
        fail("other bytes are unpacked than by hand");
}

/* Until rank 0 has done its work alone, which a rank that polls would disturb. */
static void sleep_until_called(void) {
    int called = 0;
    const struct timespec pause = {0, 1000000};
    while (!called) {
        nanosleep(&pause, NULL);
        MPI_Iprobe(0, 3, MPI_COMM_WORLD, &called, MPI_STATUS_IGNORE);
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void one(size_t bytes) {
    elements = 1;
    room = layout->make(bytes);
    calls = data < 4096 ? SHORT_CALLS : 1;
    MPI_Type_commit(&type);
    if (posix_memalign((void **)&memory, 4096, room) || posix_memalign((void **)&packed, 4096, data) ||
        posix_memalign((void **)&copy, 4096, room))
        fail("no memory");
    fill(memory, room, 1);
    fill(packed, data, 4);
    int turns = 0;
    if (rank == 0) {
        compare(pack, unpack);
        measure(layout->name, alone, 4, turns_of(seconds_of(alone, 4)));
        MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    } else {
        sleep_until_called();
    }
    if (rank == 0)
        compare(NULL, receive);
    else
        receive();
    fill(memory, room, 1);
    if (rank == 0)
        hand_pack();
    send();
    if (rank == 1) {
        memcpy(copy, packed, data);
        hand_pack();
        if (memcmp(copy, packed, data) != 0)
            fail("other bytes arrive than are packed by hand");
    }
    if (rank == 0)
        turns = turns_of(seconds_of(together, 3));
    else
        seconds_of(together, 3);
    MPI_Bcast(&turns, 1, MPI_INT, 0, MPI_COMM_WORLD);
    measure(layout->name, together, 3, turns);
    MPI_Type_free(&type);
    free(memory);
    free(packed);
    free(copy);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t bytes = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    if (ranks != 2 || bytes < 4096 || bytes > 1 << 28) {
        fprintf(stderr, "layouts: wants two ranks, and 4096 to 268435456 BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    offsets = malloc(bytes / 8 * sizeof(int));
    lengths = malloc(bytes / 8 * sizeof(int));
    if (!offsets || !lengths)
        fail("no memory");
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        layout = &layouts[k];
        one(bytes);
    }
    data = 0;
    calls = SHORT_CALLS;
    if (rank == 0)
        measure("types", types, 1, MOST_TURNS);
    MPI_Finalize();
    return 0;
}
