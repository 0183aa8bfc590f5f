// The conversation as text: what was said, replies token by token, and what was never heard of them.

import { acceptedMarks, colourOf } from "./bursts.js";

const MOST_LINES = 200; // the oldest go first

export class Transcript {
  constructor(log) {
    this.log = log;
    this.reply = null; // {turnId, paragraph, spans} of the one under way
    this.hypothesis = null;
  }

  /** What the caller said; `final` false while the recogniser may still change it. */
  said(text, final = true) {
    this.hypothesis ??= this.#line("said");
    this.hypothesis.textContent = text;
    this.hypothesis.classList.toggle("hypothesis", !final);
    if (final) this.hypothesis = null;
    this.#follow();
  }

  dropHypothesis() {
    this.hypothesis?.remove();
    this.hypothesis = null;
  }

  notice(text, bad = false) {
    this.#line(bad ? "notice bad" : "notice").textContent = text;
    this.#follow();
  }

  newCall() {
    this.reply = null;
  }

  token(reply, token) {
    if (this.reply?.turnId !== reply.turnId) {
      this.reply = { turnId: reply.turnId, paragraph: this.#line("reply"), spans: [] };
    }
    const { paragraph, spans } = this.reply;
    const span = document.createElement("span");
    span.className = `token burst-${colourOf(token.burst)}`;
    span.textContent = token.text;
    const gap = reply.gaps.at(-1);
    span.title = `token ${token.index}, step ${token.burst}` + (gap === undefined ? "" : `, ${gap.toFixed(1)} ms after the one before`);
    paragraph.append(span);
    spans.push(span);
    const [accepted] = acceptedMarks(reply.tokens.slice(-2));
    if (accepted && spans.length > 1) spans.at(-2).classList.add("accepted");
    this.#follow();
  }

  /** Strike what the caller did not hear, to the character. */
  cut(reply) {
    const spans = this.reply?.turnId === reply.turnId ? this.reply.spans : [];
    let room = (reply.heard ?? "").length;
    for (const span of spans) {
      const text = span.textContent;
      if (text.length > room) {
        const unheard = document.createElement("s");
        unheard.className = "unheard";
        unheard.textContent = text.slice(Math.max(0, room));
        span.replaceChildren(text.slice(0, Math.max(0, room)), unheard);
        if (room <= 0) span.className = "token";
      }
      room -= text.length;
    }
  }

  #line(className) {
    document.getElementById("empty")?.remove();
    const line = document.createElement("p");
    line.className = className;
    this.log.append(line);
    if (this.log.childElementCount > MOST_LINES) this.log.firstElementChild.remove();
    return line;
  }

  #follow() {
    const below = this.log.scrollHeight - this.log.clientHeight - this.log.scrollTop;
    if (below < 160) this.log.scrollTop = this.log.scrollHeight; // a reader who scrolled up stays there
  }
}
