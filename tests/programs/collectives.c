/* Random collective operations, compared with what each process computes by itself. Arguments: the first seed,
 * the number of seeds, threads of each process, and "tell" to print each operation. A seed gives the
 * communicators, and a program of blocking, nonblocking and persistent operations on all of them; each thread
 * runs one of its own. Prints "rank N: collectives ok". */
#include "collectives/calls.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Seconds of one seed after which a process gives up, and most communicators, entries and persistent requests. */
enum { PATIENCE = 40, GROUPS = 6, ENTRIES = 34, KEPT = 12 };

/* One thread's run of a seed. */
typedef struct {
    MPI_Comm world;                 /* of this thread alone */
    int number;
    uint64_t seed;
    Group groups[GROUPS];
    int count;
    Operation *open[ENTRIES];       /* begun, and not complete */
    Operation *kept[KEPT];          /* persistent ones */
    int opened, keeps, persistent;  /* persistent: those of all processes */
    Random own;                     /* differs between processes */
} Run;

static int world_rank, tells;
static volatile uint64_t now;

static void give_up(int signal)
{
    char text[100];
    int length = snprintf(text, sizeof text, "rank %d: seed %llu has no end\n", world_rank,
                          (unsigned long long)now);

    (void)signal;
    if (write(2, text, (size_t)length) == length)
        abort();
}

