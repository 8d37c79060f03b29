/* Random collective operations: arguments, calls, and what each has to leave in the buffers. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "buffers.h"
#include "reductions.h"

enum What {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW,
    REDUCE, ALLREDUCE, REDUCE_SCATTER_BLOCK, REDUCE_SCATTER, SCAN, EXSCAN,
    NEIGHBOR_ALLGATHER, NEIGHBOR_ALLGATHERV, NEIGHBOR_ALLTOALL, NEIGHBOR_ALLTOALLV, NEIGHBOR_ALLTOALLW, WHATS
};

static const char *const names[] = {
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall",
    "alltoallv", "alltoallw", "reduce", "allreduce", "reduce_scatter_block", "reduce_scatter", "scan", "exscan",
    "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv",
    "neighbor_alltoallw",
};

enum Form { BLOCKING, NONBLOCKING, PERSISTENT };

static const char *const forms[] = {"blocking", "nonblocking", "persistent"};

/* A communicator. Processes have numbers: those of the second group of two begin at BLOCKS. */
typedef struct {
    MPI_Comm comm;
    const char *kind;
    int me, size, peers;        /* peers: the processes of the other group, or of the only one */
    int inter, side;            /* side: 1 in the second group of two */
    int graph, ins, outs;       /* neighbours: their ranks or NOBODY, and tags */
    int in[BLOCKS], out[BLOCKS], in_tags[BLOCKS], out_tags[BLOCKS];
} Group;

typedef struct {
    const Group *group;
    enum What what;
    enum Form form;
    uint64_t key, data;         /* seeds: of the arguments, and of the values of this round */
    int root, root_side, in_place, plain, elements;
    int is_reduction;
    Reduction how;
    Shape shape;                /* of its items */
    int counts[BLOCKS];         /* items of each process's result of reduce_scatter */
    int first;                  /* first element of this process's */
    Side send, receive;
    MPI_Request request;
    int begun;                  /* a request that is to be waited for */
} Operation;

static inline Group group_of(MPI_Comm comm, const char *kind)
{
    Group group = {.comm = comm, .kind = kind};

    MPI_Comm_rank(comm, &group.me);
    MPI_Comm_size(comm, &group.size);
    group.peers = group.size;
    return group;
}

/* Adds the neighbours of a grid. The message in a direction comes from the other side. */
static inline void know_grid(Group *group, int dimensions)
{
    group->graph = 1;
    group->ins = group->outs = 2 * dimensions;
    for (int i = 0; i < group->ins; i++) {
        int from, to, rank;

        MPI_Cart_shift(group->comm, i / 2, 1, &from, &to);
        rank = i % 2 == 0 ? from : to;
        group->in[i] = group->out[i] = rank == MPI_PROC_NULL ? NOBODY : rank;
        group->out_tags[i] = i;
        group->in_tags[i] = i ^ 1;
    }
}

static inline int mine(const Group *group)
{
    return group->side * BLOCKS + group->me;
}

static inline int peer(const Group *group, int rank)
{
    return rank + (group->inter ? 1 - group->side : group->side) * BLOCKS;
}

/* Returns true if each block has a length of its own. */
static inline int is_irregular(enum What what)
{
    return what == GATHERV || what == SCATTERV || what == ALLGATHERV || what == ALLTOALLV || what == ALLTOALLW
           || what == NEIGHBOR_ALLGATHERV || what == NEIGHBOR_ALLTOALLV || what == NEIGHBOR_ALLTOALLW;
}

/* Returns the elements of a block. */
static inline int length_of(const Operation *op, int source, int target, int tag)
{
    uint64_t random;
    int unit = op->plain ? 1 : PARTS;

    if (!is_irregular(op->what))
        return op->elements;
    if (op->in_place && target != ANY && source > target)
        return length_of(op, target, source, tag);
    random = mixed(op->key, mixed((uint64_t)(source * 64 + target), (uint64_t)tag));
    if (random % 4 == 0)
        return random % 8 == 0 ? 0 : op->elements;
    return (int)((random >> 8) % (uint64_t)(2 * op->elements / unit + 1)) * unit;
}

static inline void add_block(const Operation *op, Side *side, int source, int target, int tag)
{
    CHECK(side->count < BLOCKS);
    side->blocks[side->count++] = (Block){source, target, tag, length_of(op, source, target, tag)};
}

/* Draws elements of a block: few, some, or about the lengths at which algorithms change. */
static inline int random_elements(Random *random, int width, int blocks)
{
    static const int edges[] = {48, 256, 512, 2048, 4096, 8192, 32768, 65536, 131072};
    int elements;

    switch (below(random, 20)) {
    case 0:
        return 0;
    case 1 ... 4:
        elements = edges[below(random, 9)] / width + below(random, 3) - 1;
        break;
    case 5 ... 8:
        elements = below(random, 1000);
        break;
    case 9:
        elements = below(random, (one_in(random, 4) ? 1 << 20 : 100000) / width);
        break;
    default:
        return 1 + below(random, 16);
    }
    return elements * width > 8192 ? elements / blocks + 1 : elements;
}

/* Lists the blocks that go to neighbours and come from them. */
static inline void plan_neighbours(Operation *op)
{
    const Group *group = op->group;
    int same = op->what <= NEIGHBOR_ALLGATHERV;

    if (same)
        add_block(op, &op->send, mine(group), ANY, 0);
    for (int i = 0; i < group->outs && !same; i++)
        add_block(op, &op->send, mine(group), group->out[i], group->out_tags[i]);
    for (int i = 0; i < group->ins; i++)
        add_block(op, &op->receive, group->in[i], same ? ANY : mine(group), same ? 0 : group->in_tags[i]);
}

