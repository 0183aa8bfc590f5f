/* What layers do with a row's values besides products. Sizes are multiples of WIDTH. */
#ifndef ELEMENTWISE
#define ELEMENTWISE

#include "exponential.h"
#include "lanes.h"

/* y = silu(gate) * up, WIDTH values. */
static inline SIMD void gated(const float *gate, const float *up, float *y)
{
    for (int i = 0; i < WIDTH; i += LANES) {
        lanes g = load(gate + i), one = same(1.0f);
        lanes sigmoid = WIDE(div_ps)(one, WIDE(add_ps)(one, exponential(WIDE(sub_ps)(same(0.0f), g))));
        store(y + i, WIDE(mul_ps)(WIDE(mul_ps)(g, sigmoid), load(up + i)));
    }
}

/* Of some values, in order. */
static inline float total(const float *values, int count)
{
    float sum = 0.0f;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

/* y = x over its root mean square, times `weight`, unless that is NULL. Squares are added up by eight, whatever the width. */
static inline SIMD void norm(const float *x, const float *weight, float *y, long size, float epsilon)
{
    __m256 squares = _mm256_setzero_ps();
    for (long i = 0; i < size; i += 8) {
        __m256 value = _mm256_loadu_ps(x + i);
        squares = _mm256_fmadd_ps(value, value, squares);
    }
    float parts[8];
    _mm256_storeu_ps(parts, squares);
    float root = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(total(parts, 8) / (float)size + epsilon)));
    __m256 scale = _mm256_set1_ps(1.0f / root);
    for (long i = 0; i < size; i += 8) {
        __m256 value = _mm256_mul_ps(_mm256_loadu_ps(x + i), scale);
        _mm256_storeu_ps(y + i, weight ? _mm256_mul_ps(value, _mm256_loadu_ps(weight + i)) : value);
    }
}

#endif
