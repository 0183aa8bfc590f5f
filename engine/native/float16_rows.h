/* Rows against a matrix kept in float16, in panels: [ceil(outputs / WIDTH)][inputs][WIDTH], so that it is read front to back.
 *
 * With few rows a product takes as long as reading the matrix, so the next panel is fetched while the current one is
 * multiplied with.
 */
#include "register_block.h"
#include "shares.h"

#define PANEL_BYTES (long)sizeof(uint16_t[WIDTH])
/* Rows whose values stay in the second-level cache while all panels pass. */
#define BLOCK 96

#define MULTIPLY(rows) \
    static SIMD void multiply_##rows(const float *x, long inputs, const uint16_t *panel, const char *ahead, long step, \
                                     float *y, long stride) \
    { \
        multiply(rows, FLOAT16, x, inputs, inputs, panel, WIDTH, ahead, step, y, stride, 0); \
    }
EACH_NUMBER_OF_ROWS(MULTIPLY)

typedef void (*Multiply)(const float *, long, const uint16_t *, const char *, long, float *, long);
#define NAME(rows) multiply_##rows,
static const Multiply by_rows[] = {EACH_NUMBER_OF_ROWS(NAME)};

static inline long smaller(long a, long b)
{
    return a < b ? a : b;
}

/* Of `rows` rows, the size of the next group of at most ROWS, where `left` groups are left: as even as can be. */
static inline long group_size(long rows, long left)
{
    return (rows + left - 1) / left;
}

static inline long group_count(long rows)
{
    return (rows + ROWS - 1) / ROWS;
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
static inline void multiply_piece(const float *x, const uint16_t *matrix, float *y, long rows, long inputs, long outputs,
                                  long piece, int added)
{
    long count = panel_count(outputs), first = piece / count * BLOCK, panel = piece % count;
    long block = smaller(rows - first, BLOCK), groups = group_count(block), step = PANEL_BYTES / groups;
    long width = smaller(outputs - panel * WIDTH, WIDTH);
    int direct = !added && width == WIDTH;
    const uint16_t *columns = matrix + panel * WIDTH * inputs;
    const char *ahead = (const char *)(columns + WIDTH * inputs);
    float sums[ROWS * WIDTH];
    for (long row = first, left = groups; left; left--) {
        long size = group_size(first + block - row, left);
        float *to = y + row * outputs + panel * WIDTH;
        by_rows[size - 1](x + row * inputs, inputs, columns, ahead, step, direct ? to : sums, direct ? outputs : WIDTH);
        for (long r = 0; !direct && r < size; r++)
            for (long i = 0; i < width; i++)
                to[r * outputs + i] = added ? to[r * outputs + i] + sums[r * WIDTH + i] : sums[r * WIDTH + i];
        ahead += step * inputs;
        row += size;
    }
}

/* A whole product of [rows][inputs] with a matrix, put into y or added to it. Run by all threads together, and over for all
 * when it returns. */
static void multiply_shared(struct worker *worker, const float *x, const uint16_t *matrix, float *y, long rows, long inputs,
                            long outputs, int added)
{
    for (struct round round = share_out(worker, piece_count(rows, outputs)); take(&round);)
        multiply_piece(x, matrix, y, rows, inputs, outputs, round.piece, added);
#pragma omp barrier
}
