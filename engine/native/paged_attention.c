#include "paged_attention.h"

#include "exponential.h"
#include "register_block.h"

#include <math.h>
#include <string.h>

/* Queries of one span that share a key-value head, at a time: the scores of a part stay in the first-level cache. */
#define QUERIES 24

/* Scores of a unit's query, in whole registers, which begin up to WIDTH before the first and end as far behind; in an odd
 * number of lines of the cache, so that those of several queries are not held in the same few places of it. */
#define SCORES (PART + MOST_SEEN + 2 * WIDTH + 16)

/* Floats from a query to the next where they are gathered: heads of 256 at most. */
#define GATHERED 272

/* Tokens of a stretch that lie one behind the other in a page: their keys, [head][tokens], and values, [tokens][head]. */
struct strip {
    const float *keys, *values;
    long count;
};

/* Scores of `rows` queries for all tokens of `count` strips. The page of the next strip is fetched meanwhile if `ahead`. */
OPERATION void score(int rows, const float *queries, const struct pages *pages, const struct strip *strips, long count,
                     int ahead, float *scores)
{
    long tokens = pages->tokens, head = pages->head, bytes = 2 * head * tokens * (long)sizeof(float);
    for (const struct strip *strip = strips; strip < strips + count; scores += strip++->count)
        for (long token = 0; token < strip->count; token += WIDTH) {
            /* Some of it for every input. */
            long share = bytes / (tokens / WIDTH);
            const char *next = ahead && strip + 1 < strips + count ? (const char *)strip[1].keys + token / WIDTH * share : NULL;
            lanes sums[ROWS][2];
            clear(rows, sums);
            add_inputs(rows, FLOAT32, queries, GATHERED, head, strip->keys + token, tokens, next, share / head, sums);
            put(rows, sums, scores + token, SCORES);
        }
}

/* Of `rows` queries, the values of all tokens of `count` strips times their weights, into y. */
OPERATION void add_up(int rows, const float *weights, const struct pages *pages, const struct strip *strips, long count,
                      float *y, long stride)
{
    for (long column = 0; column < pages->head; column += WIDTH) {
        const float *weight = weights;
        lanes sums[ROWS][2];
        clear(rows, sums);
        for (const struct strip *strip = strips; strip < strips + count; weight += strip++->count)
            add_inputs(rows, FLOAT32, weight, SCORES, strip->count, strip->values + column, pages->head, NULL, 0, sums);
        put(rows, sums, y + column, stride);
    }
}

#define SCORE(rows) \
    case rows: \
        score(rows, queries + q * GATHERED, pages, strips, strip_count, !first && !q, scores[q]); \
        break;
#define ADD_UP(rows) \
    case rows: \
        add_up(rows, scores[q], pages, strips, strip_count, partial + q * stride, stride); \
        break;

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
    *sum = (float)sum_of(all) / PER_WEIGHT;
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

/* A stretch's strips, in order, for one key-value head; gives how many there are. */
static long strips_of(const struct pages *pages, const float *cache, const struct span *span, const struct stretch *stretch,
                      long head, struct strip *strips)
{
    long tokens = pages->tokens, count = 0, left;
    for (long token = stretch->first; token < stretch->end; token += left) {
        const float *page = cache + (span->blocks[token / tokens] * pages->heads + head) * 2 * pages->head * tokens;
        long place = token % tokens;
        left = tokens - place < stretch->end - token ? tokens - place : stretch->end - token;
        strips[count++] = (struct strip){page + place, page + (tokens + place) * pages->head, left};
    }
    return count;
}

/* Scores of what a row does not see are minus infinity. */
static void hide(float *scores, const struct stretch *stretch, const struct span *span, long row)
{
    uint64_t seen = span->seen[row] & stretch->bits;
    for (long t = span->visible > stretch->first ? span->visible : stretch->first; t < stretch->end; t++)
        if (!(seen >> (t - span->visible) & 1))
            scores[t - stretch->first] = -INFINITY;
}

/* Queries `first` to `first + count` of a unit, the heads of a row in a row, over its part of the context. */
static SIMD void attend_queries(const struct pages *pages, const struct span *span, const struct stretch *stretch,
                                const struct strip *strips, long strip_count, const float *queries, long group, long first,
                                long count, float scale, float *partial)
{
    _Alignas(64) float scores[QUERIES][SCORES];
    long head = pages->head, stride = head + ENDS;
    for (long q = 0; q < count; q += ROWS)
        switch (count - q < ROWS ? count - q : ROWS) {
            EACH_NUMBER_OF_ROWS(SCORE)
        }
    for (long q = 0; q < count; q++) {
        float *ends = partial + q * stride + head;
        hide(scores[q], stretch, span, (first + q) / group);
        weigh(scores[q], stretch->end - stretch->first, scale, ends, ends + 1);
    }
    for (long q = 0; q < count; q += ROWS)
        switch (count - q < ROWS ? count - q : ROWS) {
            EACH_NUMBER_OF_ROWS(ADD_UP)
        }
}

/* All queries of a unit. Those of one row's heads that share the key-value head are neighbours in memory. */
static void attend_unit(const struct pages *pages, const float *cache, const struct attention *step, const struct unit *unit,
                        const float *queries, long stride, long width)
{
    const struct span *span = step->spans + unit->span;
    long head = pages->head, group = width / head / pages->heads, all = span->count * group;
    struct stretch stretch = stretch_of(span, unit->begin);
    struct strip strips[SCORES / WIDTH];
    long strip_count = strips_of(pages, cache, span, &stretch, unit->head, strips);
    _Alignas(64) float gathered[QUERIES * GATHERED];
    for (long first = 0; first < all; first += QUERIES) {
        long count = all - first < QUERIES ? all - first : QUERIES;
        for (long q = 0; q < count; q++) {
            long row = (first + q) / group, place = unit->head * group + (first + q) % group;
            memcpy(gathered + q * GATHERED, queries + (span->begin + row) * stride + place * head, (size_t)head * sizeof(float));
        }
        attend_queries(pages, span, &stretch, strips, strip_count, gathered, group, first, count, step->scale,
                       step->partial + unit->place + first * (head + ENDS));
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
            float own = step->partial[units[p].place + q * (head + ENDS) + head];
            greatest = own > greatest ? own : greatest;
        }
        memset(to, 0, (size_t)head * sizeof(float));
        for (long p = 0; p < parts; p++) {
            const float *partial = step->partial + units[p].place + q * (head + ENDS);
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
