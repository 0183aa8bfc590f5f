// One call of the native protocol: what to send, and what each message means. The page is told through `view`.

import { Connection } from "./connection.js";
import { Player } from "./player.js";
import { Reply } from "./reply.js";

const REPORT_MS = 200;

export class Call {
  /**
   * `view`: {state, started, token, ended, notice, playing}. `options()` gives {audio, rate_hz, system, greeting} of the
   * next call.
   */
  constructor(view, options) {
    this.view = view;
    this.options = options;
    this.player = new Player();
    this.connection = new Connection({
      open: () => this.#start(),
      message: (message, now_ms) => this.#receive(message, now_ms),
      audio: (data) => this.#audio(data),
      state: (name, text) => this.#state(name, text),
    });
    this.reply = null;
    this.asked_ms = null;
    this.ready = false;
    this.served = false; // a call has been ready since `begin`, so the next one is a recovery
    this.withAudio = false;
    this.waiting = []; // said before the call was ready: the latest alone
    this.reported = -1;
    setInterval(() => this.#report(), REPORT_MS);
  }

  get speaking() {
    return (this.reply !== null && this.reply.reason === null) || this.player.playing;
  }

  /** Call from a click or key press. */
  async begin() {
    this.served = false;
    if (this.options().audio) await this.player.unlock(this.options().rate_hz);
    this.connection.open();
  }

  hangUp(text) {
    this.connection.send({ type: "end", reason: "hangup" });
    this.#quiet();
    this.connection.close(text);
  }

  async say(text) {
    if (this.speaking) this.interrupt();
    this.#report(); // what was heard of the last reply is settled when the caller speaks
    this.asked_ms = performance.now();
    if (this.ready) this.connection.send({ type: "user_text", text });
    else this.waiting = [text];
    if (!this.connection.wanted) await this.begin();
  }

  /** What a recogniser may still change. */
  guess(text) {
    if (this.ready) this.connection.send({ type: "user_text", text, final: false });
  }

  interrupt() {
    if (!this.speaking) return;
    const played = this.player.turnId === this.reply.turnId;
    const heard_ms = played ? Math.round(this.player.played_ms) : 0;
    this.player.stop();
    this.#report();
    this.connection.send(this.withAudio ? { type: "interrupt", heard_ms } : { type: "interrupt" });
  }

  #start() {
    const { audio, rate_hz, system, greeting } = this.options();
    const start = { type: "start" };
    if (audio) start.audio = { encoding: "pcm16", sample_rate_hz: rate_hz };
    if (system) start.system_prompt = system;
    if (greeting && !this.served) start.greeting = greeting;
    this.connection.send(start);
    if (this.served) this.view.notice("Connected again. This is a new call: the service does not know what was said before.");
  }

  #receive(message, now_ms) {
    switch (message.type) {
      case "ready":
        this.ready = this.served = true;
        this.withAudio = message.audio !== null;
        this.view.started();
        this.view.state("open", this.withAudio ? "In a call" : "In a call, text only");
        for (const text of this.waiting.splice(0)) {
          this.asked_ms = now_ms; // what went before was the call being set up
          this.connection.send({ type: "user_text", text });
        }
        break;
      case "token":
        this.#turn(message.turn_id);
        this.view.token(this.reply, this.reply.add(message, now_ms));
        break;
      case "audio_begin":
        this.#turn(message.turn_id);
        this.player.begin(message.turn_id);
        break;
      case "audio_clear":
        if (message.turn_id === this.player.turnId) this.player.stop();
        break;
      case "turn_end":
        this.#turn(message.turn_id);
        this.#report();
        this.reply.end(message);
        this.view.ended(this.reply);
        break;
      case "error":
        if (message.code === "no_voice") this.withAudio = false;
        this.view.notice(message.field ? `${message.field}: ${message.message}` : message.message, true);
        break;
      case "end":
        this.#ended(message.reason);
        break;
    }
  }

  #turn(turnId) {
    if (this.reply?.turnId === turnId) return;
    this.reply = new Reply(turnId, this.asked_ms);
    this.asked_ms = null;
    this.reported = -1;
  }

  #audio(data) {
    if (this.player.turnId === this.reply?.turnId) this.player.push(data);
  }

  /** Tell the service how far the reply has been played, or shown where there is no sound. */
  #report() {
    if (this.reply === null) return;
    const turn_id = this.reply.turnId;
    const sounds = this.player.turnId === turn_id;
    if (this.withAudio && !sounds) return;
    const position = sounds ? Math.round(this.player.played_ms) : (this.reply.tokens.at(-1)?.index ?? -1);
    if (sounds) this.view.playing(this.player);
    if (position <= this.reported) return;
    this.reported = position;
    this.connection.send({ type: "played", turn_id, [sounds ? "audio_ms" : "token_index"]: position });
  }

  #ended(reason) {
    if (reason === "draining") {
      this.view.notice("The service is about to stop."); // the socket closes next, and the connection tries again
      return;
    }
    this.#quiet();
    this.connection.close(`The service ended the call (${String(reason).replaceAll("_", " ")})`);
  }

  #state(name, text) {
    if (name === "waiting" && this.ready) this.view.notice("The connection was lost.", true);
    this.#quiet();
    this.view.state(name, text);
  }

  #quiet() {
    this.player.stop();
    this.ready = false;
    this.reply = null;
  }
}
