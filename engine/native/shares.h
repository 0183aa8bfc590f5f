/* Pieces of work, shared out among the threads of a parallel region.
 *
 * Each thread takes its own share from front to back, so that it reads memory in order and what it fetches ahead is its own.
 * Who has finished takes of what others have left: a core that another process needs for a while does not hold up the rest.
 */
#ifndef SHARES_H
#define SHARES_H

#include <omp.h>
#include <string.h>

/* How many pieces of one thread's share are taken, or more; alone in its line of the cache. */
struct taken {
    _Alignas(64) long count;
};

/* A thread of the region: its number, how many there are, and what is taken in the next round. */
struct worker {
    long number, threads;
    struct taken *taken;
};

/* One round of pieces, as one thread sees it: whose share it takes of, counted from its own, and the piece it has. */
struct round {
    const struct worker *worker;
    struct taken *taken;
    long pieces, whose, piece;
};

/* What is taken in `rounds` rounds, for an array of as many elements as `taken_in` says. */
static inline size_t taken_in(long rounds)
{
    return (size_t)(rounds * omp_get_max_threads());
}

/* The calling thread. `taken` is all zero before the region. */
static inline struct worker this_worker(struct taken *taken)
{
    return (struct worker){omp_get_thread_num(), omp_get_num_threads(), taken};
}

/* The worker's next round. All workers of the region go through the same rounds, and wait for each other behind each. */
static inline struct round share_out(struct worker *worker, long pieces)
{
    struct taken *taken = worker->taken;
    worker->taken += worker->threads;
    return (struct round){worker, taken, pieces, 0, 0};
}

/* Whether there is a piece left for this thread; then it is `piece`. */
static inline int take(struct round *round)
{
    for (; round->whose < round->worker->threads; round->whose++) {
        long whose = (round->worker->number + round->whose) % round->worker->threads;
        long begin = round->pieces * whose / round->worker->threads;
        long end = round->pieces * (whose + 1) / round->worker->threads;
        round->piece = begin + __atomic_fetch_add(&round->taken[whose].count, 1, __ATOMIC_RELAXED);
        if (round->piece < end)
            return 1;
    }
    return 0;
}

#endif
