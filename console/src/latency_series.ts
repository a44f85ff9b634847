// A deployment's samples as lines for the chart. Pure.

import type {LatencyPoint} from './api/types';

// Samples come about once a second; a longer silence is a gap in the line, not a slope.
const kSilenceMs = 2500;

export interface LatencySeries {
  seconds: number[];
  p50: (number | null)[];
  p99: (number | null)[];
}

// A second without a request has no latency: it is left out, as is the time between two bursts.
export function latencySeries(points: LatencyPoint[]): LatencySeries {
  const series: LatencySeries = {seconds: [], p50: [], p99: []};
  const add = (t: number, p50: number | null, p99: number | null) => {
    series.seconds.push(t / 1000);
    series.p50.push(p50);
    series.p99.push(p99);
  };
  let before: number | undefined;
  for (const point of points) {
    if (point.rps === 0) continue;
    if (before !== undefined && point.t - before > kSilenceMs) add(before + 1, null, null);
    add(point.t, point.p50_ms, point.p99_ms);
    before = point.t;
  }
  return series;
}
