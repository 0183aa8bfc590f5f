// The strip chart: delivered gaps against the objective, the engine's bursts under them, on one axis of time.

import { burstsOf, colourOf } from "./bursts.js";
import { OBJECTIVE_MS } from "./gaps.js";

const HEIGHT = 190;
const PX_PER_MS = 0.26;
const LONGEST_PX = 8000; // a canvas has limits; a longer reply shows its end
const TOP = 18; // of the gaps
const BASE = 110; // zero of the gaps
const TALLEST_MS = 60;
const LANE = 122; // top of the bursts
const SQUARE = 7;
const MOST_SQUARES = 6;

/** Where things are, in CSS pixels: `width`, `x(ms)`, `y(gap_ms)`. Pure. */
export function layout(tokens, bursts, roomPx) {
  const times = [...tokens, ...bursts].map((each) => each.at_ms);
  const from = Math.floor((Math.min(...times) - 40) / 100) * 100;
  const needed = (Math.max(...times) - from + 60) * PX_PER_MS;
  const width = Math.min(LONGEST_PX, Math.max(roomPx, Math.ceil(needed)));
  const shift = Math.max(0, needed - width);
  const x = (ms) => 34 + (ms - from) * PX_PER_MS - shift;
  const y = (gap) => BASE - (Math.min(gap, TALLEST_MS) / TALLEST_MS) * (BASE - TOP);
  return { from, width: width + 34, x, y };
}

export class Chart {
  constructor(canvas, strip) {
    this.canvas = canvas;
    this.strip = strip;
    this.reply = null;
    this.frame = 0;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show(this.reply));
    new ResizeObserver(() => this.show(this.reply)).observe(strip);
  }

  /** Draw `reply` with the next frame of the screen, and follow its end. */
  show(reply) {
    this.reply = reply;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.#draw();
    });
  }

  #draw() {
    const { tokens, gaps } = this.reply ?? { tokens: [], gaps: [] };
    const bursts = burstsOf(tokens);
    const at = tokens.length ? layout(tokens, bursts, this.strip.clientWidth - 34) : null;
    const pen = this.#paper(at?.width ?? this.strip.clientWidth);
    const colour = palette();
    drawAxis(pen, at, colour, this.strip.clientWidth);
    if (!at) return;
    for (const [n, gap] of gaps.entries()) drawGap(pen, at, tokens[n + 1], gap, colour);
    for (const burst of bursts) drawBurst(pen, at, burst, colour);
    this.strip.scrollLeft = this.canvas.clientWidth;
  }

  #paper(width) {
    const scale = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = HEIGHT * scale;
    this.canvas.style.width = `${width}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "11px system-ui, sans-serif";
    return pen;
  }
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

function drawAxis(pen, at, colour, room) {
  const width = at?.width ?? room;
  const line = at ? at.y(OBJECTIVE_MS) : BASE - ((BASE - TOP) * OBJECTIVE_MS) / TALLEST_MS;
  pen.fillStyle = colour("quiet");
  pen.fillText("gap, ms", 4, 12);
  for (const gap of [0, 40, 60]) {
    const y = BASE - (gap / TALLEST_MS) * (BASE - TOP);
    pen.fillStyle = colour("line");
    pen.fillRect(30, y, width, 1);
    pen.fillStyle = colour("quiet");
    pen.fillText(String(gap), gap ? 10 : 17, y + 4);
  }
  pen.fillStyle = colour("late");
  pen.fillText(String(OBJECTIVE_MS), 10, line + 4);
  for (let x = 30; x < width; x += 8) pen.fillRect(x, line, 5, 1.5);
  pen.fillStyle = colour("quiet");
  pen.fillText("steps", 2, LANE + 12);
  if (!at) return;
  for (let ms = at.from; at.x(ms) < width - 30; ms += 100) {
    if (at.x(ms) < 34) continue;
    pen.fillStyle = colour("line");
    pen.fillRect(at.x(ms), LANE - 4, 1, HEIGHT - LANE - 12);
    pen.fillStyle = colour("quiet");
    if (ms % 200 === 0) pen.fillText(ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`, at.x(ms) + 3, HEIGHT - 6);
  }
}

function drawGap(pen, at, token, gap, colour) {
  const late = gap > OBJECTIVE_MS;
  const x = at.x(token.at_ms);
  pen.fillStyle = colour(`strong-${colourOf(token.burst)}`);
  pen.fillRect(x - 1.5, at.y(gap), 3, BASE - at.y(gap));
  if (!late) return;
  pen.fillStyle = colour("late"); // a shape of its own, so that colour is not all that tells
  pen.beginPath();
  pen.moveTo(x, at.y(gap) - 2);
  pen.lineTo(x - 4, at.y(gap) - 9);
  pen.lineTo(x + 4, at.y(gap) - 9);
  pen.fill();
}

function drawBurst(pen, at, burst, colour) {
  pen.fillStyle = colour(`strong-${colourOf(burst.burst)}`);
  for (let n = 0; n < Math.min(burst.count, MOST_SQUARES); n += 1) {
    pen.fillRect(at.x(burst.at_ms) - SQUARE / 2, LANE + n * (SQUARE + 1), SQUARE, SQUARE);
  }
}
