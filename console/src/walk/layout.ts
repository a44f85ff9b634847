// Where the stations of the walk stand and how the channel runs between them. Pure geometry.

export interface Point {
  x: number;
  y: number;
}

export type Shape = 'across' | 'down';

export interface WalkLayout {
  shape: Shape;
  width: number;
  height: number;
  radius: number;
  stations: Point[];
  channel: string;  // SVG path from the first station to the last, running a little past both.
  loop: string;     // From the last station back to `loopTo`.
  loopLabel: Point;
  arrow: string;    // A small head on the loop, before it reaches its station.
  labelsAt: number; // Shape "down": where the words begin.
}

const kAcrossMin = 860;
const kColumn = 1180;

function smooth(points: Point[]): string {
  let path = `M${round(points[0]!.x)} ${round(points[0]!.y)}`;
  for (let i = 0; i + 1 < points.length; i++) {
    const a = points[i]!;
    const b = points[i + 1]!;
    const before = points[i - 1] ?? a;
    const after = points[i + 2] ?? b;
    path += `C${round(a.x + (b.x - before.x) / 6)} ${round(a.y + (b.y - before.y) / 6)} ` +
      `${round(b.x - (after.x - a.x) / 6)} ${round(b.y - (after.y - a.y) / 6)} ` +
      `${round(b.x)} ${round(b.y)}`;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function across(width: number, count: number, loopTo: number, mirror: (x: number) => number) {
  const radius = Math.min(46, Math.max(34, width / 26));
  // The channel runs through the whole screen; the stations keep to the column of text.
  const margin = Math.max(radius + 24, (width - kColumn) / 2 + radius);
  const step = (width - 2 * margin) / (count - 1);
  const base = 176;
  const plain = Array.from({length: count}, (_, i) => ({
    x: margin + i * step,
    y: base + (i % 2 === 0 ? -13 : 13),
  }));
  const stations = plain.map((p) => ({x: mirror(p.x), y: p.y}));
  const ends = [
    {x: mirror(-30), y: base - 6}, ...stations, {x: mirror(width + 30), y: base + 6},
  ];
  const from = plain[count - 1]!;
  const to = plain[loopTo]!;
  const top = 48;
  const bend = 34;
  const loop = [
    `M${round(mirror(from.x))} ${round(from.y - radius)}`,
    `V${top + bend}`,
    `Q${round(mirror(from.x))} ${top} ${round(mirror(from.x - bend))} ${top}`,
    `H${round(mirror(to.x + bend))}`,
    `Q${round(mirror(to.x))} ${top} ${round(mirror(to.x))} ${top + bend}`,
    `V${round(to.y)}`,
  ].join('');
  return {
    shape: 'across' as const, width, height: 316, radius, stations,
    channel: smooth(ends), loop,
    loopLabel: {x: mirror((from.x + to.x) / 2), y: top},
    arrow: `M${round(mirror(to.x - 7))} ${round(to.y - radius - 34)}l${mirror(0) === 0 ? 7 : -7} 8` +
      `l${mirror(0) === 0 ? 7 : -7} -8`,
    labelsAt: 0,
  };
}

function down(width: number, count: number, loopTo: number, mirror: (x: number) => number) {
  const radius = 34;
  const step = 108;
  const x = 96;
  const plain = Array.from({length: count}, (_, i) => ({
    x: x + (i % 2 === 0 ? -6 : 6), y: 56 + i * step,
  }));
  const stations = plain.map((p) => ({x: mirror(p.x), y: p.y}));
  const height = 56 + (count - 1) * step + 64;
  const ends = [{x: mirror(x), y: -30}, ...stations, {x: mirror(x), y: height + 30}];
  const from = plain[count - 1]!;
  const to = plain[loopTo]!;
  const side = 22;
  const bend = 24;
  const loop = [
    `M${round(mirror(from.x - radius))} ${from.y}`,
    `H${round(mirror(side + bend))}`,
    `Q${mirror(side)} ${from.y} ${mirror(side)} ${from.y - bend}`,
    `V${to.y + bend}`,
    `Q${mirror(side)} ${to.y} ${mirror(side + bend)} ${to.y}`,
    `H${round(mirror(to.x))}`,
  ].join('');
  return {
    shape: 'down' as const, width, height, radius, stations, channel: smooth(ends), loop,
    loopLabel: {x: mirror(side), y: (from.y + to.y) / 2},
    arrow: `M${mirror(side - 7)} ${round((from.y + to.y) / 2)}l${mirror(0) === 0 ? 7 : -7} -8` +
      `l${mirror(0) === 0 ? 7 : -7} 8`,
    labelsAt: mirror(x + radius + 28),
  };
}

// The part of the picture up to station `last`: how far the water has come. Whole at the last one,
// empty when `last` is -1.
export function reachOf(
  layout: WalkLayout, last: number, direction: 'ltr' | 'rtl',
): {x: number; y: number; width: number; height: number} {
  const {width, height, stations, shape} = layout;
  const at = stations[last];
  if (!at) return {x: 0, y: 0, width: 0, height: 0};
  if (last === stations.length - 1) return {x: 0, y: 0, width, height};
  if (shape === 'down') return {x: 0, y: 0, width, height: at.y};
  return direction === 'rtl' ? {x: at.x, y: 0, width: width - at.x, height} :
    {x: 0, y: 0, width: at.x, height};
}

// `direction` mirrors the picture: in a right-to-left page the water runs from right to left.
export function layOut(
  width: number, count: number, loopTo: number, direction: 'ltr' | 'rtl',
): WalkLayout {
  const mirror = (x: number) => direction === 'rtl' ? width - x : x;
  return width >= kAcrossMin ?
    across(width, count, loopTo, mirror) : down(width, count, loopTo, mirror);
}
