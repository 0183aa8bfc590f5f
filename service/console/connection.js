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
    this.key = ""; // API key or signed token
    this.number = 0; // of attempts, so that a late answer to an old one is known
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
    this.number += 1;
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

  async #connect() {
    this.on.state("connecting", this.attempt > 0 ? "Trying again …" : "Connecting …");
    const number = (this.number += 1);
    const token = await tokenFor(this.key);
    if (number !== this.number || !this.wanted) return; // closed or begun anew in the meantime
    if (token === null) {
      this.#lost(await whyNot(this.key));
      return;
    }
    const socket = new WebSocket(address(token));
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.attempt = 0;
      this.on.open();
    };
    socket.onmessage = ({ data }) => {
      if (this.socket !== socket) return;
      if (typeof data === "string") this.on.message(JSON.parse(data), performance.now());
      else this.on.audio(data);
    };
    socket.onclose = async () => {
      if (this.socket !== socket) return;
      this.socket = null;
      const reason = opened ? "Connection lost." : await whyNot(this.key);
      if (this.wanted && number === this.number) this.#lost(reason);
    };
  }

  #lost(reason) {
    if (reason === "key") {
      this.wanted = false;
      this.on.state("refused", this.key ? "The key was refused" : "A key is needed");
      return;
    }
    const wait = waitMs(this.attempt);
    this.attempt += 1;
    this.on.state("waiting", `${reason} Trying again in ${(wait / 1000).toFixed(1)} s`);
    this.timer = setTimeout(() => this.#connect(), wait);
  }
}

function address(token) {
  const url = new URL("v1/voice", document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  if (token) url.searchParams.set("token", token);
  return url;
}

function askForToken(key) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  return fetch("v1/voice-token", { method: "POST", headers, cache: "no-store" });
}

/** A browser cannot send a key with a WebSocket, so it becomes a token of short life; null where that fails. */
async function tokenFor(key) {
  if (/^\d+\.[\w-]{43}$/.test(key)) return key; // is a signed token already
  try {
    const answer = await askForToken(key);
    return answer.ok ? (await answer.json()).token : null;
  } catch {
    return null;
  }
}

/** A browser does not tell why an upgrade failed, so ask the service over HTTP: "key", or a sentence. */
async function whyNot(key) {
  try {
    const ready = await fetch("readyz", { cache: "no-store" });
    if (!ready.ok) return `The service is not ready (${(await ready.text()).trim()}).`;
    if ((await askForToken(key)).status === 401) return "key";
    return "The service takes no more calls right now.";
  } catch {
    return "The service cannot be reached.";
  }
}
