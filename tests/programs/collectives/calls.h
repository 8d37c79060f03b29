/* Values of the buffers, the calls, and the comparison with what they have to leave. */
#ifndef CALLS_H
#define CALLS_H

#include "operations.h"

static inline uint64_t block_seed(const Operation *op, int source, int target, int tag)
{
    return mixed(op->data, mixed((uint64_t)(source * 64 + target), (uint64_t)tag));
}

/* Puts an element of a block at an address. */
static inline void put_element(const Operation *op, char *where, uint64_t seed, int element)
{
    uint64_t value[2] = {mix(seed + 0x9e3779b97f4a7c15u * (uint64_t)(element + 1)), seed};

    if (op->is_reduction)
        put_value(&op->how, where, value[0]);
    else
        memcpy(where, value, (size_t)op->send.width);
}

static inline void put_block(const Operation *op, const Side *side, char *memory, int block, uint64_t seed)
{
    for (int i = 0; i < side->blocks[block].elements; i++)
        put_element(op, address(side, memory, block, i), seed, i);
}

/* Puts the result of a reduction into what is wanted. */
static inline void put_results(Operation *op)
{
    const Group *group = op->group;
    int parts = op->shape.parts, end = group->peers, elements = op->elements;
    Side *side = &op->receive;

    if (op->what == SCAN || op->what == EXSCAN)
        end = group->me + (op->what == SCAN);
    if (op->what == REDUCE_SCATTER || op->what == REDUCE_SCATTER_BLOCK)
        elements = op->counts[group->me] * parts;
    for (int i = 0; i < elements && end > 0; i += parts) {
        char result[ITEM] = {0}, item[ITEM];

        for (int rank = end - 1; rank >= 0; rank--) {
            uint64_t seed = block_seed(op, peer(group, rank), ANY, 0);

            for (int j = 0; j < parts; j++)
                put_element(op, item + j * side->width, seed, op->first + i + j);
            if (rank < end - 1)
                combine(&op->how, item, result);
            else
                memcpy(result, item, ITEM);
        }
        for (int j = 0; j < parts; j++)
            memcpy(address(side, side->wanted, 0, i + j), result + j * side->width, (size_t)side->width);
    }
}

/* Puts this round's values into the buffers, and makes what is wanted in the end. */
static inline void fill(Operation *op, uint64_t data)
{
    Side *send = &op->send, *receive = &op->receive;
    int me = mine(op->group);

    op->data = data;
    memset(send->memory, 0xa5, send->length);
    memset(receive->memory, 0x5a, receive->length);
    for (int i = 0; i < send->count; i++) {
        const Block *block = &send->blocks[i];
        put_block(op, send, send->memory, i, block_seed(op, block->source, block->target, block->tag));
    }
    memcpy(send->wanted, send->memory, send->length);
    for (int i = 0; i < receive->count && op->in_place; i++) {
        const Block *block = &receive->blocks[i];

        if (op->what >= ALLTOALL && op->what <= ALLTOALLW)
            put_block(op, receive, receive->memory, i, block_seed(op, me, block->source, 0));
        else if (block->source == me)
            put_block(op, receive, receive->memory, i, block_seed(op, me, ANY, 0));
    }
    memcpy(receive->wanted, receive->memory, receive->length);
    if (op->is_reduction && receive->count > 0)
        put_results(op);
    for (int i = 0; i < receive->count && !op->is_reduction; i++) {
        const Block *block = &receive->blocks[i];

        if (block->source != NOBODY)
            put_block(op, receive, receive->wanted, i,
                      block_seed(op, block->source, block->target, block->tag));
    }
}