/* Ends the job unless a call has succeeded. */
static void must(const Run *run, const Operation *op, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;

    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: seed %llu, thread %d: ", world_rank, (unsigned long long)run->seed, run->number);
    if (op)
        describe(op);
    fprintf(stderr, ": %s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

static void compare(const Run *run, Operation *op)
{
    if (is_right(op))
        return;
    fprintf(stderr, "rank %d: seed %llu, thread %d: not what is wanted\n", world_rank,
            (unsigned long long)run->seed, run->number);
    MPI_Abort(MPI_COMM_WORLD, 5);
}

/* Adds a communicator, unless this process is not in it. */
static void add_group(Run *run, MPI_Comm comm, const char *kind)
{
    if (comm == MPI_COMM_NULL)
        comm = MPI_COMM_SELF, kind = NULL;
    run->groups[run->count++] = group_of(comm, kind);
}

/* Adds a communicator of two groups: the processes below `half`, and the others. */
static void add_pair(Run *run, int half)
{
    int rank, size;
    MPI_Comm part, both;
    Group *group;

    MPI_Comm_rank(run->world, &rank);
    MPI_Comm_size(run->world, &size);
    must(run, NULL, MPI_Comm_split(run->world, rank >= half, 0, &part));
    must(run, NULL, MPI_Intercomm_create(part, 0, run->world, rank >= half ? 0 : half, 5, &both));
    must(run, NULL, MPI_Comm_free(&part));
    add_group(run, both, "two groups");
    group = &run->groups[run->count - 1];
    group->inter = 1;
    group->side = rank >= half;
    MPI_Comm_remote_size(both, &group->peers);
}

/* Adds a grid. */
static void add_grid(Run *run, Random *random)
{
    int size, dims[2] = {0, 0}, periods[2] = {below(random, 2), below(random, 2)}, dimensions = 1 + below(random, 2);
    MPI_Comm comm;

    MPI_Comm_size(run->world, &size);
    MPI_Dims_create(size, dimensions, dims);
    must(run, NULL, MPI_Cart_create(run->world, dimensions, dims, periods, below(random, 2), &comm));
    add_group(run, comm, "a grid");
    know_grid(&run->groups[run->count - 1], dimensions);
}

/* Adds a graph in which any two processes, also one and itself, are neighbours at random. */
static void add_graph(Run *run, Random *random)
{
    int rank, size, edges[BLOCKS][BLOCKS];
    MPI_Comm comm;
    Group graph = {.graph = 1};

    MPI_Comm_rank(run->world, &rank);
    MPI_Comm_size(run->world, &size);
    for (int i = 0; i < size * size; i++)
        edges[i / size][i % size] = one_in(random, 3);
    for (int i = 0; i < size; i++) {
        if (edges[i][rank])
            graph.in[graph.ins++] = i;
        if (edges[rank][i])
            graph.out[graph.outs++] = i;
    }
    shuffle(&run->own, graph.in, graph.ins);
    shuffle(&run->own, graph.out, graph.outs);
    must(run, NULL,
         MPI_Dist_graph_create_adjacent(run->world, graph.ins, graph.in, MPI_UNWEIGHTED, graph.outs, graph.out,
                                        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    add_group(run, comm, "a graph");
    graph.comm = comm;
    graph.kind = "a graph";
    graph.me = rank;
    graph.size = graph.peers = size;
    run->groups[run->count - 1] = graph;
}

/* Adds a communicator of some processes in any order. */
static void add_some(Run *run, Random *random)
{
    int size, ranks[BLOCKS], count;
    MPI_Group all, some;
    MPI_Comm comm;

    MPI_Comm_size(run->world, &size);
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    shuffle(random, ranks, size);
    count = 1 + below(random, size);
    MPI_Comm_group(run->world, &all);
    MPI_Group_incl(all, count, ranks, &some);
    must(run, NULL, MPI_Comm_create(run->world, some, &comm));
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    add_group(run, comm, "some");
}

static void make_groups(Run *run, Random *random)
{
    int size, rank, many = 1 + below(random, GROUPS);
    MPI_Comm comm;

    MPI_Comm_size(run->world, &size);
    MPI_Comm_rank(run->world, &rank);
    must(run, NULL, MPI_Comm_dup(run->world, &comm));
    add_group(run, comm, "all");
    while (run->count < many) {
        uint64_t colors;

        switch (below(random, 7)) {
        case 0:
            must(run, NULL, MPI_Comm_dup(run->groups[0].comm, &comm));
            add_group(run, comm, "all once more");
            break;
        case 1:
        case 2:
            colors = mixed(draw(random), (uint64_t)rank);
            must(run, NULL, MPI_Comm_split(run->world, (int)(colors % 2), (int)(colors >> 8 & 7), &comm));
            add_group(run, comm, "a part");
            break;
        case 3:
            if (size > 1)
                add_pair(run, 1 + below(random, size - 1));
            break;
        case 4:
            add_grid(run, random);
            break;
        case 5:
            add_graph(run, random);
            break;
        default:
            add_some(run, random);
        }
    }
}

/* Compares an operation that has ended. A persistent one stays. */
static void close_operation(Run *run, Operation *op)
{
    compare(run, op);
    op->begun = 0;
    if (op->form != PERSISTENT)
        free_operation(op);
}

/* Completes some of the operations, at least `least`, in one of the ways. */
static void complete(Run *run, int least)
{
    MPI_Request requests[ENTRIES];
    int done[ENTRIES], count = run->opened, left = 0, some = MPI_UNDEFINED;

    for (int i = 0; i < count; i++)
        requests[i] = run->open[i]->request;
    for (int i = 0; i < count; i++)
        done[i] = i;
    if (least == count) {
        must(run, NULL, MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        some = count;
    } else if (least > 0) {
        must(run, NULL, MPI_Waitsome(count, requests, &some, done, MPI_STATUSES_IGNORE));
    } else {
        must(run, NULL, MPI_Testsome(count, requests, &some, done, MPI_STATUSES_IGNORE));
    }
    for (int i = 0; i < count; i++)
        run->open[i]->request = requests[i];
    for (int i = 0; i < some && some != MPI_UNDEFINED; i++) {
        close_operation(run, run->open[done[i]]);
        run->open[done[i]] = NULL;
    }
    for (int i = 0; i < count; i++)
        if (run->open[i])
            run->open[left++] = run->open[i];
    run->opened = left;
}

/* Takes an operation out of the open ones. */
static void wait_for(Run *run, Operation *op)
{
    int left = 0;

    must(run, op, MPI_Wait(&op->request, MPI_STATUS_IGNORE));
    for (int i = 0; i < run->opened; i++)
        if (run->open[i] != op)
            run->open[left++] = run->open[i];
    run->opened = left;
    close_operation(run, op);
}

/* Starts all persistent operations again, in any order. */
static void start_kept(Run *run, uint64_t key)
{
    MPI_Request requests[KEPT];
    int order[KEPT];

    for (int i = 0; i < run->keeps; i++) {
        order[i] = i;
        if (run->kept[i]->begun)
            wait_for(run, run->kept[i]);
        fill(run->kept[i], mixed(key, run->kept[i]->key));
    }
    shuffle(&run->own, order, run->keeps);
    for (int i = 0; i < run->keeps; i++)
        requests[i] = run->kept[order[i]]->request;
    if (one_in(&run->own, 2)) {
        must(run, NULL, MPI_Startall(run->keeps, requests));
    } else {
        for (int i = 0; i < run->keeps; i++)
            must(run, run->kept[order[i]], MPI_Start(&requests[i]));
    }
    for (int i = 0; i < run->keeps; i++) {
        Operation *op = run->kept[order[i]];

        op->request = requests[i];
        op->begun = 1;
        run->open[run->opened++] = op;
    }
}

/* Makes one entry of the program. */
static void step(Run *run, Random *random)
{
    static const enum Form drawn[] = {BLOCKING, BLOCKING, BLOCKING, BLOCKING, NONBLOCKING, NONBLOCKING, NONBLOCKING,
                                      PERSISTENT, PERSISTENT};
    int kind = below(random, 10), at = below(random, run->count);
    uint64_t key = draw(random);
    Random of_what = {key};
    enum Form form = kind < 9 ? drawn[kind] : PERSISTENT;
    Operation *op;

    if (kind == 9) {
        start_kept(run, key);
        return;
    }
    if (form == PERSISTENT && run->persistent++ >= KEPT)
        form = NONBLOCKING;
    if (!run->groups[at].kind)
        return;
    op = make_operation(&run->groups[at], random_what(&of_what, &run->groups[at]), form, mix(key));
    if (tells) {
        fprintf(stderr, "rank %d, thread %d: ", world_rank, run->number);
        describe(op);
        fprintf(stderr, "\n");
    }
    fill(op, mixed(key, 1));
    must(run, op, call(op));
    free_types(op);
    if (form == BLOCKING) {
        close_operation(run, op);
    } else if (form == NONBLOCKING) {
        op->begun = 1;
        run->open[run->opened++] = op;
    } else {
        run->kept[run->keeps++] = op;
    }
    if (one_in(&run->own, 3) && run->opened > 0)
        complete(run, one_in(&run->own, 3) ? run->opened : below(&run->own, 2));
}

static void *run_seed(void *argument)
{
    Run *run = argument;
    Random random = {mixed(run->seed, (uint64_t)run->number)};
    int entries = 4 + below(&random, ENTRIES - 4 - KEPT);

    run->own = (Random){mixed(random.state, (uint64_t)world_rank + 7)};
    run->count = run->opened = run->keeps = run->persistent = 0;
    make_groups(run, &random);
    for (int i = 0; i < entries; i++)
        step(run, &random);
    start_kept(run, draw(&random));
    while (run->opened > 0)
        complete(run, one_in(&run->own, 2) ? run->opened : 1);
    for (int i = 0; i < run->keeps; i++) {
        must(run, run->kept[i], MPI_Request_free(&run->kept[i]->request));
        free_operation(run->kept[i]);
    }
    for (int i = 0; i < run->count; i++)
        if (run->groups[i].kind)
            must(run, NULL, MPI_Comm_free(&run->groups[i].comm));
    return NULL;
}

int main(int argc, char **argv)
{
    enum { THREADS = 4 };
    static Run runs[THREADS];
    pthread_t threads[THREADS];
    int got, first, count, many, size;

    CHECK(argc >= 4);
    first = atoi(argv[1]), count = atoi(argv[2]), many = atoi(argv[3]);
    tells = argc > 4;
    CHECK(many >= 1 && many <= THREADS);
    MPI_Init_thread(&argc, &argv, many > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &got);
    CHECK(many == 1 || got == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size <= BLOCKS);
    signal(SIGALRM, give_up);
    make_operations();
    for (int i = 0; i < many; i++) {
        runs[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &runs[i].world);
        MPI_Comm_set_errhandler(runs[i].world, MPI_ERRORS_RETURN);
    }
    for (int seed = first; seed < first + count; seed++) {
        now = (uint64_t)seed;
        alarm(PATIENCE);
        for (int i = 0; i < many; i++)
            runs[i].seed = (uint64_t)seed;
        for (int i = 1; i < many; i++)
            CHECK(pthread_create(&threads[i], NULL, run_seed, &runs[i]) == 0);
        run_seed(&runs[0]);
        for (int i = 1; i < many; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    for (int i = 0; i < many; i++)
        MPI_Comm_free(&runs[i].world);
    free_operations();
    MPI_Finalize();
    printf("rank %d: collectives ok\n", world_rank);
    return 0;
}
