// The page: joins the call, the figures and the controls.

import { Call } from "./call.js";
import { Chart } from "./chart.js";
import { Figures } from "./figures.js";
import { Microphone } from "./microphone.js";
import { Recognition } from "./recognition.js";
import { Transcript } from "./transcript.js";

const byId = (id) => document.getElementById(id);
const transcript = new Transcript(byId("log"));
const figures = new Figures();
const chart = new Chart(byId("axis"), byId("chart"), byId("strip"));

const view = {
  state(name, text) {
    byId("status").dataset.state = name;
    byId("status").textContent = text;
    const calling = !["idle", "refused"].includes(name);
    byId("call").textContent = calling ? "Hang up" : "Start call";
    byId("access").hidden = name !== "refused";
    if (name === "refused") byId("key").focus();
    enable();
  },
  started() {
    transcript.newCall();
    figures.newCall();
  },
  token(reply, token) {
    transcript.token(reply, token);
    figures.show(reply);
    chart.show(reply);
    enable();
  },
  ended(reply) {
    if (reply.heard !== null) transcript.cut(reply);
    figures.ended(reply);
    chart.show(reply);
    byId("announce").textContent = reply.reason === "interrupted" ? `Interrupted. Heard: ${reply.heard}` : reply.text;
    enable();
  },
  notice(text, bad) {
    transcript.notice(text, bad);
    if (bad) byId("announce").textContent = text;
  },
  playing(player) {
    figures.playing(player);
    enable();
  },
};

const options = () => ({
  audio: byId("hear").checked,
  rate_hz: Number(byId("rate").value),
  system: byId("system").value.trim(),
  greeting: byId("greeting").value.trim(),
});

/** The call of this page. */
export const call = new Call(view, options);

function enable() {
  byId("interrupt").disabled = !call.speaking;
}

function hint(text) {
  byId("hint").textContent = text;
}

function say(text) {
  transcript.said(text);
  call.say(text);
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("text").value.trim();
  if (!text) return;
  byId("text").value = "";
  say(text);
});

byId("call").addEventListener("click", () => {
  if (call.connection.wanted) call.hangUp();
  else call.begin();
});

byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  call.connection.key = byId("key").value.trim();
  call.begin();
});

byId("interrupt").addEventListener("click", () => call.interrupt());
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && call.speaking) call.interrupt();
});

byId("hear").addEventListener("change", () => {
  if (call.connection.wanted) hint("This takes effect with the next call.");
});

const recognition = new Recognition({
  text(words, final) {
    if (!final) {
      transcript.said(words, false);
      call.guess(words);
    } else if (words) say(words);
    else transcript.dropHypothesis();
  },
  state(listening) {
    byId("speak").setAttribute("aria-pressed", String(listening));
    byId("speak").textContent = listening ? "Listening …" : "Speak";
    if (!listening) transcript.dropHypothesis();
  },
  failed(reason) {
    hint(`The browser did not recognise speech (${reason}). Typing always works.`);
  },
});

if (Recognition.available) {
  byId("speak").hidden = false;
  byId("speak").title = "Uses this browser's speech recognition, which may send what you say to the browser's maker";
}
byId("speak").addEventListener("click", async () => {
  if (recognition.listening) return recognition.stop();
  if (call.speaking) call.interrupt();
  if (!call.connection.wanted) await call.begin();
  return recognition.start();
});

const microphone = new Microphone(() => {
  if (!call.speaking) return;
  call.interrupt();
  if (Recognition.available && !recognition.listening) recognition.start();
});

byId("talk").disabled = !Microphone.available;
if (!Microphone.available) byId("talk").parentElement.title = "Browsers give the microphone to pages over HTTPS and on localhost alone";
byId("talk").addEventListener("change", async ({ target }) => {
  if (!target.checked) return microphone.stop();
  try {
    await microphone.start();
    hint("Talk while a reply plays to cut it short. The sound stays in this page.");
  } catch (error) {
    target.checked = false;
    hint(`No microphone: ${error.message}`);
  }
  return undefined;
});

byId("text").focus({ preventScroll: true });
