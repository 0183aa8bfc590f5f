/* A few rows against one panel of a matrix kept in float16, [inputs][WIDTH]. */
#ifndef BLOCK_OF_A_PANEL
#define BLOCK_OF_A_PANEL

#include "register_block.h"

/* Rows of one call. */
#define MOST ROWS
#define EACH_OF_MOST(WITH) EACH_NUMBER_OF_ROWS(WITH)

#define PACKS 0
#define BLOCK_INPUTS 1

static inline long panel_bytes(long inputs)
{
    return inputs * (long)sizeof(uint16_t[WIDTH]);
}

/* Makes `size` values of a row what a product takes: they are that already. */
static inline void pack(float *x, long size)
{
    (void)x;
    (void)size;
}

/* y[r][0..WIDTH) = the sums of row r, for a constant number of rows. x: [rows][inputs]; y's rows are `stride` apart. What
 * stands at `ahead`, one of `shares` parts of a panel, is fetched meanwhile. */
OPERATION void multiply_panel(int rows, const float *x, long inputs, const char *panel, const char *ahead, long shares,
                              float *y, long stride)
{
    lanes sums[ROWS][2];
    clear(rows, sums);
    add_inputs(rows, FLOAT16, x, inputs, inputs, panel, WIDTH, ahead, (long)sizeof(uint16_t[WIDTH]) / shares, sums);
    put(rows, sums, y, stride);
}

#endif
