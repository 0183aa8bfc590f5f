/* What layers do with a row's values besides products. Sizes are multiples of WIDTH. */
#ifndef ELEMENTWISE
#define ELEMENTWISE

#include "exponential.h"
#include "register_block.h"

/* y = silu(gate) * up, WIDTH values. */
static inline SIMD void gated(const float *gate, const float *up, float *y)
{
    for (int i = 0; i < WIDTH; i += 8) {
        __m256 g = _mm256_loadu_ps(gate + i), one = _mm256_set1_ps(1.0f);
        __m256 sigmoid = _mm256_div_ps(one, _mm256_add_ps(one, exponential(_mm256_sub_ps(_mm256_setzero_ps(), g))));
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_mul_ps(g, sigmoid), _mm256_loadu_ps(up + i)));
    }
}

/* Of eight values, in order. */
static inline SIMD float total(__m256 values)
{
    float parts[8], sum = 0.0f;
    _mm256_storeu_ps(parts, values);
    for (int i = 0; i < 8; i++)
        sum += parts[i];
    return sum;
}

/* y = x over its root mean square, times `weight`, unless that is NULL. */
static inline SIMD void norm(const float *x, const float *weight, float *y, long size, float epsilon)
{
    __m256 squares = _mm256_setzero_ps();
    for (long i = 0; i < size; i += 8) {
        __m256 value = _mm256_loadu_ps(x + i);
        squares = _mm256_fmadd_ps(value, value, squares);
    }
    float root = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(total(squares) / (float)size + epsilon)));
    __m256 scale = _mm256_set1_ps(1.0f / root);
    for (long i = 0; i < size; i += 8) {
        __m256 value = _mm256_mul_ps(_mm256_loadu_ps(x + i), scale);
        _mm256_storeu_ps(y + i, weight ? _mm256_mul_ps(value, _mm256_loadu_ps(weight + i)) : value);
    }
}

#endif
