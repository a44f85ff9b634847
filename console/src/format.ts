// Numbers and times for people. Digits are Latin in both languages: figures are compared across
// screens, logs and papers.

import type {Language} from './settings';

const kTimeLocale: Record<Language, string> = {en: 'en-GB', ar: 'ar-u-nu-latn'};

const kCount = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const kShort = new Intl.NumberFormat('en', {notation: 'compact', maximumFractionDigits: 1});

export function formatCount(value: number): string {
  return kCount.format(value);
}

// 1234567 → "1.2M": for places where the size matters and the digits do not.
export function formatShort(value: number): string {
  return Math.abs(value) < 10_000 ? formatCount(value) : kShort.format(value);
}

export function formatFixed(value: number, digits: number): string {
  return Number.isFinite(value) ? value.toFixed(digits) : '–';
}

export function formatPercent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
}

// A latency: three significant digits, unit chosen so that the number is between 1 and 1000.
export function formatMs(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  if (ms === 0) return '0 ms';
  if (ms < 1) return `${trim(ms * 1000)} µs`;
  if (ms < 1000) return `${trim(ms)} ms`;
  return `${trim(ms / 1000)} s`;
}

function trim(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

// A feature's value: short, never in a form that hides its size.
export function formatValue(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2);
  return String(Number(value.toPrecision(5)));
}

// For a tick of an axis, where the place is small: three digits.
export function formatTick(value: number): string {
  return formatValue(Number(value.toPrecision(3)));
}

// The platform's own words with its long fractions cut to three digits; the audit keeps them all.
export function shortenNumbers(text: string): string {
  return text.replace(/\d+\.\d{4,}(?![\d.])/g, (number) => {
    const whole = number.indexOf('.');
    return String(Number(Number(number).toPrecision(Math.max(3, whole + 1))));
  });
}

export function formatTime(iso: string, language: Language): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return '–';
  return new Intl.DateTimeFormat(kTimeLocale[language], {
    day: 'numeric', month: 'short', year: 'numeric',
    hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false,
  }).format(time);
}

export function formatClock(ms: number, language: Language): string {
  return new Intl.DateTimeFormat(kTimeLocale[language], {
    hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false,
  }).format(ms);
}

const kSteps: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_557_600], ['month', 2_629_800], ['day', 86_400], ['hour', 3600], ['minute', 60],
];

export function formatAgo(iso: string, nowMs: number, language: Language): string {
  const then = Date.parse(iso);
  if (Number.isNaN(then)) return '–';
  const seconds = (then - nowMs) / 1000;
  const format = new Intl.RelativeTimeFormat(kTimeLocale[language], {numeric: 'auto'});
  for (const [unit, size] of kSteps) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  return format.format(Math.min(0, Math.trunc(seconds)), 'second');
}

export function shortHash(hash: string): string {
  return hash.length > 12 ? hash.slice(0, 12) : hash;
}

// Under the first subnormal float a value is zero to a person: an edge just below zero stands for
// "under 0", and the bin from there to 0 holds zeros only.
function isJustUnderZero(edge: number | undefined): boolean {
  return edge !== undefined && edge < 0 && edge > -1e-30;
}

// What ends bin `i` of those that `edges` cut, for an axis.
export function edgeLabel(edges: number[], i: number): string {
  const last = edges.length - 1;
  if (i > last) return `> ${formatTick(edges[last] ?? 0)}`;
  return isJustUnderZero(edges[i]) ? '< 0' : `≤ ${formatTick(edges[i] ?? 0)}`;
}

// "(3.5, 7]" for each bin of a histogram, then the bin of missing values under its own name.
export function binLabels(edges: number[], missing: string): string[] {
  const labels: string[] = [];
  for (let i = 0; i <= edges.length; i++) {
    if (isJustUnderZero(edges[i])) {
      labels.push(i === 0 ? '(−∞, 0)' : `(${formatValue(edges[i - 1] as number)}, 0)`);
      continue;
    }
    if (isJustUnderZero(edges[i - 1])) {
      const high = edges[i];
      labels.push(high === undefined ? '[0, ∞)' : high === 0 ? '0' : `[0, ${formatValue(high)}]`);
      continue;
    }
    const low = i === 0 ? '−∞' : formatValue(edges[i - 1] as number);
    const high = i === edges.length ? '∞' : formatValue(edges[i] as number);
    labels.push(`(${low}, ${high}${i === edges.length ? ')' : ']'}`);
  }
  labels.push(missing);
  return labels;
}

export function shares(counts: number[]): number[] {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return counts.map((count) => total === 0 ? 0 : count / total);
}
