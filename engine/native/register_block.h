/* A few float32 rows against 16 neighbouring columns of a matrix: the innermost loop of all products of this folder.
 *
 * Every sum is added up in the order of the inputs, whatever the number of rows: a row's result does not depend on the rows
 * beside it, nor on the number of threads. 6 rows by 16 columns keep both multipliers of a core busy and fill its registers
 * (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
 */
#ifndef REGISTER_BLOCK
#define REGISTER_BLOCK

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define WIDTH 16
#define ROWS 6
#define AVX2 __attribute__((target("avx2,fma,f16c")))

enum kind { FLOAT16, FLOAT32 };

/* Columns 8 * half to 8 * half + 7 of a matrix's row i, whose rows are `stride` elements apart. */
static inline __attribute__((always_inline)) AVX2 __m256 columns(enum kind kind, const void *matrix, long stride, long i,
                                                                 int half)
{
    long place = i * stride + half * WIDTH / 2;
    return kind == FLOAT32 ? _mm256_loadu_ps((const float *)matrix + place)
                           : _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)matrix + place)));
}

/* y[r][0..15] = sum over i of x[r][i] * matrix[i][0..15], added to what stands there if `begun`. `rows`, `kind` and `begun`
 * are constants wherever this is called. What stands at `ahead` is fetched meanwhile, unless it is NULL: `step` bytes for
 * every input. */
static inline __attribute__((always_inline)) AVX2 void multiply(
    int rows, enum kind kind, const float *x, long x_stride, long inputs, const void *matrix, long stride,
    const char *ahead, long step, float *y, long y_stride, int begun)
{
    __m256 sums[ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        sums[r][0] = begun ? _mm256_loadu_ps(y + r * y_stride) : _mm256_setzero_ps();
        sums[r][1] = begun ? _mm256_loadu_ps(y + r * y_stride + WIDTH / 2) : _mm256_setzero_ps();
    }
    for (long i = 0; i < inputs; i++) {
        if (ahead)
            _mm_prefetch(ahead + i * step, _MM_HINT_T1);
        __m256 low = columns(kind, matrix, stride, i, 0), high = columns(kind, matrix, stride, i, 1);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 value = _mm256_broadcast_ss(x + r * x_stride + i);
            sums[r][0] = _mm256_fmadd_ps(value, low, sums[r][0]);
            sums[r][1] = _mm256_fmadd_ps(value, high, sums[r][1]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_ps(y + r * y_stride, sums[r][0]);
        _mm256_storeu_ps(y + r * y_stride + WIDTH / 2, sums[r][1]);
    }
}

#endif
