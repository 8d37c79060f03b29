/* Random accesses to windows against a model that every process keeps. Arguments: a seed, a number of
 * rounds, and the most threads of a process that access windows at once. In each round the processes share out the elements of every window: an origin uses those
 * whose index leaves its rank as a remainder, so its target types are strided. Some more elements are
 * summed up by all at once: by every second process one by one, by the others in one call. Prints
 * "rank N: windows_random ok". */
#include "check.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { BLOCKS = 40, SHARED = 16, MAX_RANKS = 16, OPS = 6, MAX_THREADS = 8 };
enum { PUT, GET, SUM, REPLACE, MAXIMUM, FETCH, XOR, KINDS };
enum { CREATE, ALLOCATED, ALLOCATE, SHARED_MEMORY, DYNAMIC, DYNAMIC_ALLOCATED, FLAVORS };
enum { FENCE, GROUP, LOCK_ALL, EXCLUSIVE, LOCK_SHARED, SYNCS };

/* A window: shared counters, then the elements. */
struct memory {
    int64_t counter[SHARED];
    int32_t element[BLOCKS * MAX_RANKS];
};

static struct memory model[MAX_RANKS];
static int rank, size;
static uint64_t state;

/* All processes draw the same numbers. */
static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % below);
}

struct operation {
    int kind, origin, target, first, count, spread, value, with_request;
};

static MPI_Op op_of(int kind)
{
    switch (kind) {
    case SUM: return MPI_SUM;
    case REPLACE: return MPI_REPLACE;
    case MAXIMUM: return MPI_MAX;
    case XOR: return MPI_BXOR;
    default: return MPI_SUM;
    }
}

static int32_t combined(int kind, int32_t old, int32_t new)
{
    switch (kind) {
    case GET: return old;
    case MAXIMUM: return old > new ? old : new;
    case XOR: return old ^ new;
    case PUT:
    case REPLACE: return new;
    default: return (int32_t)((uint32_t)old + (uint32_t)new);
    }
}

/* The memory of an origin's side: elements `spread` apart. */
struct buffers {
    int32_t data[BLOCKS * 3], result[BLOCKS * 3], expected[BLOCKS];
    struct operation op;
    MPI_Request request;
};

static void start(struct buffers *own, const struct operation *op, MPI_Win win, MPI_Aint base, int unit)
{
    int i;
    MPI_Datatype near, far, moved;
    MPI_Aint disp = base + (MPI_Aint)((offsetof(struct memory, element) + 4 * (op->first * size + op->origin)) / unit);

    own->op = *op;
    own->request = MPI_REQUEST_NULL;
    for (i = 0; i < BLOCKS * 3; i++)
        own->data[i] = own->result[i] = -77;
    for (i = 0; i < op->count; i++)
        own->data[i * op->spread] = op->value + i;
    MPI_Type_vector(op->count, 1, op->spread, MPI_INT32_T, &near);
    MPI_Type_vector(op->count, 1, size, MPI_INT32_T, &far);
    MPI_Type_create_resized(far, 0, 4 * size * op->count, &moved);
    MPI_Type_commit(&near);
    MPI_Type_commit(&moved);
    switch (op->kind) {
    case PUT:
        if (op->with_request)
            MPI_Rput(own->data, 1, near, op->target, disp, 1, moved, win, &own->request);
        else
            MPI_Put(own->data, 1, near, op->target, disp, 1, moved, win);
        break;
    case GET:
        if (op->with_request)
            MPI_Rget(own->result, 1, near, op->target, disp, 1, moved, win, &own->request);
        else
            MPI_Get(own->result, 1, near, op->target, disp, 1, moved, win);
        break;
    case FETCH:
        if (op->count == 1 && !op->with_request)
            MPI_Fetch_and_op(own->data, own->result, MPI_INT32_T, op->target, disp, MPI_SUM, win);
        else if (op->with_request)
            MPI_Rget_accumulate(own->data, 1, near, own->result, 1, near, op->target, disp, 1, moved, MPI_SUM,
                                win, &own->request);
        else
            MPI_Get_accumulate(own->data, 1, near, own->result, 1, near, op->target, disp, 1, moved, MPI_SUM, win);
        break;
    default:
        if (op->with_request)
            MPI_Raccumulate(own->data, 1, near, op->target, disp, 1, moved, op_of(op->kind), win, &own->request);
        else
            MPI_Accumulate(own->data, 1, near, op->target, disp, 1, moved, op_of(op->kind), win);
    }
    MPI_Type_free(&near);
    MPI_Type_free(&far);
    MPI_Type_free(&moved);
}

