/* Products of a few float32 rows with a fixed matrix kept in float16, summed in float32, for x86 cores with AVX2.
 *
 * The matrix is laid out in panels, [ceil(outputs / 16)][inputs][16] (`engine.native.float16_product` does it), so that it
 * is read once, front to back.
 *
 * OpenMP is not linked: the engine's process has preloaded the one that torch computes with (`engine.openmp`), and two
 * would fight over the cores.
 */
#include "float16_rows.h"

#include <omp.h>
#include <string.h>

/* At most BLOCK rows against one panel; `width` of its outputs are wanted. */
static void multiply_block(const float *x, const uint16_t *panel, float *y, long rows, long inputs, long outputs,
                           long width)
{
    long groups = group_count(rows), step = PANEL_BYTES / groups;
    const char *ahead = (const char *)(panel + WIDTH * inputs);
    float edge[ROWS * WIDTH];
    for (long group = 0, row = 0; group < groups; group++) {
        long size = group_size(rows - row, groups - group);
        int whole = width == WIDTH;
        float *to = y + row * outputs;
        by_rows[size - 1](x + row * inputs, inputs, panel, ahead, step, whole ? to : edge, whole ? outputs : WIDTH);
        for (long r = 0; !whole && r < size; r++)
            memcpy(to + r * outputs, edge + r * WIDTH, (size_t)width * sizeof(float));
        ahead += step * inputs;
        row += size;
    }
}

/* [rows][inputs] times the matrix gives y, [rows][outputs]. */
void product(const float *x, const uint16_t *panels, float *y, long rows, long inputs, long outputs)
{
    long count = (outputs + WIDTH - 1) / WIDTH, blocks = (rows + BLOCK - 1) / BLOCK;
    /* Taken in pieces as threads come free: a core that another process needs for a while does not hold up the rest. */
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (long piece = 0; piece < blocks * count; piece++) {
        long row = piece / count * BLOCK, panel = piece % count;
        multiply_block(x + row * inputs, panels + panel * WIDTH * inputs, y + row * outputs + panel * WIDTH,
                       smaller(rows - row, BLOCK), inputs, outputs, smaller(outputs - panel * WIDTH, WIDTH));
    }
}

/* Whether this processor can do that. */
int supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
