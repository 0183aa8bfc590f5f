/* A few rows against one panel of a matrix kept in 8 bits, in blocks of 32 inputs, for processors with VNNI.
 *
 * In its block a weight is least + step * q, with q from 0 to 255, and a row's value is step * q, with q from -127 to 127; least
 * and the steps are each block's own. These are the blocks that GGUF calls Q8_1, for weights with twice its levels: sixteen
 * levels between least and greatest, as of its Q4_1, are kept as they are. Sums within a block are whole numbers and exact;
 * those of blocks are added in their order, so that a row's result depends neither on the rows beside it nor on the width
 * of registers.
 *
 * A block of a panel is: steps [WIDTH] and leasts [WIDTH] in float16, and q [FOURS][WIDTH][4].
 */
#ifndef BLOCK_OF_A_PANEL
#define BLOCK_OF_A_PANEL

#include "lanes.h"

#include <string.h>

#define BLOCK_INPUTS 32
#define FOURS (BLOCK_INPUTS / 4)
#define BLOCK_BYTES ((2 * (long)sizeof(uint16_t) + BLOCK_INPUTS) * WIDTH)

/* Rows of one call: as many as registers hold. */
#ifdef AVX512
#define MOST 6
#define EACH_OF_MOST(WITH) WITH(1) WITH(2) WITH(3) WITH(4) WITH(5) WITH(6)
#else
#define MOST 3
#define EACH_OF_MOST(WITH) WITH(1) WITH(2) WITH(3)
#endif

/* Whether `pack` does anything. */
#define PACKS 1

/* A row's values for one block, where their floats were; `sum` is that of what the values have become. */
struct packed {
    int8_t q[BLOCK_INPUTS];
    float step, sum;
};

static inline long panel_bytes(long inputs)
{
    return inputs / BLOCK_INPUTS * BLOCK_BYTES;
}

/* Makes `size` values of a row what a product takes. */
static inline SIMD void pack(float *x, long size)
{
    for (float *end = x + size; x < end; x += BLOCK_INPUTS) {
        lanes tops = same(0.0f);
        for (int i = 0; i < BLOCK_INPUTS; i += LANES)
            tops = WIDE(max_ps)(tops, magnitude(load(x + i)));
        float largest = greatest_of(tops);
        /* Below that, 127 steps to the largest value are too many to be counted, and the values nothing beside any others. */
        lanes per_step = same(largest > 1e-30f ? 127.0f / largest : 0.0f);
        struct packed *to = (struct packed *)x;
        /* Read before `to`, which lies in the same place, is written. */
        whole q[BLOCK_INPUTS / LANES], sums = WIDE(set1_epi32)(0);
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK_INPUTS / LANES; i++) {
            lanes steps = WIDE(mul_ps)(load(x + i * LANES), per_step);
            q[i] = WIDE(cvtps_epi32)(WIDE(min_ps)(WIDE(max_ps)(steps, same(-127.0f)), same(127.0f)));
            sums = WIDE(add_epi32)(sums, q[i]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK_INPUTS / LANES; i++)
            store_8(to->q + i * LANES, q[i]);
        to->step = largest / 127.0f;
        to->sum = to->step * (float)sum_of(sums);
    }
}

/* Where a whole block is fetched while another is multiplied with. */
#define BYTES_AHEAD (BLOCK_BYTES / FOURS)

/* Fetches what stands at `ahead`, `stride` bytes for each of a block's fours, some lines of the cache at a time: more would have
 * to wait for each other, and what is multiplied meanwhile with them. */
static inline __attribute__((always_inline)) void fetch(const char *ahead, long stride, int four)
{
    if (stride == BYTES_AHEAD)
        for (long line = four * BYTES_AHEAD / 64; line < (four + 1) * BYTES_AHEAD / 64; line++)
            _mm_prefetch(ahead + 64 * line, _MM_HINT_T1);
    else
        _mm_prefetch(ahead + four * stride, _MM_HINT_T1);
}

/* Adds to sums[r] what one block gives row r; rows are `inputs` floats apart. */
OPERATION void add_block(int rows, const float *x, long inputs, const char *block, const char *ahead, long stride,
                         lanes (*sums)[2])
{
    const uint16_t *steps = (const uint16_t *)block, *leasts = steps + WIDTH;
    const char *weights = (const char *)(leasts + WIDTH);
    whole dots[MOST][2];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        /* 32 products of 255 and 127 are less than 2^22. */
        dots[r][0] = dots[r][1] = WIDE(set1_epi32)(MAGIC_BITS);
#pragma GCC unroll 8
    for (int four = 0; four < FOURS; four++) {
        fetch(ahead, stride, four);
        whole first = load_whole(weights + four * 4 * WIDTH), second = load_whole(weights + four * 4 * WIDTH + 4 * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            int32_t q;
            memcpy(&q, ((const struct packed *)(x + r * inputs))->q + 4 * four, sizeof q);
            dots[r][0] = add_dots(dots[r][0], first, WIDE(set1_epi32)(q));
            dots[r][1] = add_dots(dots[r][1], second, WIDE(set1_epi32)(q));
        }
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        lanes step = widen(steps + half * LANES), least = widen(leasts + half * LANES);
        /* A step of 11 bits makes this exact, and the product below that of the dots alone, rounded once. */
        lanes magic = WIDE(mul_ps)(step, same(-MAGIC));
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const struct packed *row = (const struct packed *)(x + r * inputs);
            lanes product = add_product(AS_LANES(dots[r][half]), step, magic);
            sums[r][half] = add_product(product, same(row->step), sums[r][half]);
            sums[r][half] = add_product(least, same(row->sum), sums[r][half]);
        }
    }
}

/* y[r][0..WIDTH) = the sums of row r, for a constant number of rows. x: [rows][inputs], packed; y's rows are `stride` apart.
 * What stands at `ahead`, one of `shares` parts of a panel, is fetched meanwhile. */
OPERATION void multiply_panel(int rows, const float *x, long inputs, const char *panel, const char *ahead, long shares,
                              float *y, long stride)
{
    lanes sums[MOST][2];
    clear(rows, sums);
    long fetched = BYTES_AHEAD / shares, share = BLOCK_BYTES / shares;
    for (long at = 0; at < inputs; at += BLOCK_INPUTS, panel += BLOCK_BYTES, ahead += share)
        add_block(rows, x + at, inputs, panel, ahead, fetched, sums);
    put(rows, sums, y, stride);
}

#endif
