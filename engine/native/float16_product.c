/* Products of a few float32 rows with a fixed matrix kept in float16, summed in float32, for x86 cores with AVX2.
 *
 * The matrix is laid out in panels by `engine.native.float16_product`.
 *
 * OpenMP is not linked: the engine's process has preloaded the one that torch computes with (`engine.openmp`), and two
 * would fight over the cores.
 */
#include "float16_rows.h"

/* [rows][inputs] times the matrix gives y, [rows][outputs]. */
void product(const float *x, const uint16_t *panels, float *y, long rows, long inputs, long outputs)
{
    /* Taken in pieces as threads come free: a core that another process needs for a while does not hold up the rest. */
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (long piece = 0; piece < piece_count(rows, outputs); piece++)
        multiply_piece(x, panels, y, rows, inputs, outputs, piece, 0);
}

/* Whether this processor can do that. */
int supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
