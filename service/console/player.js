// Plays 16-bit frames through WebAudio. One AudioContext at the audio's own rate, so that no frame is resampled alone.

import { Schedule } from "./schedule.js";

const LEAD_S = 0.08; // what a network may be late by before it is heard
const FADE_S = 0.004; // a cut without one clicks

export class Player {
  constructor() {
    this.context = null;
    this.turnId = null;
    this.frames = 0; // handed to WebAudio, of all replies
    this.peak = 0; // of the samples of this reply, 0 to 1
    this.schedule = null;
    this.sources = new Set();
    this.gain = null;
    this.cut = null; // {turnId, played_ms} of the reply stopped last
  }

  /** Call from a click or key press: browsers start audio for nothing less. */
  async unlock(rate_hz) {
    if (this.context && this.context.sampleRate !== rate_hz) {
      await this.context.close();
      this.context = null;
    }
    this.context ??= new AudioContext({ sampleRate: rate_hz, latencyHint: "interactive" });
    await this.context.resume();
  }

  begin(turnId) {
    this.stop();
    this.turnId = turnId;
    this.peak = 0;
    this.schedule = new Schedule(Math.round(LEAD_S * this.context.sampleRate));
    this.gain = new GainNode(this.context);
    this.gain.connect(this.context.destination);
  }

  /** One frame of little-endian samples. */
  push(data) {
    if (this.schedule === null) return;
    const view = new DataView(data);
    const buffer = this.context.createBuffer(1, data.byteLength >> 1, this.context.sampleRate);
    const samples = buffer.getChannelData(0);
    for (let at = 0; at < samples.length; at += 1) {
      samples[at] = view.getInt16(at * 2, true) / 32768;
      this.peak = Math.max(this.peak, Math.abs(samples[at]));
    }
    const source = new AudioBufferSourceNode(this.context, { buffer });
    source.connect(this.gain);
    source.onended = () => this.sources.delete(source);
    this.sources.add(source);
    source.start(this.schedule.place(samples.length, this.now) / this.context.sampleRate);
    this.frames += 1;
  }

  /** Silence at once; what has been played stays known. */
  stop() {
    if (this.schedule === null) return;
    this.cut = { turnId: this.turnId, played_ms: this.played_ms };
    const now = this.context.currentTime;
    this.gain.gain.setTargetAtTime(0, now, FADE_S / 3);
    for (const source of this.sources) source.stop(now + FADE_S);
    this.sources.clear();
    this.schedule = null;
  }

  get now() {
    return Math.round(this.context.currentTime * this.context.sampleRate);
  }

  /** Audio of the reply that has left the loudspeaker, ms; the device's own delay is not yet heard. */
  get played_ms() {
    if (this.schedule === null) return this.cut?.turnId === this.turnId ? this.cut.played_ms : 0;
    const delay_s = this.context.outputLatency || this.context.baseLatency || 0;
    const heard = this.schedule.played(this.now - Math.round(delay_s * this.context.sampleRate));
    return Math.max(0, (heard / this.context.sampleRate) * 1000);
  }

  get playing() {
    return this.schedule !== null && this.total_ms - this.played_ms >= 1;
  }

  get total_ms() {
    return this.schedule === null ? 0 : (this.schedule.total / this.context.sampleRate) * 1000;
  }

  get underruns() {
    return this.schedule?.underruns ?? 0;
  }
}
