/* As many float32 as a register holds: eight with AVX2, or sixteen where these files are compiled with AVX512 defined. */
#ifndef LANES_H
#define LANES_H

#include <immintrin.h>
#include <stdint.h>

#ifdef AVX512
#define SIMD __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")))
#define LANES 16
typedef __m512 lanes;
#define WIDE(operation) _mm512_##operation
#define LOAD_HALVES(from) _mm256_loadu_si256((const __m256i *)(from))
#else
#define SIMD __attribute__((target("avx2,fma,f16c")))
#define LANES 8
typedef __m256 lanes;
#define WIDE(operation) _mm256_##operation
#define LOAD_HALVES(from) _mm_loadu_si128((const __m128i *)(from))
#endif

static inline __attribute__((always_inline)) SIMD lanes same(float value)
{
    return WIDE(set1_ps)(value);
}

static inline __attribute__((always_inline)) SIMD lanes load(const float *from)
{
    return WIDE(loadu_ps)(from);
}

/* From float16. */
static inline __attribute__((always_inline)) SIMD lanes widen(const uint16_t *from)
{
    return WIDE(cvtph_ps)(LOAD_HALVES(from));
}

static inline __attribute__((always_inline)) SIMD void store(float *to, lanes values)
{
    WIDE(storeu_ps)(to, values);
}

/* a * b + c */
static inline __attribute__((always_inline)) SIMD lanes add_product(lanes a, lanes b, lanes c)
{
    return WIDE(fmadd_ps)(a, b, c);
}

#endif
