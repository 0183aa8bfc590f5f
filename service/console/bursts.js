// Which tokens came out of one engine step, and which of them the draft had guessed. Pure.

export const COLOURS = 6;

/** Colour number of a burst: neighbours never share one. */
export function colourOf(burst) {
  return burst % COLOURS;
}

/**
 * A step yields the drafted tokens that were accepted and, last, one that the model itself decided. So a token is known
 * to be accepted as soon as another of its burst follows. `tokens` hold `burst`, in order; returns one boolean each.
 */
export function acceptedMarks(tokens) {
  return tokens.map((token, at) => tokens[at + 1]?.burst === token.burst);
}

/**
 * Tokens per step over the bursts that are complete, null before the first is. Indices count tokens without text too,
 * which are never sent.
 */
export function acceptanceLength(tokens) {
  const last = tokens.at(-1);
  if (!last || last.burst === 0) return null;
  const first = tokens.find((token) => token.burst === last.burst);
  return first.index / last.burst;
}

/** The bursts of a reply: `{burst, at_ms, count}`; `at_ms` as the engine told it, else when its first token came. */
export function burstsOf(tokens) {
  const bursts = [];
  for (const token of tokens) {
    if (bursts.at(-1)?.burst !== token.burst) {
      bursts.push({ burst: token.burst, at_ms: token.burst_ms ?? token.at_ms, count: 0 });
    }
    bursts.at(-1).count += 1;
  }
  return bursts;
}
