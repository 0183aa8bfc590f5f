/* Products of a few float32 rows with a fixed matrix kept in fewer bits, summed in float32, for x86 cores with AVX2 or AVX-512.
 *
 * The matrix is laid out in panels by `engine.native.panels`.
 *
 * OpenMP is not linked: the engine's process has preloaded the one that torch computes with (`engine.openmp`), and two
 * would fight over the cores.
 */
#include "panels.h"

/* [rows][inputs], which are packed, times the matrix gives y, [rows][outputs]. */
void product(float *x, const char *matrix, float *y, long rows, long inputs, long outputs)
{
    struct taken taken[taken_in(1)];
    memset(taken, 0, sizeof taken);
#pragma omp parallel
    {
        struct worker worker = this_worker(taken);
        pack_shared(x, rows, inputs);
        multiply_shared(&worker, x, matrix, y, rows, inputs, outputs, 0);
    }
}

/* Columns of a panel. */
long panel_width(void)
{
    return WIDTH;
}

/* Of this all sizes of a model are multiples. */
long size_unit(void)
{
    return WIDTH % BLOCK_INPUTS ? BLOCK_INPUTS : WIDTH;
}

/* Whether this processor can do what this folder was compiled for. */
int supported(void)
{
#ifdef AVX512
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq"))
        return 0;
#endif
#if defined INT8 && (defined AVX512 || defined __AVX512VNNI__)
    if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512vl"))
        return 0;
#elif defined INT8
    if (!__builtin_cpu_supports("avxvnni"))
        return 0;
#endif
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
