/* Attention of a few rows over vLLM's paged key-value cache in float32, in its CPU layout "vec": a page of one layer is
 * [key-value heads][2 * head * tokens], for each head first the keys, transposed to [head][tokens], then the values as
 * [tokens][head]. `engine.tree.pages` checks that against vLLM's own writer.
 *
 * What a row sees is cut into parts of PART tokens at most, by their positions in its text; parts are attended to by themselves
 * and joined in order (Dao et al., "Flash-Decoding for long-context inference", 2023), so that all cores have work. A row's
 * result is bitwise that of its text alone: it does not depend on the rows beside it, nor on whether its text lies in the
 * cache in one piece or on a path through a tree.
 */
#include <stddef.h>
#include <stdint.h>

#define PART 128
/* Of a span beyond the tokens that all of its rows see. */
#define MOST_SEEN 64

/* Floats behind a query's [head] sums: their greatest score, the sum of weights, and nothing to the end of a line of the cache. */
#define ENDS 16

/* Of one layer; sizes in elements. `tokens` and `head` are multiples of WIDTH, `tokens` at most PART, `head` at most 256. */
struct pages {
    long heads, tokens, head;
};

/* One request's rows: of the step's rows `count` from `begin` on. All see its first `visible` tokens, its pages in order
 * are `blocks`. Bit n of `seen` of a row says whether the row sees token `visible + n` as well; that token is row n + 1's own, and
 * that row sees it too. */
struct span {
    long begin, count, visible;
    const int32_t *blocks;
    const uint64_t *seen;
};

/* A piece of work: one span, one key-value head, the part of positions `begin` to begin + PART. Its results begin at `place` in `partial`: for
 * every query [head] sums and ENDS floats. */
struct unit {
    long span, head, begin, place;
};

/* A step. units[firsts[i]] to units[firsts[i + 1] - 1] are the parts of the i-th pair of span and head, in order. Pairs
 * rounds[j] to rounds[j + 1] - 1 are attended to together; the next ones take their place in `partial`. */
struct attention {
    const struct span *spans;
    const struct unit *units;
    const long *firsts, *rounds;
    long round_count;
    float *partial;
    float scale;
};

/* These two are run by all threads together. */
void write_rows(const struct pages *pages, float *cache, const int64_t *slots, const float *keys, long rows, long stride);
void attend(const struct pages *pages, const float *cache, const struct attention *step, const float *queries, long stride,
            float *attended, long width);