static void check_results(const struct buffers *own)
{
    int i;
    const struct operation *op = &own->op;

    for (i = 0; i < op->count; i++) {
        CHECK(own->data[i * op->spread] == op->value + i);
        if (op->kind == GET || op->kind == FETCH)
            CHECK(own->result[i * op->spread] == own->expected[i]);
    }
}

/* Draws the operations of a round: each origin's on a target are on parts of its elements in turn. */
static int plan(struct operation *ops)
{
    int origin, target, n = 0, at, count;

    for (origin = 0; origin < size; origin++) {
        for (target = 0; target < size; target++) {
            for (at = draw(10); at < BLOCKS && n < MAX_RANKS * MAX_RANKS * OPS; at += count + draw(3)) {
                count = 1 + draw(draw(2) ? 2 : 18);
                if (at + count > BLOCKS)
                    break;
                ops[n++] = (struct operation) { .kind = draw(KINDS), .origin = origin, .target = target,
                    .first = at, .count = count, .spread = 1 + draw(3), .value = draw(1000),
                    .with_request = draw(2) };
            }
        }
    }
    return n;
}

static void apply(const struct operation *op, struct buffers *own)
{
    int i;

    for (i = 0; i < op->count; i++) {
        int32_t *at = &model[op->target].element[(op->first + i) * size + op->origin];
        if (own)
            own->expected[i] = *at;
        *at = combined(op->kind, *at, op->value + i);
    }
}

/* What all threads of a process do in a round. */
static struct operation ops[MAX_RANKS * MAX_RANKS * OPS];
static struct buffers own[MAX_RANKS * OPS];
static int slot[MAX_RANKS * MAX_RANKS * OPS], flushes[MAX_RANKS];
static int n, sync_kind, counted, one_by_one, threads, unit;
static int64_t ones[SHARED], fetched[MAX_RANKS][SHARED];
static MPI_Aint base[MAX_RANKS];
static MPI_Win win;

/* Adds to the counters of a target. */
static void count(int target)
{
    int i;

    if (!one_by_one)
        MPI_Accumulate(ones, counted, MPI_INT64_T, target, base[target], counted, MPI_INT64_T, MPI_SUM, win);
    for (i = 0; one_by_one && i < counted; i++)
        MPI_Fetch_and_op(&ones[i], &fetched[target][i], MPI_INT64_T, target, base[target] + 8 * i / unit, MPI_SUM,
                         win);
}

/* Other processes have added to the counters before this one, or have not. */
static void check_fetched(int target)
{
    int i;

    for (i = 0; one_by_one && i < counted; i++) {
        int64_t others = fetched[target][i] - model[target].counter[i];
        CHECK(others >= 0 && others <= (int64_t)(size - 1) * (i + 1) && others % (i + 1) == 0);
    }
}

/* The accesses of one thread. With locks of single targets it has some of the targets, otherwise some of
 * the operations on each. */
static void *access_all(void *index)
{
    int i, target, thread = *(int *)index, locks = sync_kind == EXCLUSIVE || sync_kind == LOCK_SHARED;

    for (target = 0; target < size; target++) {
        if (locks && target % threads != thread)
            continue;
        if (locks)
            MPI_Win_lock(sync_kind == EXCLUSIVE ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win);
        if (target % threads == thread)
            count(target);
        for (i = 0; i < n; i++)
            if (ops[i].origin == rank && ops[i].target == target && (locks || i % threads == thread))
                start(&own[slot[i]], &ops[i], win, base[target], unit);
        if (sync_kind == LOCK_ALL && flushes[target])
            MPI_Win_flush(target, win);
        for (i = 0; i < n; i++)
            if (ops[i].origin == rank && ops[i].target == target && (locks || i % threads == thread))
                MPI_Wait(&own[slot[i]].request, MPI_STATUS_IGNORE);
        if (locks)
            MPI_Win_unlock(target, win);
    }
    return NULL;
}

