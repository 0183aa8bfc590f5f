// What this page knows of one reply while it grows. Pure: times come in as `now_ms`.

export class Reply {
  /** `asked_ms`: when the caller's words left; null for a greeting, whose times then count from its first token. */
  constructor(turnId, asked_ms) {
    this.turnId = turnId;
    this.tokens = []; // {index, text, burst, burst_ms, at_ms}, times since asked
    this.gaps = []; // ms, one fewer than tokens
    this.reason = null;
    this.heard = null;
    this.timings = {};
    this.asked_ms = asked_ms;
  }

  add(message, now_ms) {
    this.asked_ms ??= now_ms - (message.burst_ms ?? 0);
    const { index, text, burst, burst_ms } = message;
    const token = { index, text, burst, burst_ms, at_ms: now_ms - this.asked_ms };
    if (this.tokens.length) this.gaps.push(token.at_ms - this.tokens.at(-1).at_ms);
    this.tokens.push(token);
    return token;
  }

  end(message) {
    this.reason = message.reason;
    this.heard = message.heard ?? null;
    this.timings = message.timings_ms ?? {};
  }

  get text() {
    return this.tokens.map((token) => token.text).join("");
  }

  /** Tokens by what became of them after an interrupt, null without one: all of what was heard lies in `heard`. */
  get fate() {
    if (this.reason !== "interrupted" || this.heard === null) return null;
    let end = 0;
    const heard = this.tokens.filter((token) => (end += token.text.length) <= this.heard.length).length;
    const delivered = this.tokens.length;
    // The engine counts tokens without text too, and those it had made when it was stopped.
    const generated = Math.max(delivered, this.timings.tokens ?? 0);
    return { heard, unheard: delivered - heard, undelivered: generated - delivered };
  }
}

/** The way to the first audio frame, by stage, in order: `{name, ms}`; empty without audio. Waiting counts as prefill. */
export function audioStages(timings) {
  const waited = { prefill: timings.first_audio_queue_ms ?? 0 };
  return ["prefill", "segment", "synthesis", "framing"]
    .filter((name) => timings[`first_audio_${name}_ms`] !== undefined)
    .map((name) => ({ name, ms: timings[`first_audio_${name}_ms`] + (waited[name] ?? 0) }));
}
