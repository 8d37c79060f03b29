/* Prints the nanoseconds in which a flag gets from one core to another, as "flag 57": the state of a virtual machine,
 * whose two processors may be near each other now and far from each other a second later. The arguments are the two
 * cores. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PHASES 20
#define ROUND_TRIPS 1000

static _Alignas(128) atomic_int there;
static _Alignas(128) atomic_int back;
static _Alignas(128) atomic_int ready;

static void bind_to(const char *core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    /* The macro leaves out what is no core of a set. */
    CPU_SET(atoi(core), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("flag: cannot be bound to the core");
        exit(1);
    }
}

static void *echo(void *core) {
    bind_to(core);
    atomic_store(&ready, 1);
    for (int i = 1; i <= PHASES * ROUND_TRIPS; i++) {
        while (atomic_load_explicit(&there, memory_order_acquire) != i)
            ;
        atomic_store_explicit(&back, i, memory_order_release);
    }
    return NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    pthread_t other;
    if (argc != 3 || pthread_create(&other, NULL, echo, argv[2]) != 0) {
        fprintf(stderr, "flag: wants two cores, and a second thread\n");
        return 2;
    }
    /* Before that the other thread may need this core. */
    while (!atomic_load(&ready))
        sched_yield();
    bind_to(argv[1]);
    double best = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        double start = now();
        for (int i = 1; i <= ROUND_TRIPS; i++) {
            int flag = phase * ROUND_TRIPS + i;
            atomic_store_explicit(&there, flag, memory_order_release);
            while (atomic_load_explicit(&back, memory_order_acquire) != flag)
                ;
        }
        double took = (now() - start) / ROUND_TRIPS / 2;
        best = phase == 0 || took < best ? took : best;
    }
    pthread_join(other, NULL);
    printf("flag %.0f\n", best);
    return 0;
}
