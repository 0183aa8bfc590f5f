// The figures beside the conversation. Reads replies, writes the page.

import { acceptanceLength } from "./bursts.js";
import { OBJECTIVE_MS, quantile, shareWithin, starved } from "./gaps.js";
import { Redraw } from "./redraw.js";
import { audioStages } from "./reply.js";

const MOST_GAPS = 20000; // of a call; the oldest go first
const MEANING = { prefill: "prompt read", segment: "first clause", synthesis: "voice", framing: "frame" };
const byId = (id) => document.getElementById(id);

export class Figures {
  constructor() {
    this.gaps = []; // of the whole call
    this.counted = 0; // of the gaps of the reply shown
    this.reply = null;
    this.redraw = new Redraw(() => this.#pace());
  }

  newCall() {
    this.gaps = [];
  }

  /** Show `reply`, soon. */
  show(reply) {
    if (this.reply !== reply) this.counted = 0;
    this.reply = reply;
    this.gaps.push(...reply.gaps.slice(this.counted));
    this.gaps.splice(0, this.gaps.length - MOST_GAPS);
    this.counted = reply.gaps.length;
    this.redraw.ask();
  }

  #pace() {
    const { gaps, tokens, timings } = this.reply;
    const share = shareWithin(gaps);
    set("share", share === null ? "–" : percent(share), share !== null && share < 0.95);
    set("share-call", this.gaps.length ? `${percent(shareWithin(this.gaps))} in this call` : "of this reply");
    set("median", ms(quantile(gaps, 0.5)), quantile(gaps, 0.5) > OBJECTIVE_MS);
    set("tail", `99 %: ${ms(quantile(gaps, 0.99))}`);
    set("starved", gaps.length ? ms(starved(gaps)) : "–");
    const length = timings.tokens_per_step ?? acceptanceLength(tokens);
    set("acceptance", length === null ? "–" : length.toFixed(2));
    set("step", timings.step_gap_ms === undefined ? "tokens per step" : `tokens per step of ${ms(timings.step_gap_ms)}`);
    const many = `${tokens.length} tokens, ${gaps.filter((gap) => gap > OBJECTIVE_MS).length} gaps over ${OBJECTIVE_MS} ms`;
    byId("chart").setAttribute("aria-label", `Delivered gaps of the latest reply: ${many}`);
  }

  /** What is known once a reply has ended. */
  ended(reply) {
    this.show(reply);
    const { timings } = reply;
    const stages = audioStages(timings);
    set("first-audio", timings.first_audio_ms === undefined ? "no audio" : ms(timings.first_audio_ms));
    set("ttft", timings.ttft_ms === undefined ? "first token –" : `first token ${ms(timings.ttft_ms)}`);
    bar("stages", "stage-list", stages.map((stage) => [MEANING[stage.name], stage.ms, ms(stage.ms)]));
    if (reply.fate !== null) this.#heard(reply, reply.fate);
  }

  #heard(reply, fate) {
    const rows = [["heard", fate.heard], ["shown, not heard", fate.unheard], ["generated, not sent", fate.undelivered]];
    bar("heard-bar", "heard-list", rows.map((row) => [...row, `${row[1]} ${row[1] === 1 ? "token" : "tokens"}`]), [2, 1, 4]);
    const words = reply.heard.trim();
    set("heard", words ? `Kept in the history: “${words}”` : "Nothing was heard, so nothing is kept in the history.");
  }

  /** The state of the loudspeaker. */
  playing(player) {
    const { underruns } = player;
    const breaks = underruns === 0 ? "without a break" : underruns === 1 ? "with one break" : `with ${underruns} breaks`;
    set("playing", `Played ${(player.played_ms / 1000).toFixed(1)} s in this page, ${breaks}.`);
  }
}

function set(id, text, late = false) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
  element.classList.toggle("late", late);
}

/** A stacked bar and its legend; rows of [name, size, text], and their colours. */
function bar(id, listId, rows, colours = [0, 1, 2, 3]) {
  const total = rows.reduce((sum, [, size]) => sum + size, 0) || 1;
  const parts = rows.map(([, size], n) => {
    const part = document.createElement("i");
    part.className = `part-${colours[n]}`;
    part.style.width = `${(size / total) * 100}%`;
    part.hidden = size === 0;
    return part;
  });
  const entries = rows.map(([name, , text], n) => {
    const entry = document.createElement("div");
    entry.className = `part-${colours[n]}`;
    const [term, value] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    value.textContent = text;
    entry.append(term, value);
    return entry;
  });
  byId(id).replaceChildren(...parts);
  byId(listId).replaceChildren(...entries);
}

function ms(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value.toFixed(value < 100 ? 1 : 0)} ms`;
}

function percent(share) {
  return `${(share * 100).toFixed(share === 1 ? 0 : 1)} %`;
}
