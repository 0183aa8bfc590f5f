/* Some float32 rows against one panel of a matrix kept in float16: what the loops of this folder have in common.
 *
 * A panel is [inputs][16]: 16 neighbouring outputs. Every sum is added up in the order of the inputs, whatever the number
 * of rows: a row's result does not depend on the rows beside it, nor on the number of threads. A register block of 6 rows
 * by 16 outputs keeps both multipliers of a core busy (Goto and van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication", 2008); with fewer rows a product takes as long as reading the matrix, so the next panel is fetched
 * while the current one is multiplied with.
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define WIDTH 16
#define ROWS 6
#define PANEL_BYTES (long)sizeof(uint16_t[WIDTH])
/* Panels that a thread takes at a time. */
#define CHUNK 4
/* Rows whose values stay in the second-level cache while all panels pass. */
#define BLOCK 96
#define AVX2 __attribute__((target("avx2,fma,f16c")))

/* `rows` rows against one panel. `ahead` is what to fetch meanwhile, `step` bytes for every input. */
static inline __attribute__((always_inline)) AVX2 void multiply(
    int rows, const float *x, long inputs, const uint16_t *panel, const char *ahead, long step,
    float *y, long stride)
{
    __m256 sums[ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_ps();
    for (long i = 0; i < inputs; i++) {
        _mm_prefetch(ahead + i * step, _MM_HINT_T1);
        __m256 low = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(panel + WIDTH * i)));
        __m256 high = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(panel + WIDTH * i + WIDTH / 2)));
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 value = _mm256_broadcast_ss(x + r * inputs + i);
            sums[r][0] = _mm256_fmadd_ps(value, low, sums[r][0]);
            sums[r][1] = _mm256_fmadd_ps(value, high, sums[r][1]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_ps(y + r * stride, sums[r][0]);
        _mm256_storeu_ps(y + r * stride + WIDTH / 2, sums[r][1]);
    }
}

#define MULTIPLY(rows) \
    static AVX2 void multiply_##rows(const float *x, long inputs, const uint16_t *panel, const char *ahead, \
                                     long step, float *y, long stride) \
    { \
        multiply(rows, x, inputs, panel, ahead, step, y, stride); \
    }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)

typedef void (*Multiply)(const float *, long, const uint16_t *, const char *, long, float *, long);
static const Multiply by_rows[] = {multiply_1, multiply_2, multiply_3, multiply_4, multiply_5, multiply_6};

/* Of `rows` rows, the size of the next group of at most ROWS, where `left` groups are left: as even as can be. */
static inline long group_size(long rows, long left)
{
    return (rows + left - 1) / left;
}

static inline long group_count(long rows)
{
    return (rows + ROWS - 1) / ROWS;
}

static inline long smaller(long a, long b)
{
    return a < b ? a : b;
}
