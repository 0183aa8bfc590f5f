#include "paged_attention.h"

#include "exponential.h"
#include "register_block.h"

#include <math.h>
#include <string.h>

/* Queries of one span that share a key-value head, at a time: the scores of a part stay in the first-level cache. */
#define QUERIES 24

#define CASE(rows) \
    case rows: \
        multiply(rows, FLOAT32, x, x_stride, inputs, b, b_stride, ahead, step, y, y_stride, begun); \
        break;

/* As `multiply`, for any number of rows and a matrix in float32. */
OPERATION void multiply_any(long rows, const float *x, long x_stride, long inputs, const float *b, long b_stride,
                            const char *ahead, long step, float *y, long y_stride, int begun)
{
    for (long r = 0; r < rows; r += ROWS, ahead = NULL, x += ROWS * x_stride, y += ROWS * y_stride)
        switch (rows - r < ROWS ? rows - r : ROWS) {
            EACH_NUMBER_OF_ROWS(CASE)
        }
}

/* Weights are added up as multiples of this: sums of whole numbers do not depend on their order. The greatest weight is 1. */
#define PER_WEIGHT 8388608.0f

/* Scores become weights, e to the score less the greatest; [padded] of which `count` are scores. Gives both by address. */
static SIMD void weigh(float *scores, long count, float scale, float *greatest, float *sum)
{
    long padded = (count + LANES - 1) / LANES * LANES;
    for (long t = count; t < padded; t++)
        scores[t] = -INFINITY;
    lanes top = same(-INFINITY);
    for (long t = 0; t < padded; t += LANES) {
        lanes value = WIDE(mul_ps)(load(scores + t), same(scale));
        store(scores + t, value);
        top = WIDE(max_ps)(top, value);
    }
    *greatest = greatest_of(top);
    /* Where nothing is seen, all differences are minus infinity and all weights nothing. */
    lanes base = same(*greatest == -INFINITY ? 0.0f : *greatest);
    whole all = WIDE(set1_epi32)(0);
    for (long t = 0; t < padded; t += LANES) {
        lanes value = WIDE(sub_ps)(load(scores + t), base), weight = where_above(value, -87.0f, exponential(value));
        store(scores + t, weight);
        all = WIDE(add_epi32)(all, WIDE(cvtps_epi32)(WIDE(mul_ps)(weight, same(PER_WEIGHT))));
    }
    int32_t parts[LANES], weights = 0;
    store_whole(parts, all);
    for (int i = 0; i < LANES; i++)
        weights += parts[i];
    *sum = (float)weights / PER_WEIGHT;
}

/* What a span has in one part: tokens `first` to `end` in the order of the cache, `first` a multiple of WIDTH; of those that not
 * all rows see the ones of `bits`. */
struct stretch {
    long first, end;
    uint64_t bits;
};

/* The stretch of the part that begins at position `begin`. A token that not all rows see stands behind the tokens on its path,
 * which its own row sees. */
static struct stretch stretch_of(const struct span *span, long begin)
{
    struct stretch found = {begin, span->visible < begin + PART ? span->visible : begin + PART, 0};
    for (long n = 0; n < span->count - 1; n++) {
        long position = span->visible - 1 + __builtin_popcountll(span->seen[n + 1]);
        if (position < begin || position >= begin + PART)
            continue;
        if (!found.bits && begin >= span->visible)
            found.first = (span->visible + n) / WIDTH * WIDTH;
        found.bits |= (uint64_t)1 << n;
        found.end = span->visible + n + 1;
    }
    return found;
}

/* Scores of what a row does not see are minus infinity. */
static void hide(float *scores, const struct stretch *stretch, const struct span *span, long row)
{
    uint64_t seen = span->seen[row] & stretch->bits;
    for (long t = span->visible > stretch->first ? span->visible : stretch->first; t < stretch->end; t++)
        if (!(seen >> (t - span->visible) & 1))
            scores[t - stretch->first] = -INFINITY;
}

/* Scores of a unit's query, in whole registers, which begin up to WIDTH before the first and end as far behind; in an odd
 * number of lines of the cache, so that those of several queries are not held in the same few places of it. */
#define SCORES (PART + MOST_SEEN + 2 * WIDTH + 16)

/* Queries `first` to `first + count` of a unit, the heads of a row in a row, over its part of the context. */
static SIMD void attend_queries(const struct pages *pages, const float *cache, const struct span *span,
                                const struct stretch *stretch, const struct unit *unit, const float *queries, long group,
                                long first, long count, float scale, float *partial)
{
    float scores[QUERIES][SCORES];
    long head = pages->head, tokens = pages->tokens, page_size = 2 * head * tokens;
    memset(partial, 0, (size_t)(count * (head + 2)) * sizeof(float));
    for (long token = stretch->first; token < stretch->end; token += WIDTH) {
        const float *keys = cache + (span->blocks[token / tokens] * pages->heads + unit->head) * page_size + token % tokens;
        /* The next page is fetched meanwhile, some of it for every input. */
        long next = token / tokens + 1, share = page_size / (tokens / WIDTH), step = share / head * (long)sizeof(float);
        const float *ahead = NULL;
        if (!first && next * tokens < stretch->end)
            ahead = cache + (span->blocks[next] * pages->heads + unit->head) * page_size + token % tokens / WIDTH * share;
        multiply_any(count, queries, head, head, keys, tokens, (const char *)ahead, step, scores[0] + token - stretch->first,
                     SCORES, 0);
    }
    for (long q = 0; q < count; q++) {
        float *ends = partial + q * (head + 2) + head;
        hide(scores[q], stretch, span, (first + q) / group);
        weigh(scores[q], stretch->end - stretch->first, scale, ends, ends + 1);
    }
    for (long token = stretch->first, left; token < stretch->end; token += left) {
        left = tokens - token % tokens < stretch->end - token ? tokens - token % tokens : stretch->end - token;
        const float *values = cache + (span->blocks[token / tokens] * pages->heads + unit->head) * page_size +
                              (tokens + token % tokens) * head;
        for (long column = 0; column < head; column += WIDTH)
            multiply_any(count, scores[0] + token - stretch->first, SCORES, left, values + column, head, NULL, 0,
                         partial + column, head + 2, 1);
    }
}

