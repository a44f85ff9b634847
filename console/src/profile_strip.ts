// Where values stand on the strip of a profile. Pure.

// Times are numbers too: milliseconds.
export function numberOf(value: number | string | null | undefined): number | undefined {
  if (typeof value === 'number') return value;
  const time = typeof value === 'string' ? Date.parse(value) : NaN;
  return Number.isNaN(time) ? undefined : time;
}

// Where a value stands on a strip from `from` to `to`, from 0 to 1.
export function along(value: number | undefined, from: number, to: number): number | undefined {
  if (value === undefined || !(to > from)) return undefined;
  return Math.min(1, Math.max(0, (value - from) / (to - from)));
}
