/* A few float32 rows against WIDTH neighbouring columns of a matrix: the innermost loop of all products in float32 and float16.
 *
 * Every sum is added up in the order of the inputs, whatever the number of rows: a row's result does not depend on the rows
 * beside it, nor on the number of threads, nor on the width of registers. ROWS rows by two registers of columns keep both
 * multipliers of a core busy and fill its registers (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
 */
#ifndef REGISTER_BLOCK
#define REGISTER_BLOCK

#include "lanes.h"

#include <stddef.h>

/* What is written once for each number of rows: WITH(1) WITH(2) ... WITH(ROWS). */
#ifdef AVX512
#define ROWS 12
#define EACH_NUMBER_OF_ROWS(WITH) \
    WITH(1) WITH(2) WITH(3) WITH(4) WITH(5) WITH(6) WITH(7) WITH(8) WITH(9) WITH(10) WITH(11) WITH(12)
#else
#define ROWS 6
#define EACH_NUMBER_OF_ROWS(WITH) WITH(1) WITH(2) WITH(3) WITH(4) WITH(5) WITH(6)
#endif

enum kind { FLOAT16, FLOAT32 };

/* LANES columns of a matrix's row i, the first or second half of a block's; its rows are `stride` elements apart. */
OPERATION lanes columns(enum kind kind, const void *matrix, long stride, long i, int half)
{
    long place = i * stride + half * LANES;
    return kind == FLOAT32 ? load((const float *)matrix + place) : widen((const uint16_t *)matrix + place);
}

/* sums[r][0..WIDTH) += x[r][i] * matrix[i][0..WIDTH), for one i after the other. `rows` and `kind` are constants wherever this
 * is called. What stands at `ahead` is fetched meanwhile, unless it is NULL: `step` bytes for every input. */
OPERATION void add_inputs(
    int rows, enum kind kind, const float *x, long x_stride, long inputs, const void *matrix, long stride,
    const char *ahead, long step, lanes (*sums)[2])
{
    for (long i = 0; i < inputs; i++) {
        for (long line = 0; ahead && line < step; line += 64)
            _mm_prefetch(ahead + i * step + line, _MM_HINT_T1);
        lanes first = columns(kind, matrix, stride, i, 0), second = columns(kind, matrix, stride, i, 1);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            lanes value = same(x[r * x_stride + i]);
            sums[r][0] = add_product(value, first, sums[r][0]);
            sums[r][1] = add_product(value, second, sums[r][1]);
        }
    }
}

#endif
