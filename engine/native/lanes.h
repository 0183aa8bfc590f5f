/* As many float32, or whole numbers of 32 bits, as a register holds: eight with AVX2, or sixteen where these files are compiled
 * with AVX512 defined. With INT8 defined, the processor also has VNNI, in the form for that width. */
#ifndef LANES_H
#define LANES_H

#include <immintrin.h>
#include <stdint.h>

/* Of registers of half the width there are two forms; the compiler knows of the one that belongs to AVX-512 where it was told. */
#if defined INT8 && defined AVX512
#define VNNI ",avx512vnni"
#define DOTS _mm512_dpbusd_epi32
#elif defined INT8 && defined __AVX512VNNI__ && defined __AVX512VL__
#define VNNI ",avx512vl,avx512vnni"
#define DOTS _mm256_dpbusd_epi32
#elif defined INT8
#define VNNI ",avxvnni"
#define DOTS _mm256_dpbusd_avx_epi32
#else
#define VNNI ""
#endif

#ifdef AVX512
#define SIMD __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c" VNNI)))
#define LANES 16
typedef __m512 lanes;
typedef __m512i whole;
#define WIDE(operation) _mm512_##operation
#define LOAD_HALVES(from) _mm256_loadu_si256((const __m256i *)(from))
#else
#define SIMD __attribute__((target("avx2,fma,f16c" VNNI)))
#define LANES 8
typedef __m256 lanes;
typedef __m256i whole;
#define WIDE(operation) _mm256_##operation
#define LOAD_HALVES(from) _mm_loadu_si128((const __m128i *)(from))
#endif

#define OPERATION static inline __attribute__((always_inline)) SIMD

/* Columns that are multiplied with at a time. */
#define WIDTH (2 * LANES)

OPERATION lanes same(float value)
{
    return WIDE(set1_ps)(value);
}

OPERATION lanes load(const float *from)
{
    return WIDE(loadu_ps)(from);
}

/* From float16. */
OPERATION lanes widen(const uint16_t *from)
{
    return WIDE(cvtph_ps)(LOAD_HALVES(from));
}

OPERATION void store(float *to, lanes values)
{
    WIDE(storeu_ps)(to, values);
}

OPERATION whole load_whole(const void *from)
{
    whole values;
    __builtin_memcpy(&values, from, sizeof values);
    return values;
}

OPERATION void store_whole(int32_t *to, whole values)
{
    __builtin_memcpy(to, &values, sizeof values);
}

/* a * b + c */
OPERATION lanes add_product(lanes a, lanes b, lanes c)
{
    return WIDE(fmadd_ps)(a, b, c);
}

OPERATION lanes magnitude(lanes x)
{
#ifdef AVX512
    return _mm512_abs_ps(x);
#else
    return _mm256_andnot_ps(same(-0.0f), x);
#endif
}

/* `then` where x is at least `least`, else 0. */
OPERATION lanes where_above(lanes x, float least, lanes then)
{
#ifdef AVX512
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, same(least), _CMP_GE_OQ), then);
#else
    return _mm256_and_ps(_mm256_cmp_ps(x, same(least), _CMP_GE_OQ), then);
#endif
}

OPERATION float greatest_of(lanes x)
{
    float values[LANES];
    store(values, x);
    float greatest = values[0];
    for (int i = 1; i < LANES; i++)
        greatest = values[i] > greatest ? values[i] : greatest;
    return greatest;
}

#ifdef INT8
/* Each sum with four products more, of unsigned and of signed numbers of 8 bits. */
OPERATION whole add_dots(whole sums, whole unsigned_8, whole signed_8)
{
    return DOTS(sums, unsigned_8, signed_8);
}
#endif

#endif
