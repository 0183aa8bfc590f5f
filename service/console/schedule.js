// A jitter buffer for audio frames: when each is to start, and how much has been played. Pure, in whole samples.

export class Schedule {
  /** `lead`: samples held back before the first frame, and again after the buffer has run dry. */
  constructor(lead) {
    this.lead = lead;
    this.runs = []; // {start, from}: from `start` on, audio plays without a break, beginning at audio position `from`
    this.total = 0; // samples of audio placed
    this.end = 0; // where the last frame ends
    this.underruns = 0;
  }

  /** Start of a frame of `length` samples that arrived at `now`. */
  place(length, now) {
    if (!this.runs.length || now > this.end) {
      if (this.runs.length) this.underruns += 1;
      this.end = now + this.lead;
      this.runs.push({ start: this.end, from: this.total });
    }
    const start = this.end;
    this.end += length;
    this.total += length;
    return start;
  }

  /** Samples of audio that had been played by `now`. */
  played(now) {
    const run = this.runs.findLast((each) => each.start <= now);
    if (!run) return 0;
    const next = this.runs[this.runs.indexOf(run) + 1];
    return Math.min(run.from + now - run.start, next ? next.from : this.total);
  }

  /** Samples that wait to be played at `now`. */
  waiting(now) {
    return this.total - this.played(now);
  }
}
