// One WebSocket that comes back by itself. Tells its state in words; knows nothing of calls.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15000;

/** Wait before attempt `attempt` (0: the first after a loss): doubling, and a random half so that pages spread out. */
export function waitMs(attempt, random = Math.random()) {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt) * (0.5 + random / 2);
}

export class Connection {
  /** `on`: {open, message, audio, state}; `state(name, text)` with idle, connecting, open, waiting, refused. */
  constructor(on) {
    this.on = on;
    this.token = "";
    this.socket = null;
    this.timer = 0;
    this.attempt = 0;
    this.wanted = false;
    addEventListener("online", () => this.#now());
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  open() {
    this.wanted = true;
    this.attempt = 0;
    this.#connect();
  }

  /** Close for good, until the next `open`. */
  close(text = "Not in a call") {
    this.wanted = false;
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close(1000);
    this.on.state("idle", text);
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
  }

  #now() {
    if (this.wanted && this.socket === null) {
      clearTimeout(this.timer);
      this.#connect();
    }
  }

  #connect() {
    const url = new URL("v1/voice", document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (this.token) url.searchParams.set("token", this.token);
    const again = this.attempt > 0;
    this.on.state("connecting", again ? "Connection lost. Trying again …" : "Connecting …");
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.attempt = 0;
      this.on.open(again);
    };
    socket.onmessage = ({ data }) => {
      if (this.socket !== socket) return;
      if (typeof data === "string") this.on.message(JSON.parse(data), performance.now());
      else this.on.audio(data);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.#lost(opened);
    };
  }

  async #lost(opened) {
    const reason = opened ? "Connection lost." : await whyRefused(this.token);
    if (!this.wanted || this.socket !== null) return;
    if (reason === "key") {
      this.wanted = false;
      this.on.state("refused", this.token ? "The token was refused" : "A key is needed");
      return;
    }
    const wait = waitMs(this.attempt);
    this.attempt += 1;
    this.on.state("waiting", `${reason} Trying again in ${(wait / 1000).toFixed(1)} s`);
    this.timer = setTimeout(() => this.#connect(), wait);
  }
}

/** A browser does not tell why an upgrade failed, so ask the service over HTTP: "key", or a sentence. */
async function whyRefused(token) {
  try {
    const ready = await fetch("readyz", { cache: "no-store" });
    if (!ready.ok) return `The service is not ready (${(await ready.text()).trim()}).`;
    const models = await fetch("v1/models", { cache: "no-store" });
    if (models.status === 401) return "key";
    return "The service takes no more calls right now.";
  } catch {
    return "The service cannot be reached.";
  }
}
