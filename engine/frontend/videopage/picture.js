// A stream's picture: the last frame, and over it the boxes found in it and the regions that were asked for.

const kept = 400; // frames whose events are kept until their picture is there

export class Picture {
  constructor(canvas, waiting, found) {
    this.canvas = canvas;
    this.waiting = waiting;
    this.found = found;
    this.events = new Map(); // key of a frame: what is known of it
    this.gradient = null; // that is shown over the frame
    this.bitmap = this.key = null; // the frame that is shown, or will be
  }

  // take notes what an event says of its frame: regions and boxes may come in one event or in several.
  take(event) {
    const key = keyOf(event.segment, event.frame);
    const known = this.events.get(key) ?? { boxes: [], regions: [], final: false };
    if (event.regions?.length) known.regions = event.regions;
    if (event.final || !known.final) known.boxes = event.boxes ?? [];
    known.final ||= Boolean(event.final);
    this.events.delete(key);
    this.events.set(key, known);
    if (this.events.size > kept) this.events.delete(this.events.keys().next().value);
    if (key === this.key) this.draw(known);
  }

  // show shows a frame. The one before stays until something is known of it.
  show(bitmap, key) {
    this.bitmap?.close();
    [this.bitmap, this.key] = [bitmap, key];
    const known = this.events.get(key);
    if (known || !this.waiting.hidden) this.draw(known ?? { boxes: [], regions: [] });
  }

  draw(known) {
    const { canvas, bitmap } = this;
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
    const draw = canvas.getContext("2d");
    draw.drawImage(bitmap, 0, 0);
    this.waiting.hidden = true;
    const wide = Math.max(1, canvas.width / Math.max(1, canvas.clientWidth)); // a pixel of the screen
    if (this.gradient) shade(draw, this.gradient);
    for (const region of known.regions) outline(draw, region, asked, wide, true);
    for (const box of known.boxes) {
      outline(draw, box.box, colourOf(box.class), wide, false);
      tag(draw, box, wide);
    }
    const text = sentence(known);
    this.found.textContent = text;
    canvas.setAttribute("aria-label", text);
  }
}

// shade shows a gradient: the brighter a block, the more its pixels weigh.
function shade(draw, { columns, rows, values }) {
  const { width, height } = draw.canvas, levels = atob(values);
  const block = [width / columns, height / rows];
  for (let i = 0; i < levels.length; i++) {
    const level = levels.charCodeAt(i);
    if (level < 4) continue;
    draw.fillStyle = `rgb(255 225 77 / ${(level - 3) / 20})`;
    draw.fillRect((i % columns) * block[0], Math.floor(i / columns) * block[1], ...block);
  }
}

export const keyOf = (segment, frame) => `${segment}/${frame}`;

const asked = "#ff2fd0";
const colours = ["#39ff88", "#ffe14d", "#4dc3ff", "#ff8f4d", "#c79bff", "#ff6b6b", "#7dffea", "#f2f2f2"];
const colourOf = (number) => colours[number % colours.length];

function outline(draw, [x0, y0, x1, y1], colour, wide, dashed) {
  const { width, height } = draw.canvas;
  draw.lineWidth = (dashed ? 1.5 : 2) * wide;
  draw.setLineDash(dashed ? [5 * wide, 4 * wide] : []);
  draw.strokeStyle = colour;
  draw.strokeRect(x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
  if (!dashed) return;
  draw.fillStyle = colour + "22";
  draw.fillRect(x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
}

// tag writes what a box is, where there is room for it.
function tag(draw, box, wide) {
  const [x0, y0, x1] = box.box;
  const { width, height } = draw.canvas;
  const size = 11 * wide;
  draw.font = `600 ${size}px system-ui, sans-serif`;
  const text = `${nameOf(box)} ${Math.round(box.score * 100)}`;
  const needs = draw.measureText(text).width + 6 * wide;
  if ((x1 - x0) * width < needs * 0.55) return; // of far things the colour says it
  const x = Math.min(x0 * width, width - needs), y = Math.max(y0 * height - size - 4 * wide, 0);
  draw.fillStyle = colourOf(box.class);
  draw.fillRect(x, y, needs, size + 4 * wide);
  draw.fillStyle = "#000";
  draw.fillText(text, x + 3 * wide, y + size);
}

const nameOf = (box) => box.label || `class ${box.class}`;

function sentence(known) {
  const counts = new Map();
  for (const box of known.boxes) counts.set(nameOf(box), (counts.get(nameOf(box)) ?? 0) + 1);
  const things = [...counts].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${n} ${name}`).join(", ") || "nothing found";
  return known.regions.length ? `${things}; ${known.regions.length} regions asked for` : things;
}
