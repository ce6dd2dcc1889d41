// The page of video streams: lists them once a second, hears their results, and shows each as a card.

import { Picture, keyOf } from "/video/picture.js";
import { Chart } from "/video/chart.js";

const api = "/v1/video/streams";
const averaged = 5; // seconds over which bitrates are averaged: segments come in bursts
const mostLive = 4; // cards that hear results at a time: a browser has six connections to a server
const element = (id) => document.getElementById(id);
const cards = new Map();

// ask asks the server; its refusals become errors with its own words.
async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Error("The server does not answer.");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  const words = said?.error?.message ?? (typeof said?.error === "string" ? said.error : "");
  if (answer.status === 401) throw new Error("The server asks for an API key. Load this page again and give the key as the password.");
  if (answer.status === 404 && path === api) throw new Error("This server has no video streams: " + words);
  throw new Error(words || `The server answered ${answer.status} ${answer.statusText}.`);
}

class Card {
  constructor(name) {
    this.name = name;
    this.root = element("card").content.firstElementChild.cloneNode(true);
    this.root.dataset.stream = name;
    this.find("h2").textContent = name;
    this.picture = new Picture(this.find(".picture"), this.find(".waiting"), this.find(".found"));
    this.rates = new Chart(this.find(".rates"), "kbit/s", [{ name: "stream A", colour: "--a" }, { name: "stream B", colour: "--b" }]);
    this.times = new Chart(this.find(".times"), "ms", [
      { name: "late", colour: "--late", bars: true }, { name: "dropped", colour: "--dropped", bars: true }, { name: "latency", colour: "--latency" }]);
    this.course = new Chart(this.find(".course"), "elements, quantiser", [{ name: "found", colour: "--a" }, { name: "quantiser", colour: "--latency" }]);
    this.segment = -1; // the last whose gradient is known
    this.latencies = []; // of results since the last list
    this.sent = []; // bytes, as lists told
    this.before = null; // the counters that were told last
    this.onScreen = false;
    this.find(".remove").addEventListener("click", () => this.remove());
    watcher.observe(this.root);
  }

  find(selector) { return this.root.querySelector(selector); }

  figure(name, value, unit = "") {
    const place = this.find(`[data-figure="${name}"]`);
    place.textContent = value;
    if (unit) place.append(Object.assign(document.createElement("small"), { textContent: " " + unit }));
  }

  // update shows what the list says of the stream.
  update(stream) {
    const state = this.find(".state");
    state.textContent = stream.state;
    state.className = "state " + (moods[stream.state] ?? "");
    this.find(".about").textContent = [stream.model, stream.method, stream.source, rateOf(stream)].filter(Boolean).join(" · ");
    const waiting = this.find(".waiting"), lost = stream.state === "failed";
    if (!waiting.hidden) waiting.textContent = lost ? "No picture" : stream.source === "camera" ? "Waiting for the camera …" : "Waiting for the first frame …";
    this.note(stream.reason ?? "", lost);
    const now = performance.now() / 1000;
    const [a, b] = this.bitrates(now, stream);
    const latency = this.latency(stream);
    const late = this.step("late", stream.late), dropped = this.step("dropped", stream.dropped);
    this.figure("a", shown(a), "kbit/s");
    this.figure("b", shown(b), "kbit/s");
    this.figure("latency", shown(latency), "ms");
    this.figure("frames", whole(stream.frames));
    this.figure("late", whole(stream.late));
    this.figure("dropped", whole(stream.dropped));
    this.before = stream;
    this.rates.add(now, [a, b]);
    this.times.add(now, [late, dropped, latency]);
    this.followKnobs(stream).catch(() => {}); // what is wrong, the list says
  }

  // follow shows what a camera that adapts has set of late.
  async followKnobs(stream) {
    this.find(".knobs").hidden = !stream.gradients;
    if (!stream.gradients || !this.onScreen || document.hidden) return;
    const list = (await (await ask(`${this.path()}/segments${this.segment < 0 ? "" : `?after=${this.segment}`}`)).json()).data;
    const last = list.at(-1), known = list.findLast((s) => s.gradient);
    if (last) this.find(".set").textContent = knobsOf(last);
    if (!known) return;
    this.segment = known.segment;
    this.picture.gradient = this.find(".sensitive").checked ? known.gradient : null;
    this.course.add(performance.now() / 1000, [known.found, known.quantisers?.mean ?? null]);
  }

  // bitrates are those of the last seconds, in kbit/s. Sources that the server reads have no stream B.
  bitrates(now, stream) {
    this.sent.push({ at: now, a: stream.bytes_a, b: stream.bytes_b });
    if (this.sent.at(-1).a < this.sent[0].a) this.sent = [this.sent.at(-1)]; // the server began anew
    while (this.sent.length > 2 && this.sent[1].at < now - averaged) this.sent.shift();
    const first = this.sent[0], seconds = now - first.at;
    if (seconds < 0.5) return [null, null];
    const rates = [stream.bytes_a - first.a, stream.bytes_b - first.b].map((bytes) => Math.max(0, bytes) * 8 / 1000 / seconds);
    return stream.source === "camera" ? rates : [rates[0], null];
  }

  // latency is the median of the results since the last time, or of the last ones; without any it is the mean that the server tells.
  latency(stream) {
    const heard = this.latencies.splice(0).sort((x, y) => x - y);
    if (heard.length) return this.median = heard[heard.length >> 1];
    return this.median ?? (stream.frames ? stream.latency_ms : null);
  }

  step(counter, value) {
    const before = this.before?.[counter] ?? value ?? 0;
    return Math.max(0, (value ?? 0) - before);
  }

  note(words, bad) {
    const place = this.find(".note");
    place.hidden = !words;
    place.classList.toggle("refused", bad);
    place.textContent = words;
  }