/* All queries of a unit. Those of one row's heads that share the key-value head are neighbours in memory. */
static void attend_unit(const struct pages *pages, const float *cache, const struct attention *step, const struct unit *unit,
                        const float *queries, long stride, long width)
{
    const struct span *span = step->spans + unit->span;
    long head = pages->head, group = width / head / pages->heads, all = span->count * group;
    struct stretch stretch = stretch_of(span, unit->begin);
    float gathered[QUERIES * 256];
    for (long first = 0; first < all; first += QUERIES) {
        long count = all - first < QUERIES ? all - first : QUERIES;
        for (long q = 0; q < count; q++) {
            long row = (first + q) / group, place = unit->head * group + (first + q) % group;
            memcpy(gathered + q * head, queries + (span->begin + row) * stride + place * head, (size_t)head * sizeof(float));
        }
        attend_queries(pages, cache, span, &stretch, unit, gathered, group, first, count, step->scale,
                       step->partial + unit->place + first * (head + 2));
    }
}

/* The parts of one pair of span and head become what its queries attended to. */
static SIMD void join(const struct pages *pages, const struct attention *step, long pair, float *attended, long width)
{
    const struct unit *units = step->units + step->firsts[pair];
    long parts = step->firsts[pair + 1] - step->firsts[pair], head = pages->head, group = width / head / pages->heads;
    const struct span *span = step->spans + units->span;
    for (long q = 0; q < span->count * group; q++) {
        float *to = attended + (span->begin + q / group) * width + (units->head * group + q % group) * head;
        float greatest = -INFINITY, sum = 0.0f;
        for (long p = 0; p < parts; p++) {
            float own = step->partial[units[p].place + q * (head + 2) + head];
            greatest = own > greatest ? own : greatest;
        }
        memset(to, 0, (size_t)head * sizeof(float));
        for (long p = 0; p < parts; p++) {
            const float *partial = step->partial + units[p].place + q * (head + 2);
            if (partial[head] - greatest < -87.0f)
                continue;
            lanes weight = exponential(same(partial[head] - greatest));
            sum += WIDE(cvtss_f32)(weight) * partial[head + 1];
            for (long i = 0; i < head; i += LANES)
                store(to + i, add_product(weight, load(partial + i), load(to + i)));
        }
        for (long i = 0; i < head; i += LANES)
            store(to + i, WIDE(div_ps)(load(to + i), same(sum)));
    }
}

/* Rows whose keys one thread writes: those of neighbouring tokens share lines of the cache. */
#define ROWS_TOGETHER 32

/* Keys and, behind them, values of `rows` rows into their slots, page · tokens + place; those below 0 are left out. */
void write_rows(const struct pages *pages, float *cache, const int64_t *slots, const float *keys, long rows, long stride)
{
    long head = pages->head, tokens = pages->tokens;
#pragma omp for collapse(2) schedule(static)
    for (long h = 0; h < pages->heads; h++)
        for (long first = 0; first < rows; first += ROWS_TOGETHER)
            for (long row = first; row < rows && row < first + ROWS_TOGETHER; row++) {
                if (slots[row] < 0)
                    continue;
                float *page = cache + (slots[row] / tokens * pages->heads + h) * 2 * head * tokens;
                const float *key = keys + row * stride + h * head;
                long place = slots[row] % tokens;
                for (long i = 0; i < head; i++)
                    page[i * tokens + place] = key[i];
                memcpy(page + (tokens + place) * head, key + pages->heads * head, (size_t)head * sizeof(float));
            }
}

/* What the rows of `queries`, [rows][stride], attended to, [rows][width]. */
void attend(const struct pages *pages, const float *cache, const struct attention *step, const float *queries, long stride,
            float *attended, long width)
{
    for (const long *round = step->rounds; round < step->rounds + step->round_count; round++) {
#pragma omp for schedule(dynamic, 1)
        for (long unit = step->firsts[round[0]]; unit < step->firsts[round[1]]; unit++)
            attend_unit(pages, cache, step, step->units + unit, queries, stride, width);
#pragma omp for schedule(static)
        for (long pair = round[0]; pair < round[1]; pair++)
            join(pages, step, pair, attended, width);
    }
}

/* The keys and values of `count` tokens from slots to slots, in all `layers` caches, one after the other. */
void move_tokens(const struct pages *pages, float *const *caches, long layers, const int64_t *from, const int64_t *to,
                 long count)
{
    long head = pages->head, tokens = pages->tokens, page = 2 * head * tokens;
    for (long layer = 0; layer < layers; layer++)
        for (long n = 0; n < count; n++)
            for (long h = 0; h < pages->heads; h++) {
                const float *source = caches[layer] + (from[n] / tokens * pages->heads + h) * page;
                float *target = caches[layer] + (to[n] / tokens * pages->heads + h) * page;
                for (long i = 0; i < head; i++)
                    target[i * tokens + to[n] % tokens] = source[i * tokens + from[n] % tokens];
                memcpy(target + (tokens + to[n] % tokens) * head, source + (tokens + from[n] % tokens) * head,
                       (size_t)head * sizeof(float));
            }
}
