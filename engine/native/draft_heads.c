/* One level of drafting with sequential heads (engine/heads/architectures.py) in one parallel region: the heads' state moves
 * past one token, and the vocabulary's best candidates for the next one are found, with their probabilities.
 *
 * A level of a small model's heads is a dozen operators of some microseconds each, and a tree has up to five levels.
 */
#include "elementwise.h"
#include "panels.h"

#include <float.h>

/* Matrices as panels: tokens [hidden][blocks * 2 inner], every state [hidden][2 inner], every down [inner][hidden],
 * vocabulary [hidden][vocabulary]. All sizes but `blocks` are multiples of WIDTH. */
struct heads {
    long hidden, inner, blocks, size;
    const char *tokens, *vocabulary;
    const char *const *states, *const *downs;
    float epsilon;
};

/* A depth's own: carry and scale, [hidden], and shift, [blocks * 2 inner]. */
struct depth {
    const float *carry, *scale, *shift;
};

/* Keeps the `count` largest of a row in descending order, the first of equal ones first; and what share of the whole each
 * has after softmax. */
static SIMD void best(const float *logits, long size, long count, int64_t *ids, float *shares)
{
    for (long i = 0; i < count; i++) {
        shares[i] = -FLT_MAX;
        ids[i] = 0;
    }
    for (long i = 0; i < size; i += 8) {
        __m256 value = _mm256_loadu_ps(logits + i);
        int larger = _mm256_movemask_ps(_mm256_cmp_ps(value, _mm256_set1_ps(shares[count - 1]), _CMP_GT_OQ));
        for (; larger; larger &= larger - 1) {
            long at = i + __builtin_ctz(larger), place = count - 1;
            if (!(logits[at] > shares[place]))
                continue;
            for (; place && logits[at] > shares[place - 1]; place--) {
                shares[place] = shares[place - 1];
                ids[place] = ids[place - 1];
            }
            shares[place] = logits[at];
            ids[place] = at;
        }
    }
    lanes most = same(shares[0]);
    __m256 sums = _mm256_setzero_ps();
    for (long i = 0; i < size; i += LANES) {
        float powers[LANES];
        store(powers, exponential(WIDE(sub_ps)(load(logits + i), most)));
        for (int j = 0; j < LANES; j += 8)
            sums = _mm256_add_ps(sums, _mm256_loadu_ps(powers + j));
    }
    float parts[8];
    _mm256_storeu_ps(parts, sums);
    float sum = total(parts, 8);
    for (long i = 0; i < count; i++)
        shares[i] = WIDE(cvtss_f32)(exponential(WIDE(sub_ps)(same(shares[i]), most))) / sum;
}

/* y = silu(gate + their own) * (up + their own), where own and shift add to both halves, [2 inner]. */
static SIMD void gate(const float *x, const float *own, const float *shift, float *y, long inner)
{
    for (long i = 0; i < inner; i += WIDTH) {
        float sums[2][WIDTH];
        for (int half = 0; half < 2; half++)
            for (int j = 0; j < WIDTH; j++) {
                long at = half * inner + i + j;
                sums[half][j] = x[at] + (own[at] + shift[at]);
            }
        gated(sums[0], sums[1], y + i);
    }
}

/* states, [rows][hidden], move past the tokens whose embeddings are [rows][hidden]; puts the `count` best candidates of
 * each row into ids and shares, [rows][count]. scratch: [rows][hidden + blocks * 2 inner + 2 inner + inner + size]. */
void draft_level(const struct heads *heads, const struct depth *depth, long rows, const float *embedded, float *states,
                 float *scratch, long count, int64_t *ids, float *shares)
{
    long hidden = heads->hidden, inner = heads->inner, outputs = heads->blocks * 2 * inner, size = heads->size;
    float *normed = scratch, *tokens = normed + rows * hidden, *halves = tokens + rows * outputs;
    float *gates = halves + rows * 2 * inner, *logits = gates + rows * inner;
    struct taken taken[taken_in(2 + 2 * heads->blocks)];
    memset(taken, 0, sizeof taken);
#pragma omp parallel
    {
        struct worker worker = this_worker(taken);
#pragma omp for schedule(static)
        for (long row = 0; row < rows; row++) {
            norm(embedded + row * hidden, NULL, normed + row * hidden, hidden, heads->epsilon);
            pack(normed + row * hidden, hidden);
        }
        multiply_shared(&worker, normed, heads->tokens, tokens, rows, hidden, outputs, 0);
#pragma omp for schedule(static)
        for (long row = 0; row < rows; row++)
            for (long i = 0; i < hidden; i++)
                states[row * hidden + i] *= depth->carry[i];
        for (long block = 0; block < heads->blocks; block++) {
            long place = block * 2 * inner;
#pragma omp for schedule(static)
            for (long row = 0; row < rows; row++) {
                norm(states + row * hidden, NULL, normed + row * hidden, hidden, heads->epsilon);
                pack(normed + row * hidden, hidden);
            }
            multiply_shared(&worker, normed, heads->states[block], halves, rows, hidden, 2 * inner, 0);
#pragma omp for schedule(static)
            for (long row = 0; row < rows; row++) {
                gate(halves + row * 2 * inner, tokens + row * outputs + place, depth->shift + place, gates + row * inner, inner);
                pack(gates + row * inner, inner);
            }
            multiply_shared(&worker, gates, heads->downs[block], states, rows, inner, hidden, 1);
        }
#pragma omp for schedule(static)
        for (long row = 0; row < rows; row++) {
            for (long i = 0; i < hidden; i++)
                normed[row * hidden + i] = states[row * hidden + i] * depth->scale[i];
            pack(normed + row * hidden, hidden);
        }
        multiply_shared(&worker, normed, heads->vocabulary, logits, rows, hidden, size, 0);
#pragma omp for schedule(static)
        for (long row = 0; row < rows; row++)
            best(logits + row * size, size, count, ids + row * count, shares + row * count);
    }
}
