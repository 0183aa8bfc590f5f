/* The layers of a Llama model in one parallel region: products, norms, rotation, the gated MLP, and
 * attention over the paged cache.
 *
 * A decode step of a small model is thirty layers of operators of some microseconds each; handing each one out to the
 * threads takes as long again, and much longer where another process has a core. Here threads meet ten or eleven times a layer,
 * and take their work in small pieces. Every row is computed as if it were alone.
 */
#include "elementwise.h"
#include "panels.h"
#include "paged_attention.h"

#include <omp.h>

/* Of a layer. */
#define PRODUCTS 4

/* Of a model; all sizes in elements, all multiples of WIDTH. */
struct shape {
    long hidden, inner, queries, keys, head;
    float epsilon;
};

/* From attention to the end of a layer: [queries][hidden], [hidden] twice [inner] and [inner][hidden] as panels. */
struct second_half {
    const char *output, *gate_up, *down;
    const float *norm;
};

/* From there to the next attention: [hidden][queries + 2 keys]; none after the last layer. */
struct first_half {
    const char *product;
    const float *norm;
};

/* Rotates heads in place; `angles` are the cosines of a position's head / 2 angles, then their sines. */
static SIMD void rotate(float *x, const float *angles, long heads, long head)
{
    long half = head / 2;
    for (float *end = x + heads * head; x < end; x += head)
        for (long i = 0; i < half; i += 8) {
            __m256 cosine = _mm256_loadu_ps(angles + i), sine = _mm256_loadu_ps(angles + half + i);
            __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + half + i);
            _mm256_storeu_ps(x + i, _mm256_fnmadd_ps(b, sine, _mm256_mul_ps(a, cosine)));
            _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(a, sine, _mm256_mul_ps(b, cosine)));
        }
}

/* A piece as of `multiply_piece`, for a panel of gates and its panel of ups: y = silu(gate) * up, packed where a
 * panel can be. */
static SIMD void gate_piece(const float *x, const char *matrix, float *y, long rows, long inputs, long inner, long piece)
{
    long count = panel_count(inner), first = piece / count * BLOCK, panel = piece % count, bytes = panel_bytes(inputs);
    long block = smaller(rows - first, BLOCK), groups = group_count(block);
    const char *gate = matrix + panel * bytes, *up = matrix + (panel + count) * bytes;
    float gates[MOST * WIDTH], ups[MOST * WIDTH];
    for (long row = first, left = groups; left; left--) {
        long size = group_size(first + block - row, left), ahead = bytes + (groups - left) * (bytes / groups);
        const float *from = x + row * inputs;
        by_rows[size - 1](from, inputs, gate, gate + ahead, groups, gates, WIDTH);
        by_rows[size - 1](from, inputs, up, up + ahead, groups, ups, WIDTH);
        for (long r = 0; r < size; r++) {
            float *to = y + (row + r) * inner + panel * WIDTH;
            gated(gates + r * WIDTH, ups + r * WIDTH, to);
            if (PACKS_PANELS)
                pack(to, WIDTH);
        }
        row += size;
    }
}

/* What a part works on: residual is [rows][hidden], scratch [rows][hidden + inner], positions [rows], and angles
 * [positions][head]. */
struct rows {
    long count;
    float *residual, *scratch;
    const int64_t *positions;
    const float *angles;
};

/* One layer's second half (unless it is NULL), given what it attended to, [rows][queries], and the next one's first half.
 *
 * Puts queries, keys and values, rotated, into result, [rows][queries + 2 keys]; or after the last layer, where there is
 * no product, the normed residual, [rows][hidden]. Run by all threads together.
 */
static void part(const struct shape *shape, const struct second_half *second, const struct first_half *first,
                 const struct rows *rows, float *attended, float *result, struct worker *worker)
{
    long hidden = shape->hidden, inner = shape->inner, outputs = shape->queries + 2 * shape->keys;
    long count = rows->count;
    float *residual = rows->residual, *scratch = rows->scratch, *gated_up = scratch + count * hidden;
    float *normed = first->product ? scratch : result;
    if (second) {
        pack_shared(attended, count, shape->queries);
        multiply_shared(worker, attended, second->output, residual, count, shape->queries, hidden, 1);
#pragma omp for schedule(static)
        for (long row = 0; row < count; row++) {
            norm(residual + row * hidden, second->norm, scratch + row * hidden, hidden, shape->epsilon);
            pack(scratch + row * hidden, hidden);
        }
        for (struct round round = share_out(worker, piece_count(count, inner)); take(&round);)
            gate_piece(scratch, second->gate_up, gated_up, count, hidden, inner, round.piece);
#pragma omp barrier
        if (PACKS && !PACKS_PANELS)
            pack_shared(gated_up, count, inner);
        multiply_shared(worker, gated_up, second->down, residual, count, inner, hidden, 1);
    }
#pragma omp for schedule(static)
    for (long row = 0; row < count; row++) {
        norm(residual + row * hidden, first->norm, normed + row * hidden, hidden, shape->epsilon);
        if (first->product)
            pack(normed + row * hidden, hidden);
    }
    if (first->product) {
        multiply_shared(worker, normed, first->product, result, count, hidden, outputs, 0);
#pragma omp for schedule(static)
        for (long row = 0; row < count; row++)
            rotate(result + row * outputs, rows->angles + rows->positions[row] * shape->head,
                   (shape->queries + shape->keys) / shape->head, shape->head);
    }
}

/* Such a part alone, for those who attend by other means. */
void layer(const struct shape *shape, const struct second_half *second, const struct first_half *first,
           const struct rows *rows, float *attended, float *result)
{
    struct taken taken[taken_in(PRODUCTS)];
    memset(taken, 0, sizeof taken);
#pragma omp parallel
    {
        struct worker worker = this_worker(taken);
        part(shape, second, first, rows, attended, result, &worker);
    }
}

/* All `layers` layers over the paged cache: `caches` of every layer, written at `slots`, [rows], and read by `step`.
 * qkv: [rows][queries + 2 keys]; attended: [rows][queries]; puts the normed residual, [rows][hidden], into result. Gives
 * the seconds that attention took. */
double model(const struct shape *shape, const struct second_half *seconds, const struct first_half *firsts, long layers,
             const struct rows *rows, const struct pages *pages, float *const *caches, const int64_t *slots,
             const struct attention *step, float *qkv, float *attended, float *result)
{
    long outputs = shape->queries + 2 * shape->keys;
    double spent = 0.0;
    struct taken taken[taken_in(layers * PRODUCTS)];
    memset(taken, 0, sizeof taken);
#pragma omp parallel
    {
        struct worker worker = this_worker(taken);
        int clock = worker.number == 0;
        for (long index = 0; index < layers; index++) {
            part(shape, index ? seconds + index - 1 : NULL, firsts + index, rows, attended, qkv, &worker);
            double begin = clock ? omp_get_wtime() : 0.0;
            write_rows(pages, caches[index], slots, qkv + shape->queries, rows->count, outputs);
            attend(pages, caches[index], step, qkv, outputs, attended, shape->queries);
            if (clock)
                spent += omp_get_wtime() - begin;
        }
        part(shape, seconds + layers - 1, firsts + layers, rows, attended, result, &worker);
    }
    return spent;
}
