/* e to the power of all numbers of a register at once. */
#ifndef EXPONENTIAL
#define EXPONENTIAL

#include "lanes.h"

/* Arguments are held within +-87, the range of float32's normal numbers. Argument reduction and polynomial as in Cephes'
 * expf: the error is two units in the last place at most. */
OPERATION lanes exponential(lanes x)
{
    x = WIDE(min_ps)(WIDE(max_ps)(x, same(-87.0f)), same(87.0f));
    /* The nearest whole number is what MAGIC leaves of the sum's last bits. */
    lanes shifted = add_product(x, same(1.44269504f), same(MAGIC)), n = WIDE(sub_ps)(shifted, same(MAGIC));
    x = WIDE(fnmadd_ps)(n, same(0.693359375f), x);
    x = WIDE(fnmadd_ps)(n, same(-2.12194440e-4f), x);
    lanes p = same(1.9875691500e-4f);
    p = add_product(p, x, same(1.3981999507e-3f));
    p = add_product(p, x, same(8.3334519073e-3f));
    p = add_product(p, x, same(4.1665795894e-2f));
    p = add_product(p, x, same(1.6666665459e-1f));
    p = add_product(p, x, same(5.0000001201e-1f));
    p = add_product(p, WIDE(mul_ps)(x, x), WIDE(add_ps)(x, same(1.0f)));
#ifdef AVX512
    return _mm512_scalef_ps(p, n);
#else
    whole exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, AS_LANES(exponent));
#endif
}
#endif