  // listen hears the stream's results, or stops to.
  listen(on) {
    if (on === Boolean(this.events)) return;
    if (!on) {
      this.events.close();
      this.events = null;
      return;
    }
    this.events = new EventSource(`${this.path()}/results`);
    this.events.onmessage = (message) => this.hear(JSON.parse(message.data));
    this.events.onerror = () => { // one that was refused does not try again by itself
      if (this.events?.readyState === EventSource.CLOSED) this.events = null;
    };
  }

  hear(event) {
    this.picture.take(event);
    if (event.final && event.latency_ms !== undefined) this.latencies.push(event.latency_ms);
    this.fetchFrame();
  }

  // fetchFrame fetches the last frame, one at a time.
  async fetchFrame() {
    if (this.fetching || document.hidden) return;
    this.fetching = true;
    try {
      const answer = await ask(`${this.path()}/frame.jpg`);
      const bitmap = await createImageBitmap(await answer.blob());
      this.picture.show(bitmap, keyOf(answer.headers.get("Prefillonly-Segment"), answer.headers.get("Prefillonly-Frame")));
      await new Promise((done) => setTimeout(done, 60));
    } catch {
      await new Promise((done) => setTimeout(done, 500)); // there is none yet
    } finally {
      this.fetching = false;
    }
  }

  path() { return `${api}/${encodeURIComponent(this.name)}`; }

  // remove asks for a second press before it removes the stream.
  async remove() {
    const button = this.find(".remove");
    if (!button.classList.contains("sure")) {
      button.classList.add("sure");
      button.textContent = "Really remove?";
      setTimeout(() => { button.classList.remove("sure"); button.textContent = "Remove"; }, 3000);
      return;
    }
    button.disabled = true;
    try {
      await ask(this.path(), { method: "DELETE" });
      await refresh();
    } catch (error) {
      this.note(error.message, true);
      button.disabled = false;
    }
  }

  close() {
    this.listen(false);
    watcher.unobserve(this.root);
    this.root.remove();
  }
}

// knobsOf says how a segment was encoded.
function knobsOf(s) {
  const q = s.quantisers && [...atob(s.quantisers.values)].map((c) => c.charCodeAt(0));
  const qp = q ? `QP ${s.quantisers.mean.toFixed(1)} (${Math.min(...q)} to ${Math.max(...q)})` : "QP left to the encoder";
  const bias = s.b_bias ? `, B-frames by ${s.b_bias}` : "";
  return `${qp}, ${s.width} × ${s.height}, ${s.frames} of ${s.of} frames${bias}: ${shown(s.bytes * 8 / 1000 / s.seconds)} kbit/s`;
}

const moods = { running: "good", failed: "bad" };
const rateOf = (stream) => (stream.rate ? `at most ${stream.rate} frames/s` : "");
const shown = (value) => (value === null || value === undefined ? "–" : value >= 100 ? String(Math.round(value)) : value.toFixed(1));
const whole = (value) => (value === undefined ? "–" : value.toLocaleString("en"));

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const card = cards.get(entry.target.dataset.stream);
    if (card) card.onScreen = entry.isIntersecting;
  }
  chooseLive();
});

// chooseLive lets the first cards on the screen hear results.
function chooseLive() {
  let left = document.hidden ? 0 : mostLive;
  for (const card of cards.values()) card.listen(card.onScreen && left-- > 0);
}

// refresh lists the streams once.
async function refresh() {
  const list = (await (await ask(api)).json()).data;
  const names = new Set(list.map((s) => s.name));
  for (const [name, card] of cards) {
    if (!names.has(name)) {
      card.close();
      cards.delete(name);
    }
  }
  for (const stream of list) {
    if (!cards.has(stream.name)) {
      cards.set(stream.name, new Card(stream.name));
      element("streams").append(cards.get(stream.name).root);
    }
    cards.get(stream.name).update(stream);
  }
  chooseLive();
  element("empty").hidden = list.length > 0;
  if (!list.length && !opened) element("adding").open = opened = true;
  element("summary").textContent = list.length === 1 ? "1 stream" : `${list.length} streams`;
}

let opened = false; // the form, by itself, where there is no stream

// follow lists the streams again and again, as long as the page is there.
async function follow() {
  for (;;) {
    let wait = 1000;
    if (!document.hidden) {
      try {
        await refresh();
        trouble("");
      } catch (error) {
        wait = 3000;
        trouble(`${error.message} Trying again every 3 seconds.`);
      }
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

function trouble(words) {
  element("trouble").hidden = !words;
  if (element("trouble").textContent !== words) element("trouble").textContent = words;
  if (words) element("summary").textContent = "not connected";
}

async function listModels() {
  const models = (await (await ask("/v1/models")).json()).data;
  const select = element("add").elements.model;
  for (const { id } of models) select.add(new Option(id));
}

element("add").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target, refused = element("refused");
  const wanted = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  if (wanted.rate) wanted.rate = Number(wanted.rate);
  if (wanted.loop) wanted.loop = true;
  form.querySelector("button").disabled = true;
  try {
    await ask(api, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wanted) });
    refused.hidden = true;
    form.elements.name.value = "";
    await refresh();
  } catch (error) {
    refused.hidden = false;
    refused.textContent = error.message;
  } finally {
    form.querySelector("button").disabled = false;
  }
});

// A way to stream is a camera's, and only files begin again.
element("add").elements.source.addEventListener("input", suit);
function suit() {
  const { source, method, loop } = element("add").elements;
  method.disabled = source.value !== "camera";
  loop.disabled = source.value === "camera" || source.value.includes("://");
}
suit();

document.addEventListener("visibilitychange", chooseLive);
listModels().catch(() => {}); // follow says what is wrong
follow();
