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
#define AS_LANES(whole) _mm512_castsi512_ps(whole)
#define LOAD_HALVES(from) _mm256_loadu_si256((const __m256i *)(from))
#else
#define SIMD __attribute__((target("avx2,fma,f16c" VNNI)))
#define LANES 8
typedef __m256 lanes;
typedef __m256i whole;
#define WIDE(operation) _mm256_##operation
#define AS_LANES(whole) _mm256_castsi256_ps(whole)
#define LOAD_HALVES(from) _mm_loadu_si128((const __m128i *)(from))
#endif

#define OPERATION static inline __attribute__((always_inline)) SIMD

/* Columns that are multiplied with at a time. */
#define WIDTH (2 * LANES)

/* Added to whole numbers n, |n| < 2^22, these bits are, taken for a float, MAGIC + n; and MAGIC added to a float is that of the
 * whole number nearest to it. */
#define MAGIC_BITS 0x4b400000
#define MAGIC 12582912.0f

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

/* Of `rows` rows, a constant wherever this is called. */
OPERATION void clear(int rows, lanes (*sums)[2])
{
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = same(0.0f);
}

/* Those to y, whose rows are `stride` apart. */
OPERATION void put(int rows, lanes (*sums)[2], float *y, long stride)
{
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++)
            store(y + r * stride + half * LANES, sums[r][half]);
}

OPERATION float greatest_of(lanes x)
{
#ifdef AVX512
    return _mm512_reduce_max_ps(x);
#else
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
#endif
}

OPERATION int32_t sum_of(whole x)
{
#ifdef AVX512
    return _mm512_reduce_add_epi32(x);
#else
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
#endif
}

/* The numbers, which fit in 8 bits, in as many. */
OPERATION void store_8(int8_t *to, whole x)
{
#ifdef AVX512
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(x));
#else
    __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(halves, halves));
#endif
}

#ifdef INT8
/* Each sum with four products more, of unsigned and of signed numbers of 8 bits. */
OPERATION whole add_dots(whole sums, whole unsigned_8, whole signed_8)
{
    return DOTS(sums, unsigned_8, signed_8);
}
#endif

#endif
