// The strip chart: delivered gaps against the objective, the engine's bursts under them, on one axis of time.

import { burstsOf, colourOf } from "./bursts.js";
import { OBJECTIVE_MS } from "./gaps.js";
import { Redraw } from "./redraw.js";

const HEIGHT = 190;
const PX_PER_MS = 0.42;
const LONGEST_PX = 8000; // a canvas has limits; a longer reply shows its end
const MARGIN = 34; // of the axis, which stays where it is while the rest scrolls
const TOP = 24; // of the gaps
const BASE = 110; // zero of the gaps
const TALLEST_MS = 60;
const LANE = 122; // top of the bursts
const SQUARE = 7;
const MOST_SQUARES = 6;

/** Where things are, in CSS pixels: `width` and `x(ms)`. Pure. */
export function layout(tokens, bursts, roomPx) {
  const times = [...tokens, ...bursts].map((each) => each.at_ms);
  const from = Math.floor((times.reduce((a, b) => Math.min(a, b)) - 40) / 100) * 100;
  const needed = (times.reduce((a, b) => Math.max(a, b)) - from + 60) * PX_PER_MS;
  const width = Math.min(LONGEST_PX, Math.max(roomPx, Math.ceil(needed)));
  const shift = Math.max(0, needed - width);
  const x = (ms) => (ms - from) * PX_PER_MS - shift;
  return { from, width, x };
}

/** Height of a gap: beyond `TALLEST_MS` all are alike. */
function y(gap_ms) {
  return BASE - (Math.min(gap_ms, TALLEST_MS) / TALLEST_MS) * (BASE - TOP);
}

export class Chart {
  /** `axis` and `canvas` lie side by side in `strip`, which scrolls. */
  constructor(axis, canvas, strip) {
    this.axis = axis;
    this.canvas = canvas;
    this.strip = strip;
    this.reply = null;
    this.redraw = new Redraw(() => this.#draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show(this.reply));
    new ResizeObserver(() => this.show(this.reply)).observe(strip);
  }

  /** Draw `reply`, soon, and follow its end. */
  show(reply) {
    this.reply = reply;
    this.redraw.ask();
  }

  #draw() {
    const { tokens, gaps } = this.reply ?? { tokens: [], gaps: [] };
    const bursts = burstsOf(tokens);
    const room = this.strip.clientWidth - MARGIN;
    const at = tokens.length ? layout(tokens, bursts, room) : null;
    const colour = palette();
    drawAxis(paper(this.axis, MARGIN), colour);
    const pen = paper(this.canvas, at?.width ?? room);
    drawLines(pen, at?.width ?? room, colour);
    if (!at) return;
    drawTimes(pen, at, colour);
    for (const [n, gap] of gaps.entries()) drawGap(pen, at, tokens[n + 1], gap, colour);
    for (const burst of bursts) drawBurst(pen, at, burst, colour);
    this.strip.scrollLeft = this.strip.scrollWidth;
  }
}

/** A cleared canvas of that width, sharp on dense screens. */
function paper(canvas, width) {
  const scale = Math.min(2, devicePixelRatio || 1);
  const [columns, rows] = [Math.round(width * scale), Math.round(HEIGHT * scale)];
  const pen = canvas.getContext("2d");
  if (canvas.width !== columns || canvas.height !== rows) {
    [canvas.width, canvas.height] = [columns, rows]; // empties it too, and takes memory anew
    canvas.style.width = `${width}px`;
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, HEIGHT);
  pen.font = "11px system-ui, sans-serif";
  return pen;
}

/** The page's colours by name, each looked up once. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(`--${name}`).trim());
    return known.get(name);
  };
}

function drawAxis(pen, colour) {
  pen.textAlign = "right";
  for (const gap of [0, OBJECTIVE_MS, 40, TALLEST_MS]) {
    pen.fillStyle = colour(gap === OBJECTIVE_MS ? "late" : "quiet");
    pen.fillText(String(gap), MARGIN - 6, y(gap) + 4);
  }
  pen.fillStyle = colour("quiet");
  pen.fillText("ms", MARGIN - 6, 12);
  pen.fillText("steps", MARGIN - 3, LANE + 8);
}

function drawLines(pen, width, colour) {
  pen.fillStyle = colour("line");
  for (const gap of [0, 40, TALLEST_MS]) pen.fillRect(0, y(gap), width, 1);
  pen.fillStyle = colour("late");
  for (let x = 0; x < width; x += 8) pen.fillRect(x, y(OBJECTIVE_MS), 5, 1.5);
}

function drawTimes(pen, at, colour) {
  for (let ms = at.from; at.x(ms) < at.width; ms += 100) {
    pen.fillStyle = colour("line");
    pen.fillRect(at.x(ms), LANE - 4, 1, HEIGHT - LANE - 12);
    pen.fillStyle = colour("quiet");
    const fits = at.x(ms) < at.width - 45;
    if (ms % 200 === 0 && fits) pen.fillText(ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`, at.x(ms) + 3, HEIGHT - 6);
  }
}

function drawGap(pen, at, token, gap, colour) {
  const x = at.x(token.at_ms);
  pen.fillStyle = colour(`strong-${colourOf(token.burst)}`);
  pen.fillRect(x - 2.5, y(gap), 5, BASE - y(gap));
  if (gap <= OBJECTIVE_MS) return;
  pen.fillStyle = colour("late"); // a shape of its own, so that colour is not all that tells
  pen.beginPath();
  pen.moveTo(x, y(gap) - 2);
  pen.lineTo(x - 4, y(gap) - 9);
  pen.lineTo(x + 4, y(gap) - 9);
  pen.fill();
}

function drawBurst(pen, at, burst, colour) {
  pen.fillStyle = colour(`strong-${colourOf(burst.burst)}`);
  for (let n = 0; n < Math.min(burst.count, MOST_SQUARES); n += 1) {
    pen.fillRect(at.x(burst.at_ms) - SQUARE / 2, LANE + n * (SQUARE + 1), SQUARE, SQUARE);
  }
}
