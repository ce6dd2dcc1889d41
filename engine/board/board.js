// The page of the server: takes what the server has rendered once a second, draws charts of it, and sends requests by hand.

import { Chart } from "/video/chart.js";

const at = (path) => location.origin + path; // a page's own address may have a password in it, which fetch does not take
const element = (id) => document.getElementById(id);
const chart = (name, unit, series) => new Chart(element(`chart-${name}`), unit, series.map((s, i) => ({ name: s, colour: ["--a", "--b"][i] })));

document.querySelector(".charts").hidden = element("try").hidden = false;
const charts = [ // with where their values are among the points
  [chart("requests", "a second", ["requests"]), [0]],
  [chart("jobs", "jobs", ["waiting", "in passes"]), [1, 2]],
  [chart("latency", "ms", ["P50", "P99"]), [3, 4]],
  [chart("cache", "%", ["in use", "hits"]), [5, 6]],
];

function draw() {
  const points = JSON.parse(element("now").dataset.points);
  for (const [of, places] of charts) of.add(performance.now() / 1000, places.map((i) => points[i]));
}

async function follow() {
  for (;;) {
    await new Promise((done) => setTimeout(done, 1000));
    if (document.hidden) continue;
    try {
      const answer = await fetch(at("/ui/now"), { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status === 401 ? "The server asks for an API key. Load this page again and give the key as the password." : `The server answered ${answer.status}.`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("now");
      replace(fresh);
      draw();
      trouble("");
    } catch (error) {
      trouble(error instanceof TypeError ? "The server does not answer. Trying again." : error.message);
    }
  }
}

// replace puts in what is new, part by part, so that what has the focus or is scrolled stays so.
function replace(fresh) {
  element("now").dataset.points = fresh.dataset.points;
  for (const part of fresh.querySelectorAll("dl, p, tbody")) {
    const old = part.tagName === "TBODY" ? element(part.parentElement.id).tBodies[0] : element(part.id);
    old.hidden = part.hidden;
    if (old.innerHTML !== part.innerHTML) old.innerHTML = part.innerHTML;
  }
}

function trouble(words) {
  element("trouble").hidden = !words;
  if (element("trouble").textContent !== words) element("trouble").textContent = words;
}

// How each kind of request is asked, and its answer shown: rows under heads.
const kinds = {
  completion: {
    able: "completions",
    path: "/v1/completions",
    body: (f) => ({ prompt: f.text, max_tokens: Number(f.tokens), temperature: 0, logprobs: 5 }),
    rows({ choices: [{ logprobs: l }] }) {
      return [["token", "logprob", "likeliest there"], ...l.tokens.map((token, i) => [
        JSON.stringify(token), l.token_logprobs[i].toFixed(4),
        Object.entries(l.top_logprobs[i]).map(([t, p]) => `${JSON.stringify(t)} ${p.toFixed(2)}`).join("  ")])];
    },
  },
  score: {
    able: "score",
    path: "/v1/score",
    body: (f) => ({ queries: f.query, documents: f.documents.split("\n").filter((d) => d.trim()) }),
    rows: (answer, f) => [["document", "score"], ...answer.data.map((d) => [f.documents.split("\n").filter((t) => t.trim())[d.index], d.score.toFixed(4)])],
  },
  embedding: {
    able: "embeddings",
    path: "/v1/embeddings",
    body: (f) => ({ input: f.text }),
    rows({ data: [{ embedding: v }] }) {
      return [["numbers", "length", "the first"], [v.length, Math.hypot(...v).toFixed(4), v.slice(0, 8).map((x) => x.toFixed(4)).join("  ")]];
    },
  },
  picture: {
    able: "ocr",
    path: "/v1/ocr",
    body: async (f) => ({ image: await dataURL(f.picture) }),
    rows: ({ lines }) => [["line", "score", "corner"], ...lines.map((l) => [l.text, l.score.toFixed(4), l.box[0].join(", ")])],
  },
  transcription: {
    able: "speech",
    path: "/v1/audio/transcriptions",
    form: (f) => ({ file: f.sound, response_format: "verbose_json" }),
    rows: ({ segments }) => [["from", "to", "text"], ...segments.map((s) => [`${s.start.toFixed(2)} s`, `${s.end.toFixed(2)} s`, s.text])],
  },
};

function dataURL(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Error(`The file cannot be read: ${reader.error.message}`));
    reader.readAsDataURL(file);
  });
}

// sent is how a kind of request goes out: as JSON, or as a form with a file.
async function sent(kind, fields) {
  if (kind.form) {
    const form = new FormData();
    for (const [name, value] of Object.entries({ model: fields.model, ...kind.form(fields) })) form.append(name, value);
    return { method: "POST", body: form };
  }
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ model: fields.model, ...await kind.body(fields) }) };
}

const form = element("try");
let models = null; // that there are, when it is known
form.elements.kind.addEventListener("change", suit);
function suit() {
  for (const label of form.querySelectorAll("[data-for]")) label.hidden = !label.dataset.for.split(" ").includes(form.elements.kind.value);
  offer();
}

// The models that can be asked, as far as they tell what they are for.
function offer() {
  const able = models?.filter((m) => !m.capabilities || m.capabilities.includes(kinds[form.elements.kind.value].able));
  if (able) form.elements.model.replaceChildren(...able.map((m) => new Option(m.id)));
}
fetch(at("/v1/models")).then((answer) => answer.json()).then((list) => { models = list.data; offer(); }).catch(() => {}); // follow says what is wrong

suit();

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(form)), kind = kinds[fields.kind];
  const button = form.querySelector("button");
  button.disabled = true;
  element("refused").hidden = true;
  try {
    const began = performance.now();
    const answer = await fetch(at(kind.path), await sent(kind, fields));
    const said = await answer.json(), took = performance.now() - began;
    if (!answer.ok) throw new Error(said.error?.message ?? `The server answered ${answer.status}.`);
    const tokens = said.usage?.prompt_tokens, cached = said.usage?.prompt_tokens_details?.cached_tokens;
    element("timing").textContent = `${took.toFixed(0)} ms here, ${answer.headers.get("Openai-Processing-Ms")} ms at the server${tokens === undefined ? "" : `; ${tokens} tokens`}${cached ? `, ${cached} of them cached` : ""}.`;
    show(kind.rows(said, fields));
  } catch (error) {
    element("refused").hidden = false;
    element("refused").textContent = error instanceof TypeError ? "The server does not answer." : error.message;
    element("timing").textContent = "";
    element("answer").hidden = true;
  } finally {
    button.disabled = false;
    button.focus();
  }
});

function show([heads, ...rows]) {
  const row = (kind, cells) => {
    const tr = document.createElement("tr");
    tr.append(...cells.map((text) => Object.assign(document.createElement(kind), { textContent: text })));
    return tr;
  };
  const table = element("answer").querySelector("table");
  table.tHead.replaceChildren(row("th", heads));
  table.tBodies[0].replaceChildren(...rows.map((cells) => row("td", cells)));
  element("answer").hidden = false;
}

draw();
follow();
