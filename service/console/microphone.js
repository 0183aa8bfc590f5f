// Listens for somebody who begins to talk. The sound stays in this page: it is measured and dropped.

import { loudnessDb, SpeechOnset } from "./loudness.js";

const EVERY_MS = 30;

export class Microphone {
  /** `onset`: called when speech begins. */
  constructor(onset) {
    this.onset = onset;
    this.stream = null;
    this.context = null;
    this.timer = 0;
  }

  static get available() {
    return Boolean(navigator.mediaDevices?.getUserMedia);
  }

  /** Raises what the browser says where it gives no microphone. */
  async start() {
    // Echo cancellation, or the reply itself would interrupt the reply.
    this.stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true } });
    this.context = new AudioContext();
    const analyser = new AnalyserNode(this.context, { fftSize: 1024 });
    new MediaStreamAudioSourceNode(this.context, { mediaStream: this.stream }).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const detector = new SpeechOnset();
    this.timer = setInterval(() => {
      analyser.getFloatTimeDomainData(samples);
      if (detector.push(loudnessDb(samples), performance.now())) this.onset();
    }, EVERY_MS);
  }

  stop() {
    clearInterval(this.timer);
    this.stream?.getTracks().forEach((track) => track.stop());
    this.context?.close();
    this.stream = this.context = null;
  }
}
