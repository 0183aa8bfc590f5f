#include "paged_attention.h"

#include "exponential.h"
#include "register_block.h"

#include <math.h>
#include <string.h>

/* Queries of one span that share a key-value head, at a time: the scores of a part stay in the first-level cache. */
#define QUERIES 24

#define CASE(rows) \
    case rows: \
        multiply(rows, FLOAT32, x, x_stride, inputs, b, b_stride, NULL, 0, y, y_stride, begun); \
        break;

/* As `multiply`, for any number of rows and a matrix in float32. */
static inline __attribute__((always_inline)) SIMD void multiply_any(
    long rows, const float *x, long x_stride, long inputs, const float *b, long b_stride, float *y, long y_stride, int begun)
{
    for (long r = 0; r < rows; r += ROWS, x += ROWS * x_stride, y += ROWS * y_stride)
        switch (rows - r < ROWS ? rows - r : ROWS) {
            EACH_NUMBER_OF_ROWS(CASE)
        }
}

/* Scores become weights, e to the score less the greatest; [padded] of which `count` are scores. Gives both by address. */
static SIMD void weigh(float *scores, long count, float scale, float *greatest, float *sum)
{
    long padded = (count + 7) / 8 * 8;
    for (long t = count; t < padded; t++)
        scores[t] = -INFINITY;
    __m256 factor = _mm256_set1_ps(scale), top = _mm256_set1_ps(-INFINITY);
    for (long t = 0; t < padded; t += 8) {
        __m256 value = _mm256_mul_ps(_mm256_loadu_ps(scores + t), factor);
        _mm256_storeu_ps(scores + t, value);
        top = _mm256_max_ps(top, value);
    }
    float lanes[8];
    _mm256_storeu_ps(lanes, top);
    *greatest = lanes[0];
    for (int i = 1; i < 8; i++)
        *greatest = lanes[i] > *greatest ? lanes[i] : *greatest;
    /* Where nothing is seen, all differences are minus infinity and all weights nothing. */
    __m256 base = _mm256_set1_ps(*greatest == -INFINITY ? 0.0f : *greatest), all = _mm256_setzero_ps();
    for (long t = 0; t < padded; t += 8) {
        __m256 value = _mm256_sub_ps(_mm256_loadu_ps(scores + t), base);
        __m256 seen = _mm256_cmp_ps(value, _mm256_set1_ps(-87.0f), _CMP_GE_OQ);
        __m256 weight = _mm256_and_ps(exponential(value), seen);
        _mm256_storeu_ps(scores + t, weight);
        all = _mm256_add_ps(all, weight);
    }
    _mm256_storeu_ps(lanes, all);
    *sum = 0.0f;
    for (int i = 0; i < 8; i++)
        *sum += lanes[i];
}

/* Scores of what a row does not see of tokens begin to begin + count are minus infinity. */
static void hide(float *scores, long begin, long count, const struct span *span, long row)
{
    for (long t = span->visible > begin ? span->visible - begin : 0; t < count; t++)
        if (!(span->seen[row] >> (begin + t - span->visible) & 1))
            scores[t] = -INFINITY;
}

/* Queries `first` to `first + count` of a unit, the heads of a row in a row, over its part of the context. */
static SIMD void attend_queries(const struct pages *pages, const float *cache, const struct span *span,
                                const struct unit *unit, const float *queries, long group, long first, long count,
                                float scale, float *partial)
{
    float scores[QUERIES][PART + WIDTH];
    long head = pages->head, tokens = pages->tokens, page_size = 2 * head * tokens;
    long end = span->visible + span->count - 1, size = end - unit->begin < PART ? end - unit->begin : PART;
    memset(partial, 0, (size_t)(count * (head + 2)) * sizeof(float));
    for (long t = 0; t < size; t += WIDTH) {
        long token = unit->begin + t, block = span->blocks[token / tokens];
        const float *keys = cache + (block * pages->heads + unit->head) * page_size + token % tokens;
        multiply_any(count, queries, head, head, keys, tokens, scores[0] + t, PART + WIDTH, 0);
    }
    for (long q = 0; q < count; q++) {
        hide(scores[q], unit->begin, size, span, (first + q) / group);
        weigh(scores[q], size, scale, partial + q * (head + 2) + head, partial + q * (head + 2) + head + 1);
    }
    for (long t = 0; t < size; t += tokens) {
        long token = unit->begin + t, block = span->blocks[token / tokens];
        const float *values = cache + (block * pages->heads + unit->head) * page_size + head * tokens;
        long left = size - t < tokens ? size - t : tokens;
        for (long column = 0; column < head; column += WIDTH)
            multiply_any(count, scores[0] + t, PART + WIDTH, left, values + column, head, partial + column, head + 2, 1);
    }
}

/* All queries of a unit. Those of one row's heads that share the key-value head are neighbours in memory. */
static void attend_unit(const struct pages *pages, const float *cache, const struct attention *step, const struct unit *unit,
                        const float *queries, long stride, long width)
{
    const struct span *span = step->spans + unit->span;
    long head = pages->head, group = width / head / pages->heads, all = span->count * group;
    float gathered[QUERIES * 256];
    for (long first = 0; first < all; first += QUERIES) {
        long count = all - first < QUERIES ? all - first : QUERIES;
        for (long q = 0; q < count; q++) {
            long row = (first + q) / group, place = unit->head * group + (first + q) % group;
            memcpy(gathered + q * head, queries + (span->begin + row) * stride + place * head, (size_t)head * sizeof(float));
        }
        attend_queries(pages, cache, span, unit, gathered, group, first, count, step->scale,
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
            __m256 weight = exponential(_mm256_set1_ps(partial[head] - greatest));
            sum += _mm256_cvtss_f32(weight) * partial[head + 1];
            for (long i = 0; i < head; i += 8)
                _mm256_storeu_ps(to + i, _mm256_fmadd_ps(weight, _mm256_loadu_ps(partial + i), _mm256_loadu_ps(to + i)));
        }
        for (long i = 0; i < head; i += 8)
            _mm256_storeu_ps(to + i, _mm256_div_ps(_mm256_loadu_ps(to + i), _mm256_set1_ps(sum)));
    }
}

/* Keys and, behind them, values of `rows` rows into their slots, page · tokens + place; those below 0 are left out. */
void write_rows(const struct pages *pages, float *cache, const int64_t *slots, const float *keys, long rows, long stride)
{
    long head = pages->head, tokens = pages->tokens;
#pragma omp for schedule(static)
    for (long row = 0; row < rows; row++) {
        if (slots[row] < 0)
            continue;
        float *page = cache + slots[row] / tokens * pages->heads * 2 * head * tokens;
        long place = slots[row] % tokens;
        for (long h = 0; h < pages->heads; h++, page += 2 * head * tokens) {
            const float *key = keys + row * stride + h * head;
            for (long i = 0; i < head; i++)
                page[i * tokens + place] = key[i];
            memcpy(page + (tokens + place) * head, key + pages->heads * head, (size_t)head * sizeof(float));
        }
    }
}

/* What the rows of `queries`, [rows][stride], attended to, [rows][width]. */
void attend(const struct pages *pages, const float *cache, const struct attention *step, const float *queries, long stride,
            float *attended, long width)
{
#pragma omp for schedule(dynamic, 1)
    for (long unit = 0; unit < step->firsts[step->pairs]; unit++)
        attend_unit(pages, cache, step, step->units + unit, queries, stride, width);
#pragma omp for schedule(static)
    for (long pair = 0; pair < step->pairs; pair++)
        join(pages, step, pair, attended, width);
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
