/* Products of a few float32 rows with a fixed matrix kept in float16, summed in float32, for x86 cores with AVX2.
 *
 * y[r][o] = sum over i of x[r][i] * w[o][i], added up in the order of i for every r and o, whatever the number of rows:
 * a row's result does not depend on the rows beside it, nor on the number of threads.
 *
 * The matrix is laid out in panels of 16 outputs, [ceil(outputs / 16)][inputs][16] (`engine.native.float16_product` does it), so
 * that it is read once, front to back. A register block of 6 rows by 16 outputs keeps both multipliers of a core busy
 * (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008); with fewer rows the product takes
 * as long as reading the matrix, so the next panel is fetched while the current one is multiplied with.
 *
 * OpenMP is not linked: the engine's process has preloaded the one that torch computes with (`engine.openmp`), and two
 * would fight over the cores.
 */
#include <immintrin.h>
#include <omp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIDTH 16
#define ROWS 6
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

/* At most BLOCK rows against one panel; `width` of its outputs are wanted. */
static void multiply_block(const float *x, const uint16_t *panel, float *y, long rows, long inputs,
                           long outputs, long width)
{
    long groups = (rows + ROWS - 1) / ROWS;
    long step = (long)sizeof(uint16_t[WIDTH]) / groups;
    const char *ahead = (const char *)(panel + WIDTH * inputs);
    float edge[ROWS * WIDTH];
    for (long group = 0, row = 0; group < groups; group++) {
        /* As even as can be: 7 rows are 4 and 3. */
        long size = (rows - row + groups - group - 1) / (groups - group);
        int whole = width == WIDTH;
        float *to = y + row * outputs;
        by_rows[size - 1](x + row * inputs, inputs, panel, ahead, step, whole ? to : edge, whole ? outputs : WIDTH);
        for (long r = 0; !whole && r < size; r++)
            memcpy(to + r * outputs, edge + r * WIDTH, (size_t)width * sizeof(float));
        ahead += step * inputs;
        row += size;
    }
}

/* [rows][inputs] times the matrix gives y, [rows][outputs]. */
void product(const float *x, const uint16_t *panels, float *y, long rows, long inputs, long outputs)
{
    long count = (outputs + WIDTH - 1) / WIDTH;
#pragma omp parallel
    {
        long threads = omp_get_num_threads(), thread = omp_get_thread_num();
        long begin = count * thread / threads, end = count * (thread + 1) / threads;
        for (long row = 0; row < rows; row += BLOCK) {
            long size = rows - row < BLOCK ? rows - row : BLOCK;
            for (long p = begin; p < end; p++) {
                long width = outputs - p * WIDTH < WIDTH ? outputs - p * WIDTH : WIDTH;
                multiply_block(x + row * inputs, panels + p * WIDTH * inputs, y + row * outputs + p * WIDTH, size,
                               inputs, outputs, width);
            }
        }
    }
}

/* Whether this processor can do that. */
int supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
