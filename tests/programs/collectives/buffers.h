/* One side of an operation: its buffer, in blocks that go to processes or come from them. */
#ifndef BUFFERS_H
#define BUFFERS_H

#include "shapes.h"

#include <string.h>

/* Most blocks of a buffer, and bytes around it that nobody may touch. */
enum { BLOCKS = 16, MARGIN = 64 };

/* How the blocks lie: one after the other, anywhere in units of the type, or each with a type of its own. */
enum Order { IN_ORDER, APART, TYPED };

/* A block: its source, its destination or ANY, and a tag if there are several between the two. */
typedef struct {
    int source, target, tag, elements;
} Block;

/* NOBODY: a neighbour that is not there. */
enum { ANY = -1, NOBODY = -2 };

typedef struct {
    int count;
    Block blocks[BLOCKS];
    MPI_Datatype basic, type;   /* of an element, and of an item unless each block has its own */
    int width;                  /* bytes of an element */
    enum Order order;
    Shape shapes[BLOCKS];
    int items[BLOCKS], displs[BLOCKS], bytes[BLOCKS];
    MPI_Aint far[BLOCKS];       /* the bytes once more */
    MPI_Datatype types[BLOCKS];
    char *memory, *wanted;      /* the buffer with its margins, and what it is to hold in the end */
    MPI_Aint zero;              /* from there to the address that MPI is given */
    size_t length;
} Side;

/* Returns the bytes from the address that MPI is given to an element. */
static inline MPI_Aint offset_of(const Side *side, int block, int element)
{
    const Shape *shape = &side->shapes[block];

    return side->bytes[block] + element / shape->parts * shape->extent + shape->at[element % shape->parts];
}

static inline char *address(const Side *side, char *memory, int block, int element)
{
    return memory + side->zero + offset_of(side, block, element);
}

static inline void *base(const Side *side)
{
    return side->memory ? side->memory + side->zero : NULL;
}

/* Chooses the displacements of all blocks, in items. */
static inline void place_blocks(Side *side, Random *random)
{
    int order[BLOCKS], at = 0;

    for (int i = 0; i < side->count; i++)
        order[i] = i;
    if (side->order != IN_ORDER)
        shuffle(random, order, side->count);
    for (int i = 0; i < side->count; i++) {
        side->displs[order[i]] = at;
        at += side->items[order[i]] + (side->order == APART ? below(random, 3) : 0);
    }
}

/* Makes types for the blocks, and the buffer. A given shape is that of all; `plain` ones are the elements. */
static inline void make_side(Side *side, Random *random, const Shape *given, int plain)
{
    MPI_Aint low = 0, high = 0;
    Shape same = given ? *given : plain_shape(side->basic, side->width);
    int slots = 0;

    for (int i = 0; i < side->count; i++)
        slots += side->blocks[i].elements + 3;
    if (!given && !plain && side->order != TYPED && side->count > 0)
        same = random_shape(random, side->basic, side->width, slots);
    side->type = same.type;
    for (int i = 0; i < side->count; i++) {
        side->shapes[i] = same;
        if (!plain && side->order == TYPED)
            side->shapes[i] = random_shape(random, side->basic, side->width, side->blocks[i].elements);
        side->types[i] = side->shapes[i].type;
        side->items[i] = side->blocks[i].elements / side->shapes[i].parts;
    }
    place_blocks(side, random);
    for (int i = 0; i < side->count; i++) {
        side->bytes[i] = (int)(side->displs[i] * same.extent);
        if (side->order == TYPED)
            side->bytes[i] = (int)(high - high % 16 + PARTS * side->width + 16);
        side->far[i] = side->bytes[i];
        for (int j = 0; j < side->items[i] * side->shapes[i].parts; j++) {
            MPI_Aint at = offset_of(side, i, j);
            low = at < low ? at : low;
            high = at + side->width > high ? at + side->width : high;
        }
    }
    side->zero = MARGIN - low + (16 + low % 16) % 16;
    side->length = (size_t)(side->zero + high + MARGIN);
    side->memory = malloc(side->length);
    side->wanted = malloc(side->length);
    CHECK(side->memory && side->wanted);
}

static inline void free_side_types(Side *side)
{
    for (int i = 0; i < side->count; i++)
        if (side->order == TYPED || i == side->count - 1)
            free_shape(&side->shapes[i]);
}

static inline void free_side(Side *side)
{
    free(side->memory);
    free(side->wanted);
}

#endif
