/* Numbers from seeds: the same ones at all processes. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

typedef struct {
    uint64_t state;
} Random;

static inline uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

/* Returns a seed made of two. */
static inline uint64_t mixed(uint64_t one, uint64_t other)
{
    return mix(one + 0x9e3779b97f4a7c15u + mix(other + 0x9e3779b97f4a7c15u));
}

static inline uint64_t draw(Random *random)
{
    random->state += 0x9e3779b97f4a7c15u;
    return mix(random->state);
}

/* Returns a number from 0 to `end` - 1. */
static inline int below(Random *random, int end)
{
    return (int)(draw(random) % (uint64_t)end);
}

static inline int one_in(Random *random, int many)
{
    return below(random, many) == 0;
}

/* Puts numbers into a random order. */
static inline void shuffle(Random *random, int *numbers, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int other = below(random, i + 1), number = numbers[i];

        numbers[i] = numbers[other];
        numbers[other] = number;
    }
}

#endif
