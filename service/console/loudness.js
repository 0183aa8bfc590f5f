// When somebody begins to speak, by the energy of the microphone alone. Pure: times come in as `now_ms`.

const ABOVE_NOISE_DB = 14;
const QUIETEST_DB = -48; // below this nothing counts as speech, however silent the room
const HOLD_MS = 120; // a door slams shorter than this
const SETTLE_MS = 300; // the room's noise is learnt first

/** Loudness of samples (-1 to 1), dB below full scale. */
export function loudnessDb(samples) {
  const energy = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
  return 10 * Math.log10(energy + 1e-10);
}

export class SpeechOnset {
  constructor() {
    this.noise_db = null;
    this.started_ms = null;
    this.loudSince_ms = null;
    this.speaking = false;
  }

  /** One measurement; true once per stretch of speech, when it has held. */
  push(db, now_ms) {
    this.started_ms ??= now_ms;
    this.noise_db ??= db;
    const rate = db < this.noise_db ? 0.3 : 0.01; // falls fast, rises slowly
    this.noise_db += (db - this.noise_db) * rate;
    const loud = db > Math.max(this.noise_db + ABOVE_NOISE_DB, QUIETEST_DB);
    if (!loud || now_ms - this.started_ms < SETTLE_MS) {
      this.loudSince_ms = null;
      this.speaking = false;
      return false;
    }
    this.loudSince_ms ??= now_ms;
    if (this.speaking || now_ms - this.loudSince_ms < HOLD_MS) return false;
    this.speaking = true;
    return true;
  }
}
