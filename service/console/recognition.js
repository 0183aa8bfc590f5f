// The browser's own speech recognition, where it has one: one utterance at a time.

const Recogniser = window.SpeechRecognition ?? window.webkitSpeechRecognition;

export class Recognition {
  /** `on`: {text(words, final), state(listening), failed(reason)}. */
  constructor(on) {
    this.on = on;
    this.session = null;
  }

  static get available() {
    return Boolean(Recogniser);
  }

  get listening() {
    return this.session !== null;
  }

  start() {
    const session = new Recogniser();
    session.lang = navigator.language;
    session.interimResults = true;
    session.onresult = ({ results }) => {
      const words = Array.from(results, (result) => result[0].transcript).join("");
      this.on.text(words.trim(), results[results.length - 1].isFinal);
    };
    session.onerror = ({ error }) => {
      if (error !== "aborted") this.on.failed(error);
    };
    session.onend = () => {
      if (this.session !== session) return;
      this.session = null;
      this.on.state(false);
    };
    this.session = session;
    session.start();
    this.on.state(true);
  }

  stop() {
    this.session?.stop();
  }
}
