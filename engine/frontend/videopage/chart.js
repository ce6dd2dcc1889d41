// A small chart of lines and bars over the last two minutes.

export const span = 120; // seconds that are shown

export class Chart {
  // series: {name, colour: a CSS property, bars: true for counts that stand on the lower edge}
  constructor(canvas, unit, series) {
    this.canvas = canvas;
    this.unit = unit;
    this.series = series;
    this.points = []; // {at: seconds, values: one a series, or null}
  }

  add(at, values) {
    this.points.push({ at, values });
    while (this.points.length && this.points[0].at < at - span - 2) this.points.shift();
    this.draw();
  }

  draw() {
    const { canvas, points } = this;
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !points.length) return;
    [canvas.width, canvas.height] = [width * scale, height * scale];
    const draw = canvas.getContext("2d");
    draw.scale(scale, scale);
    const style = getComputedStyle(canvas);
    const now = points.at(-1).at;
    const top = round(Math.max(1, ...points.flatMap((p) => p.values.filter((v, i) => v !== null && !this.series[i].bars))));
    const left = 40, lower = height - 14;
    const x = (at) => left + (1 - (now - at) / span) * (width - left - 2);
    const y = (value) => lower - (value / top) * (lower - 8);
    this.axes(draw, style, { left, lower, width, height, top, y });
    this.series.forEach((s, i) => (s.bars ? bars : line)(draw, points, i, x, y, lower, style.getPropertyValue(s.colour)));
    const says = this.series.map((s, i) => `${s.name} ${points.at(-1).values[i] === null ? "unknown" : Math.round(points.at(-1).values[i])}`);
    canvas.setAttribute("aria-label", `${says.join(", ")} (${this.unit})`);
  }

  axes(draw, style, { left, lower, width, height, top, y }) {
    draw.font = "10px system-ui, sans-serif";
    draw.fillStyle = style.getPropertyValue("--quiet");
    draw.strokeStyle = style.getPropertyValue("--rule");
    draw.lineWidth = 1;
    for (const value of [0, top / 2, top]) {
      draw.beginPath();
      draw.moveTo(left, Math.round(y(value)) + 0.5);
      draw.lineTo(width, Math.round(y(value)) + 0.5);
      draw.stroke();
      draw.textAlign = "right";
      draw.fillText(short(value), left - 5, y(value) + 3);
    }
    draw.textAlign = "left";
    draw.fillText(`${span} s ago`, left, height - 2);
    draw.textAlign = "right";
    draw.fillText("now", width, height - 2);
  }
}

function line(draw, points, i, x, y, lower, colour) {
  draw.beginPath();
  let pen = false;
  for (const p of points) {
    if (p.values[i] === null) { pen = false; continue; }
    if (pen) draw.lineTo(x(p.at), y(p.values[i]));
    else draw.moveTo(x(p.at), y(p.values[i]));
    pen = true;
  }
  draw.strokeStyle = colour;
  draw.lineWidth = 1.75;
  draw.lineJoin = "round";
  draw.stroke();
}

function bars(draw, points, i, x, y, lower, colour) {
  draw.fillStyle = colour;
  for (const p of points) {
    const tall = Math.min(p.values[i] ?? 0, 12) * 3; // a frame is three pixels
    if (tall > 0) draw.fillRect(x(p.at) - 1.5, lower - tall, 3, tall);
  }
}

// round is the least of 1, 2 and 5 times a power of ten that is not below a value.
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((f) => f * power >= value) * power;
}

const short = (value) => (value >= 10000 ? `${value / 1000}k` : String(value));