static void access_by_threads(void)
{
    int i, index[MAX_THREADS];
    pthread_t others[MAX_THREADS];

    for (i = 0; i < threads; i++) {
        index[i] = i;
        if (i > 0)
            CHECK(pthread_create(&others[i], NULL, access_all, &index[i]) == 0);
    }
    access_all(&index[0]);
    for (i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
}

int main(int argc, char **argv)
{
    int round, rounds, i, mine, flavor, target, provided, code, class, most;
    struct memory *memory, *held;
    MPI_Group group;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 4 && size <= MAX_RANKS && provided == MPI_THREAD_MULTIPLE);
    state = strtoull(argv[1], NULL, 10);
    rounds = atoi(argv[2]);
    most = atoi(argv[3]);
    CHECK(most >= 1 && most <= MAX_THREADS);
    for (i = 0; i < SHARED; i++)
        ones[i] = i + 1;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (rounds > 0) {
        held = calloc(1, sizeof *held);
        memset(base, 0, sizeof base);
        flavor = draw(FLAVORS);
        unit = flavor >= DYNAMIC ? 1 : 1 << draw(3);
        code = MPI_SUCCESS;
        memory = held;
        switch (flavor) {
        case CREATE: MPI_Win_create(held, sizeof *held, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win); break;
        case ALLOCATED:
            MPI_Alloc_mem(sizeof *held, MPI_INFO_NULL, &memory);
            MPI_Win_create(memory, sizeof *held, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
            break;
        case ALLOCATE: MPI_Win_allocate(sizeof *held, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win); break;
        case SHARED_MEMORY:
            /* Not on several nodes. */
            code = MPI_Win_allocate_shared(sizeof *held, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
            MPI_Error_class(code, &class);
            CHECK(code == MPI_SUCCESS || class == MPI_ERR_RMA_SHARED);
            break;
        default:
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
            if (flavor == DYNAMIC_ALLOCATED)
                MPI_Alloc_mem(sizeof *held, MPI_INFO_NULL, &memory);
            /* Accesses to memory in two parts go by requests. */
            i = draw(2) ? (int)sizeof *held : 1024;
            MPI_Win_attach(win, memory, i);
            if (i < (int)sizeof *held)
                MPI_Win_attach(win, (char *)memory + i, sizeof *held - i);
            MPI_Get_address(memory, &base[rank]);
            MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, base, 1, MPI_AINT, MPI_COMM_WORLD);
        }
        if (code != MPI_SUCCESS) {
            free(held);
            continue;
        }
        memset(memory, 0, sizeof *memory);
        memset(model, 0, sizeof model);
        MPI_Barrier(MPI_COMM_WORLD);
        for (round = 1 + draw(8); round > 0 && rounds > 0; round--, rounds--) {
            sync_kind = draw(SYNCS);
            n = plan(ops);
            counted = 1 + draw(SHARED);
            one_by_one = (rank + round) % 2;
            threads = 1 + draw(most);
            for (target = 0; target < size; target++)
                flushes[target] = draw(2);
            for (i = 0, mine = 0; i < n; i++)
                if (ops[i].origin == rank)
                    slot[i] = mine++;
            CHECK(mine <= MAX_RANKS * OPS);
            if (sync_kind == FENCE)
                MPI_Win_fence(draw(2) ? 0 : MPI_MODE_NOPRECEDE, win);
            if (sync_kind == GROUP) {
                MPI_Win_post(group, 0, win);
                MPI_Win_start(group, 0, win);
            }
            if (sync_kind == LOCK_ALL)
                MPI_Win_lock_all(0, win);
            access_by_threads();
            if (sync_kind == FENCE)
                MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
            if (sync_kind == GROUP) {
                MPI_Win_complete(win);
                MPI_Win_wait(win);
            }
            if (sync_kind == LOCK_ALL)
                MPI_Win_unlock_all(win);
            MPI_Barrier(MPI_COMM_WORLD);
            for (i = 0, mine = 0; i < n; i++)
                apply(&ops[i], ops[i].origin == rank ? &own[mine++] : NULL);
            for (i = 0; i < mine; i++)
                check_results(&own[i]);
            for (target = 0; target < size; target++)
                check_fetched(target);
            for (target = 0; target < size; target++)
                for (i = 0; i < counted; i++)
                    model[target].counter[i] += (int64_t)size * (i + 1);
            MPI_Win_sync(win);
            CHECK(memcmp(memory->counter, model[rank].counter, sizeof memory->counter) == 0);
            CHECK(memcmp(memory->element, model[rank].element, sizeof memory->element) == 0);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        CHECK(MPI_Win_free(&win) == MPI_SUCCESS && win == MPI_WIN_NULL);
        free(held);
        if (flavor == ALLOCATED || flavor == DYNAMIC_ALLOCATED)
            MPI_Free_mem(memory);
    }
    MPI_Group_free(&group);
    printf("rank %d: windows_random ok\n", rank);
    MPI_Finalize();
    return 0;
}
