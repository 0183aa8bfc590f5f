// Draws sparingly: on a small machine the page shares its cores with the engine and the voice.

const EVERY_MS = 125;

export class Redraw {
  /** `draw()` shows what is newest. */
  constructor(draw) {
    this.draw = draw;
    this.drawn_ms = -Infinity;
    this.asked = false;
  }

  /** Draw with a frame of the screen: the next one, or where that has just been done, in `EVERY_MS`. */
  ask() {
    if (this.asked) return;
    this.asked = true;
    const rest_ms = this.drawn_ms + EVERY_MS - performance.now();
    if (rest_ms > 0) setTimeout(() => this.#withNextFrame(), rest_ms);
    else this.#withNextFrame();
  }

  #withNextFrame() {
    requestAnimationFrame(() => {
      this.asked = false;
      this.drawn_ms = performance.now();
      this.draw();
    });
  }
}
