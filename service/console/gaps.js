// Figures of delivered gaps: time between two tokens of one reply, in milliseconds. Pure.

export const OBJECTIVE_MS = 20;

/** Share of gaps within the objective, 0 to 1; null without gaps. */
export function shareWithin(gaps, limit = OBJECTIVE_MS) {
  return gaps.length ? gaps.filter((gap) => gap <= limit).length / gaps.length : null;
}

/** The gap that a share `q` (0 to 1) of all gaps does not exceed: nearest rank. Null without gaps. */
export function quantile(gaps, q) {
  if (!gaps.length) return null;
  const sorted = Float64Array.from(gaps).sort();
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
}

/** What a listener notices as stutter: the sum of all that gaps exceed the objective by. */
export function starved(gaps, limit = OBJECTIVE_MS) {
  return gaps.reduce((sum, gap) => sum + Math.max(0, gap - limit), 0);
}
