/* Rows against a matrix kept in panels of WIDTH columns, one behind the other, so that it is read front to back; in float16,
 * or in 8 bits where these files are compiled with INT8 defined.
 *
 * With few rows a product takes as long as reading the matrix, so the next panel is fetched while the current one is
 * multiplied with. Rows are packed first (`pack`), where they lie.
 */
#ifndef PANELS
#define PANELS

#ifdef INT8
#include "int8_block.h"
#else
#include "float16_block.h"
#endif
#include "shares.h"

/* Rows whose values stay in the second-level cache while all panels pass. */
#define BLOCK 96

#define MULTIPLY(rows) \
    static SIMD void multiply_##rows(const float *x, long inputs, const char *panel, const char *ahead, long shares, \
                                     float *y, long stride) \
    { \
        multiply_panel(rows, x, inputs, panel, ahead, shares, y, stride); \
    }
EACH_OF_MOST(MULTIPLY)

typedef void (*Multiply)(const float *, long, const char *, const char *, long, float *, long);
#define NAME(rows) multiply_##rows,
static const Multiply by_rows[] = {EACH_OF_MOST(NAME)};

static inline long smaller(long a, long b)
{
    return a < b ? a : b;
}

/* Of `rows` rows, the size of the next group of at most MOST, where `left` groups are left: as even as can be. */
static inline long group_size(long rows, long left)
{
    return (rows + left - 1) / left;
}

static inline long group_count(long rows)
{
    return (rows + MOST - 1) / MOST;
}

static inline long panel_count(long outputs)
{
    return (outputs + WIDTH - 1) / WIDTH;
}

/* Pieces that a product of [rows][inputs] with a matrix falls into: each at most BLOCK rows against one panel. */
static inline long piece_count(long rows, long outputs)
{
    return (rows + BLOCK - 1) / BLOCK * panel_count(outputs);
}

/* One of them. Put into y, [rows][outputs], or added to it. */
static inline void multiply_piece(const float *x, const char *matrix, float *y, long rows, long inputs, long outputs,
                                  long piece, int added)
{
    long count = panel_count(outputs), first = piece / count * BLOCK, panel = piece % count, bytes = panel_bytes(inputs);
    long block = smaller(rows - first, BLOCK), groups = group_count(block);
    long width = smaller(outputs - panel * WIDTH, WIDTH);
    int direct = !added && width == WIDTH;
    const char *columns = matrix + panel * bytes, *ahead = columns + bytes;
    float sums[MOST * WIDTH];
    for (long row = first, left = groups; left; left--) {
        long size = group_size(first + block - row, left);
        float *to = y + row * outputs + panel * WIDTH;
        by_rows[size - 1](x + row * inputs, inputs, columns, ahead, groups, direct ? to : sums, direct ? outputs : WIDTH);
        for (long r = 0; !direct && r < size; r++)
            for (long i = 0; i < width; i++)
                to[r * outputs + i] = added ? to[r * outputs + i] + sums[r * WIDTH + i] : sums[r * WIDTH + i];
        ahead += bytes / groups;
        row += size;
    }
}

/* Whether a panel's outputs are whole blocks of another product's inputs, so that they can be packed by themselves. */
#define PACKS_PANELS (PACKS && WIDTH % BLOCK_INPUTS == 0)

/* Packs rows of `size` values. Run by all threads together, and over for all when it returns. */
static inline void pack_shared(float *x, long rows, long size)
{
    if (PACKS)
#pragma omp for schedule(static)
        for (long row = 0; row < rows; row++)
            pack(x + row * size, size);
}

/* A whole product of [rows][inputs], packed, with a matrix, put into y or added to it. Run by all threads together, and over
 * for all when it returns. */
static void multiply_shared(struct worker *worker, const float *x, const char *matrix, float *y, long rows, long inputs,
                            long outputs, int added)
{
    for (struct round round = share_out(worker, piece_count(rows, outputs)); take(&round);)
        multiply_piece(x, matrix, y, rows, inputs, outputs, round.piece, added);
#pragma omp barrier
}

#endif
