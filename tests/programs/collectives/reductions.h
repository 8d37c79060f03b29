/* Operations of reductions: values, and what they make of two of them. */
#ifndef REDUCTIONS_H
#define REDUCTIONS_H

#include "shapes.h"

#include <string.h>

enum Value { I8, U8, I16, U16, I32, U32, I64, U64, F32, F64, COMPLEX, INTS, FLOAT_INT, MAP };
enum Operator { SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, MINLOC, MAXLOC, OURS };

/* Longest item in bytes, without gaps. */
enum { ITEM = 16 };

typedef struct {
    enum Value value;
    enum Operator operator;
    MPI_Op op;
    int width; /* bytes of an element: an item has one, a map two */
} Reduction;

typedef struct {
    float value;
    int index;
} FloatInt;

/* A map x -> a x + b. One after the other is a map again, and their order counts. */
typedef struct {
    uint32_t a, b;
} Map;

static inline Map after(Map left, Map right)
{
    return (Map){left.a * right.a, left.a * right.b + left.b};
}

static MPI_Op after_op, plus_op;

/* Calls a function for the maps of two vectors, which may have a gap within each map. */
static inline void each_map(void *left, void *right, int count, MPI_Datatype type, Map (*make)(Map, Map))
{
    MPI_Aint low, extent;

    MPI_Type_get_extent(type, &low, &extent);
    for (int i = 0; i < count; i++) {
        char *one = (char *)left + i * extent, *other = (char *)right + i * extent;
        MPI_Aint second = extent - (MPI_Aint)sizeof(uint32_t);
        Map x, y;

        memcpy(&x.a, one, 4);
        memcpy(&x.b, one + second, 4);
        memcpy(&y.a, other, 4);
        memcpy(&y.b, other + second, 4);
        y = make(x, y);
        memcpy(other, &y.a, 4);
        memcpy(other + second, &y.b, 4);
    }
}

static inline Map plus(Map left, Map right)
{
    return (Map){left.a + right.a, left.b ^ right.b};
}

static void after_function(void *in, void *inout, int *count, MPI_Datatype *type)
{
    each_map(in, inout, *count, *type, after);
}

static void plus_function(void *in, void *inout, int *count, MPI_Datatype *type)
{
    each_map(in, inout, *count, *type, plus);
}

static inline void make_operations(void)
{
    CHECK(MPI_Op_create(after_function, 0, &after_op) == MPI_SUCCESS);
    CHECK(MPI_Op_create(plus_function, 1, &plus_op) == MPI_SUCCESS);
}

static inline void free_operations(void)
{
    CHECK(MPI_Op_free(&after_op) == MPI_SUCCESS && MPI_Op_free(&plus_op) == MPI_SUCCESS);
}

/* Draws an operation, and the shape of its items. */
static inline Reduction random_reduction(Random *random, Shape *shape)
{
    const MPI_Datatype types[] = {MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_UINT16_T, MPI_INT32_T,
                                  MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_FLOAT, MPI_DOUBLE,
                                  MPI_C_DOUBLE_COMPLEX, MPI_2INT, MPI_FLOAT_INT, MPI_UINT32_T};
    static const int widths[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 16, 8, 8, 4};
    const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR,
                          MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MINLOC, MPI_MAXLOC};
    Reduction made = {.value = (enum Value)below(random, MAP + 1)};
    MPI_Datatype type = types[made.value];

    if (one_in(random, 4))
        made.value = MAP;
    made.width = widths[made.value];
    *shape = plain_shape(type, made.width);
    switch (made.value) {
    case F32:
    case F64:
        made.operator = (enum Operator)below(random, 4);
        break;
    case COMPLEX:
        made.operator = SUM;
        break;
    case INTS:
    case FLOAT_INT:
        made.operator = one_in(random, 2) ? MINLOC : MAXLOC;
        break;
    case MAP:
        made.operator = OURS;
        made.op = one_in(random, 3) ? plus_op : after_op;
        *shape = (Shape){.parts = 2, .at = {0, 4}};
        if (one_in(random, 2)) {
            MPI_Aint starts[2] = {0, 8};
            CHECK(MPI_Type_create_hindexed_block(2, 1, starts, MPI_UINT32_T, &type) == MPI_SUCCESS);
            shape->at[1] = 8;
        } else {
            CHECK(MPI_Type_contiguous(2, MPI_UINT32_T, &type) == MPI_SUCCESS);
        }
        *shape = finished(*shape, type);
        return made;
    default:
        made.operator = (enum Operator)below(random, LXOR + 1);
    }
    made.op = ops[made.operator];
    return made;
}

