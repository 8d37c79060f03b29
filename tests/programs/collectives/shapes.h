/* Datatypes with the addresses of their elements. */
#ifndef SHAPES_H
#define SHAPES_H

#include "../check.h"
#include "random.h"

/* Elements of the longest item; each item's number of elements divides it. */
enum { PARTS = 12 };

typedef struct {
    MPI_Datatype type;
    int made;              /* true if it is to be freed */
    int parts;             /* elements of an item */
    MPI_Aint extent;       /* bytes from one item to the next */
    MPI_Aint at[PARTS];    /* bytes from the address of an item to each element, in their order */
} Shape;

/* Items that are one element each. */
static inline Shape plain_shape(MPI_Datatype basic, int width)
{
    return (Shape){.type = basic, .parts = 1, .extent = width};
}

static inline Shape finished(Shape shape, MPI_Datatype type)
{
    MPI_Aint low;

    CHECK(MPI_Type_get_extent(type, &low, &shape.extent) == MPI_SUCCESS);
    CHECK(MPI_Type_commit(&type) == MPI_SUCCESS);
    shape.type = type;
    shape.made = 1;
    return shape;
}

static inline MPI_Datatype resized(MPI_Datatype type, MPI_Aint low, MPI_Aint extent)
{
    MPI_Datatype made;

    CHECK(MPI_Type_create_resized(type, low, extent, &made) == MPI_SUCCESS);
    CHECK(MPI_Type_free(&type) == MPI_SUCCESS);
    return made;
}

/* Makes items of several elements of `width` bytes. `slots` are the items that lie one after the other. */
static inline Shape random_shape(Random *random, MPI_Datatype basic, int width, int slots)
{
    static const int counts[] = {1, 2, 3, 4, 6, 12};
    Shape shape = {.parts = counts[below(random, 6)]};
    int parts = shape.parts, kind = below(random, 8), stride = 2 + below(random, 3), places[PARTS];
    int lengths[2] = {parts / 2, parts - parts / 2};
    MPI_Aint starts[2] = {0, (lengths[0] + stride) * (MPI_Aint)width};
    MPI_Datatype both[2] = {basic, basic}, type;
    int error;

    for (int i = 0; i < parts; i++)
        places[i] = i;
    switch (kind) {
    case 0:
        error = MPI_Type_vector(parts, 1, stride, basic, &type);
        for (int i = 0; i < parts; i++)
            places[i] = i * stride;
        break;
    case 1: /* a column: the items lie between each other's elements */
        stride = slots > 0 ? slots : 1;
        error = MPI_Type_create_hvector(parts, 1, (MPI_Aint)stride * width, basic, &type);
        type = resized(type, 0, width);
        for (int i = 0; i < parts; i++)
            places[i] = i * stride;
        break;
    case 2: /* back and forth, behind a gap */
        for (int i = 0; i < parts; i++)
            places[i] = 1 + i * stride;
        shuffle(random, places, parts);
        error = MPI_Type_create_indexed_block(parts, 1, places, basic, &type);
        break;
    case 3: /* before the address, too */
        error = MPI_Type_vector(parts, 1, 2, basic, &type);
        MPI_Aint before = -parts * (MPI_Aint)width;
        MPI_Datatype of = type;
        error |= MPI_Type_create_hindexed_block(1, 1, &before, of, &type);
        error |= MPI_Type_free(&of);
        type = resized(type, before, (2 * parts + 1) * (MPI_Aint)width);
        for (int i = 0; i < parts; i++)
            places[i] = 2 * i - parts;
        break;
    case 4:
        error = MPI_Type_create_struct(2, lengths, starts, both, &type);
        for (int i = lengths[0]; i < parts; i++)
            places[i] = i + stride;
        break;
    default:
        error = MPI_Type_contiguous(parts, basic, &type);
    }
    CHECK(error == MPI_SUCCESS);
    for (int i = 0; i < parts; i++)
        shape.at[i] = places[i] * (MPI_Aint)width;
    return finished(shape, type);
}

static inline void free_shape(Shape *shape)
{
    if (shape->made)
        CHECK(MPI_Type_free(&shape->type) == MPI_SUCCESS);
    shape->made = 0;
}

#endif