/* The call of an operation in its form. */
#define CALL(plain, starting, ...)                                                                           \
    (op->form == BLOCKING      ? MPI_##plain(__VA_ARGS__)                                                    \
     : op->form == NONBLOCKING ? MPI_##starting(__VA_ARGS__, &op->request)                                   \
                               : MPI_##plain##_init(__VA_ARGS__, MPI_INFO_NULL, &op->request))

static inline int call_neighbours(Operation *op)
{
    Side *s = &op->send, *r = &op->receive;
    MPI_Comm comm = op->group->comm;

    switch (op->what) {
    case NEIGHBOR_ALLGATHER:
        return CALL(Neighbor_allgather, Ineighbor_allgather, base(s), s->items[0], s->type, base(r),
                    r->items[0], r->type, comm);
    case NEIGHBOR_ALLGATHERV:
        return CALL(Neighbor_allgatherv, Ineighbor_allgatherv, base(s), s->items[0], s->type, base(r),
                    r->items, r->displs, r->type, comm);
    case NEIGHBOR_ALLTOALL:
        return CALL(Neighbor_alltoall, Ineighbor_alltoall, base(s), s->items[0], s->type, base(r),
                    r->items[0], r->type, comm);
    case NEIGHBOR_ALLTOALLV:
        return CALL(Neighbor_alltoallv, Ineighbor_alltoallv, base(s), s->items, s->displs, s->type, base(r),
                    r->items, r->displs, r->type, comm);
    default:
        return CALL(Neighbor_alltoallw, Ineighbor_alltoallw, base(s), s->items, s->far, s->types, base(r),
                    r->items, r->far, r->types, comm);
    }
}

/* Makes the call; returns its error. */
static inline int call(Operation *op)
{
    const Group *group = op->group;
    MPI_Comm comm = group->comm;
    Side *s = &op->send, *r = &op->receive;
    int is_root = mine(group) == op->root + op->root_side * BLOCKS, root = op->root;
    void *in = base(s), *out = base(r);

    if (group->inter && group->side == op->root_side)
        root = is_root ? MPI_ROOT : MPI_PROC_NULL;
    if (op->in_place && op->what != SCATTER && op->what != SCATTERV && s->count == 0)
        in = MPI_IN_PLACE;
    if (op->in_place && (op->what == SCATTER || op->what == SCATTERV) && is_root)
        out = MPI_IN_PLACE;
    switch (op->what) {
    case BARRIER:
        return CALL(Barrier, Ibarrier, comm);
    case BCAST:
        return CALL(Bcast, Ibcast, is_root ? in : out, is_root ? s->items[0] : r->items[0],
                    is_root ? s->type : r->type, root, comm);
    case GATHER:
        return CALL(Gather, Igather, in, s->items[0], s->type, out, r->items[0], r->type, root, comm);
    case GATHERV:
        return CALL(Gatherv, Igatherv, in, s->items[0], s->type, out, r->items, r->displs, r->type, root,
                    comm);
    case SCATTER:
        return CALL(Scatter, Iscatter, in, s->items[0], s->type, out, r->items[0], r->type, root, comm);
    case SCATTERV:
        return CALL(Scatterv, Iscatterv, in, s->items, s->displs, s->type, out, r->items[0], r->type, root,
                    comm);
    case ALLGATHER:
        return CALL(Allgather, Iallgather, in, s->items[0], s->type, out, r->items[0], r->type, comm);
    case ALLGATHERV:
        return CALL(Allgatherv, Iallgatherv, in, s->items[0], s->type, out, r->items, r->displs, r->type,
                    comm);
    case ALLTOALL:
        return CALL(Alltoall, Ialltoall, in, s->items[0], s->type, out, r->items[0], r->type, comm);
    case ALLTOALLV:
        return CALL(Alltoallv, Ialltoallv, in, s->items, s->displs, s->type, out, r->items, r->displs, r->type,
                    comm);
    case ALLTOALLW:
        return CALL(Alltoallw, Ialltoallw, in, s->items, s->bytes, s->types, out, r->items, r->bytes, r->types,
                    comm);
    case REDUCE:
        return CALL(Reduce, Ireduce, in, out, op->elements / op->shape.parts, s->type, op->how.op, root, comm);
    case ALLREDUCE:
        return CALL(Allreduce, Iallreduce, in, out, op->elements / op->shape.parts, s->type, op->how.op, comm);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, Ireduce_scatter_block, in, out, op->counts[0], s->type, op->how.op,
                    comm);
    case REDUCE_SCATTER:
        return CALL(Reduce_scatter, Ireduce_scatter, in, out, op->counts, s->type, op->how.op, comm);
    case SCAN:
        return CALL(Scan, Iscan, in, out, op->elements / op->shape.parts, s->type, op->how.op, comm);
    case EXSCAN:
        return CALL(Exscan, Iexscan, in, out, op->elements / op->shape.parts, s->type, op->how.op, comm);
    default:
        return call_neighbours(op);
    }
}

/* Frees the types of the call, which may go on without them. */
static inline void free_types(Operation *op)
{
    if (op->is_reduction) {
        free_shape(&op->shape);
    } else {
        free_side_types(&op->send);
        free_side_types(&op->receive);
    }
}

static inline void describe(const Operation *op)
{
    const Group *group = op->group;

    fprintf(stderr, "%s %s of %s, rank %d of %d, root %d.%d, %d elements of %d bytes%s%s%s, value %d, operator %d",
            forms[op->form], names[op->what], group->kind, group->me, group->size, op->root_side, op->root,
            op->elements, op->send.width, op->in_place ? ", in place" : "", op->plain ? ", plain" : "",
            op->is_reduction ? ", reduction" : "", (int)op->how.value, (int)op->how.operator);
}

static inline int differs(const Operation *op, const Side *side, const char *name)
{
    size_t at = 0;

    if (memcmp(side->memory, side->wanted, side->length) == 0)
        return 0;
    while (side->memory[at] == side->wanted[at])
        at++;
    describe(op);
    fprintf(stderr, ": %s: byte %ld is %02x, not %02x", name, (long)at - (long)side->zero,
            (unsigned char)side->memory[at], (unsigned char)side->wanted[at]);
    for (int i = 0; i < side->count; i++)
        for (int j = 0; j < side->blocks[i].elements; j++) {
            long from = (long)at - (address(side, side->memory, i, j) - side->memory);
            if (from >= 0 && from < side->width)
                fprintf(stderr, ", in element %d of block %d, of %d", j, i, side->blocks[i].elements);
        }
    fprintf(stderr, "\n");
    return 1;
}

/* Returns true if the operation, which has ended, has left what is wanted. */
static inline int is_right(Operation *op)
{
    Side *r = &op->receive;
    int from = op->elements;

    /* Not defined: the first process's exscan, and operands behind a result in their place. */
    if (op->what == EXSCAN && op->group->me == 0)
        from = 0;
    else if (op->in_place && (op->what == REDUCE_SCATTER || op->what == REDUCE_SCATTER_BLOCK))
        from = op->counts[op->group->me] * op->shape.parts;
    for (int i = from; i < op->elements && op->is_reduction && r->count > 0; i++)
        memcpy(address(r, r->wanted, 0, i), address(r, r->memory, 0, i), (size_t)r->width);
    return !differs(op, &op->send, "send buffer") && !differs(op, r, "receive buffer");
}

static inline void free_operation(Operation *op)
{
    free_side(&op->send);
    free_side(&op->receive);
    free(op);
}

#endif