/* Puts a value at an address, of which no result of an operation leaves its type. */
static inline void put_value(const Reduction *how, char *where, uint64_t from)
{
    int small = (int)(from % 4);
    uint64_t bits = from;
    float single;
    double both[2];

    switch (how->value) {
    case F32:
    case F64:
        both[0] = how->operator == PROD ? (small == 3 ? 2 : small == 2 ? -1 : 1) : (double)(from % 2001) - 1000;
        single = (float)both[0];
        memcpy(where, how->value == F32 ? (void *)&single : (void *)both, (size_t)how->width);
        return;
    case COMPLEX:
        both[0] = (double)(from % 2001) - 1000;
        both[1] = small;
        memcpy(where, both, sizeof both);
        return;
    case INTS:
        memcpy(where, &(int[2]){small - 2, (int)(from >> 8 & 15)}, 8);
        return;
    case FLOAT_INT:
        memcpy(where, &(FloatInt){(float)small - 2, (int)(from >> 8 & 15)}, 8);
        return;
    default:
        if (how->operator == SUM)
            bits = (uint64_t)small;
        else if (how->operator == PROD)
            bits = how->value % 2 == 0 && small == 0 ? ~(uint64_t)0 : 1;
        else if (how->operator >= LAND && how->operator <= LXOR)
            bits = (uint64_t)(small > 0);
        memcpy(where, &bits, (size_t)how->width);
    }
}

static inline void combine_floats(enum Operator operator, double left, double *right)
{
    switch (operator) {
    case SUM:
        *right += left;
        break;
    case PROD:
        *right *= left;
        break;
    case MIN:
        *right = left < *right ? left : *right;
        break;
    default:
        *right = left > *right ? left : *right;
    }
}

static inline uint64_t combine_bits(enum Operator operator, uint64_t left, uint64_t right, int less)
{
    switch (operator) {
    case SUM:
        return left + right;
    case PROD:
        return left * right;
    case MIN:
        return less ? left : right;
    case MAX:
        return less ? right : left;
    case BAND:
        return left & right;
    case BOR:
        return left | right;
    case BXOR:
        return left ^ right;
    case LAND:
        return left && right;
    case LOR:
        return left || right;
    default:
        return !left != !right;
    }
}

/* Returns true if the left one is the result: a smaller (larger) value, or the same with less of an index. */
static inline int left_is_chosen(enum Operator operator, double left, int index, double right, int other)
{
    if (left == right)
        return index < other;
    return (left < right) == (operator == MINLOC);
}

/* Combines two items without gaps: `right` becomes left operator right. */
static inline void combine(const Reduction *how, const char *left, char *right)
{
    float one, other;
    double x[2], y[2];
    int a[2], b[2];
    FloatInt f, g;
    Map m, n;

    switch (how->value) {
    case F32:
        memcpy(&one, left, 4);
        memcpy(&other, right, 4);
        y[0] = other;
        combine_floats(how->operator, one, &y[0]);
        other = (float)y[0];
        memcpy(right, &other, 4);
        return;
    case F64:
    case COMPLEX:
        memcpy(x, left, (size_t)how->width);
        memcpy(y, right, (size_t)how->width);
        for (int i = 0; i < how->width / 8; i++)
            combine_floats(how->operator, x[i], &y[i]);
        memcpy(right, y, (size_t)how->width);
        return;
    case INTS:
        memcpy(a, left, 8);
        memcpy(b, right, 8);
        if (left_is_chosen(how->operator, a[0], a[1], b[0], b[1]))
            memcpy(right, left, 8);
        return;
    case FLOAT_INT:
        memcpy(&f, left, 8);
        memcpy(&g, right, 8);
        if (left_is_chosen(how->operator, f.value, f.index, g.value, g.index))
            memcpy(right, left, 8);
        return;
    case MAP:
        memcpy(&m, left, 8);
        memcpy(&n, right, 8);
        n = how->op == plus_op ? plus(m, n) : after(m, n);
        memcpy(right, &n, 8);
        return;
    default: {
        uint64_t p = 0, q = 0;
        int shift = 64 - 8 * how->width, is_signed = how->value % 2 == 0, less;

        memcpy(&p, left, (size_t)how->width);
        memcpy(&q, right, (size_t)how->width);
        less = is_signed ? (int64_t)(p << shift) < (int64_t)(q << shift) : p < q;
        q = combine_bits(how->operator, p, q, less);
        memcpy(right, &q, (size_t)how->width);
    }
    }
}

#endif
