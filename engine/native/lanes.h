/* As many float32 as a register holds: eight with AVX2, or sixteen where these files are compiled with AVX512 defined. */
#ifndef LANES_H
#define LANES_H

#include <immintrin.h>
#include <stdint.h>

#ifdef AVX512

#define SIMD __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")))
#define LANES 16
typedef __m512 lanes;

static inline __attribute__((always_inline)) SIMD lanes same(float value)
{
    return _mm512_set1_ps(value);
}

static inline __attribute__((always_inline)) SIMD lanes load(const float *from)
{
    return _mm512_loadu_ps(from);
}

/* From float16. */
static inline __attribute__((always_inline)) SIMD lanes widen(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

static inline __attribute__((always_inline)) SIMD void store(float *to, lanes values)
{
    _mm512_storeu_ps(to, values);
}

/* a * b + c */
static inline __attribute__((always_inline)) SIMD lanes add_product(lanes a, lanes b, lanes c)
{
    return _mm512_fmadd_ps(a, b, c);
}

#else

#define SIMD __attribute__((target("avx2,fma,f16c")))
#define LANES 8
typedef __m256 lanes;

static inline __attribute__((always_inline)) SIMD lanes same(float value)
{
    return _mm256_set1_ps(value);
}

static inline __attribute__((always_inline)) SIMD lanes load(const float *from)
{
    return _mm256_loadu_ps(from);
}

/* From float16. */
static inline __attribute__((always_inline)) SIMD lanes widen(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

static inline __attribute__((always_inline)) SIMD void store(float *to, lanes values)
{
    _mm256_storeu_ps(to, values);
}

/* a * b + c */
static inline __attribute__((always_inline)) SIMD lanes add_product(lanes a, lanes b, lanes c)
{
    return _mm256_fmadd_ps(a, b, c);
}

#endif
#endif
