/* e to the power of all numbers of a register at once. */
#ifndef EXPONENTIAL
#define EXPONENTIAL

#include "lanes.h"

#ifdef AVX512
#define NEAREST(x) _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define AS_LANES(whole) _mm512_castsi512_ps(whole)
#else
#define NEAREST(x) _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define AS_LANES(whole) _mm256_castsi256_ps(whole)
#endif

/* Arguments are held within +-87, the range of float32's normal numbers. Argument reduction and polynomial as in Cephes'
 * expf: the error is two units in the last place at most. */
OPERATION lanes exponential(lanes x)
{
    x = WIDE(min_ps)(WIDE(max_ps)(x, same(-87.0f)), same(87.0f));
    lanes n = NEAREST(WIDE(mul_ps)(x, same(1.44269504f)));
    x = WIDE(fnmadd_ps)(n, same(0.693359375f), x);
    x = WIDE(fnmadd_ps)(n, same(-2.12194440e-4f), x);
    lanes p = same(1.9875691500e-4f);
    p = add_product(p, x, same(1.3981999507e-3f));
    p = add_product(p, x, same(8.3334519073e-3f));
    p = add_product(p, x, same(4.1665795894e-2f));
    p = add_product(p, x, same(1.6666665459e-1f));
    p = add_product(p, x, same(5.0000001201e-1f));
    p = add_product(p, WIDE(mul_ps)(x, x), WIDE(add_ps)(x, same(1.0f)));
    whole exponent = WIDE(slli_epi32)(WIDE(add_epi32)(WIDE(cvtps_epi32)(n), WIDE(set1_epi32)(127)), 23);
    return WIDE(mul_ps)(p, AS_LANES(exponent));
}
#endif