/* Lists the blocks of both sides. */
static inline void plan(Operation *op)
{
    const Group *group = op->group;
    int me = mine(group), root = op->root + op->root_side * BLOCKS;
    int is_root = me == root, away = !group->inter || group->side != op->root_side;
    int sends = away && !(op->in_place && is_root);

    switch (op->what) {
    case BARRIER:
        break;
    case BCAST:
        if (is_root || away)
            add_block(op, is_root ? &op->send : &op->receive, root, ANY, 0);
        break;
    case GATHER:
    case GATHERV:
        if (sends)
            add_block(op, &op->send, me, ANY, 0);
        for (int i = 0; i < group->peers && is_root; i++)
            add_block(op, &op->receive, peer(group, i), ANY, 0);
        break;
    case SCATTER:
    case SCATTERV:
        for (int i = 0; i < group->peers && is_root; i++)
            add_block(op, &op->send, root, peer(group, i), 0);
        if (sends)
            add_block(op, &op->receive, root, me, 0);
        break;
    case ALLGATHER:
    case ALLGATHERV:
        if (!op->in_place)
            add_block(op, &op->send, me, ANY, 0);
        for (int i = 0; i < group->peers; i++)
            add_block(op, &op->receive, peer(group, i), ANY, 0);
        break;
    case ALLTOALL:
    case ALLTOALLV:
    case ALLTOALLW:
        for (int i = 0; i < group->peers; i++) {
            if (!op->in_place)
                add_block(op, &op->send, me, peer(group, i), 0);
            add_block(op, &op->receive, peer(group, i), me, 0);
        }
        break;
    case REDUCE:
        if (sends)
            add_block(op, &op->send, me, ANY, 0);
        if (is_root)
            add_block(op, &op->receive, me, ANY, 0);
        break;
    case ALLREDUCE:
    case REDUCE_SCATTER_BLOCK:
    case REDUCE_SCATTER:
    case SCAN:
    case EXSCAN:
        if (!op->in_place)
            add_block(op, &op->send, me, ANY, 0);
        add_block(op, &op->receive, me, ANY, 0);
        break;
    default:
        plan_neighbours(op);
    }
}

/* Draws how the elements are combined, and how many there are: items of one or two elements. */
static inline void plan_reduction(Operation *op, Random *random)
{
    int all = op->group->size, parts;

    op->is_reduction = 1;
    op->how = random_reduction(random, &op->shape);
    parts = op->shape.parts;
    op->elements = random_elements(random, op->how.width * parts, 1);
    if (op->what == REDUCE_SCATTER || op->what == REDUCE_SCATTER_BLOCK) {
        int total = 0, each = op->elements / all;

        for (int i = 0; i < all; i++) {
            op->counts[i] = op->what == REDUCE_SCATTER_BLOCK ? each : below(random, 2 * each + 2);
            if (i < op->group->me)
                op->first += op->counts[i] * parts;
            total += op->counts[i];
        }
        op->elements = total;
    }
    op->elements *= parts;
    op->send.width = op->receive.width = op->how.width;
}

/* Draws what a communicator can do. */
static inline enum What random_what(Random *random, const Group *group)
{
    if (group->graph && one_in(random, 2))
        return (enum What)(NEIGHBOR_ALLGATHER + below(random, WHATS - NEIGHBOR_ALLGATHER));
    return (enum What)below(random, group->inter ? REDUCE_SCATTER_BLOCK : NEIGHBOR_ALLGATHER);
}

/* Draws the arguments of an operation, with its buffers and types. */
static inline Operation *make_operation(const Group *group, enum What what, enum Form form, uint64_t key)
{
    static const int widths[] = {1, 1, 2, 4, 8, 8, 16};
    const MPI_Datatype basics[] = {MPI_BYTE, MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_INT64_T,
                                   MPI_C_DOUBLE_COMPLEX};
    Operation *op = calloc(1, sizeof *op);
    Random random = {key}, own = {mixed(key, (uint64_t)mine(group) + 1)};
    const Shape *shape = NULL;
    int basic = below(&random, 7);

    CHECK(op != NULL);
    op->group = group;
    op->form = form;
    op->key = key;
    op->what = what;
    op->root_side = group->inter ? below(&random, 2) : group->side;
    op->root = below(&random, op->root_side == group->side ? group->size : group->peers);
    op->in_place = !group->inter && op->what != BARRIER && op->what != BCAST && op->what < NEIGHBOR_ALLGATHER
                   && one_in(&random, 3);
    op->plain = one_in(&random, 2);
    op->request = MPI_REQUEST_NULL;
    if (op->what >= REDUCE && op->what <= EXSCAN) {
        plan_reduction(op, &random);
        shape = &op->shape;
    } else {
        op->elements = random_elements(&random, widths[basic], group->inter ? group->size + group->peers : group->size);
        if (!op->plain)
            op->elements = (op->elements + PARTS - 1) / PARTS * PARTS;
        op->send.basic = op->receive.basic = basics[basic];
        op->send.width = op->receive.width = widths[basic];
    }
    if (op->what == SCATTERV)
        op->send.order = APART;
    if (op->what == GATHERV || op->what == ALLGATHERV || op->what == NEIGHBOR_ALLGATHERV)
        op->receive.order = APART;
    if (op->what == ALLTOALLV || op->what == NEIGHBOR_ALLTOALLV)
        op->send.order = op->receive.order = APART;
    if (op->what == ALLTOALLW || op->what == NEIGHBOR_ALLTOALLW)
        op->send.order = op->receive.order = TYPED;
    plan(op);
    make_side(&op->send, &own, shape, op->plain);
    make_side(&op->receive, &own, shape, op->plain);
    return op;
}

#endif
