// How a drift score is named and coloured. The step is decided by the monitor's own threshold, so
// that a colour never contradicts an alarm.

export type DriftLevel = 0 | 1 | 2 | 3 | 4;

// 0 calm (under a quarter of the threshold), 1 slight, 2 near, 3 drifted, 4 far (over three times).
export function driftLevel(score: number, threshold: number): DriftLevel {
  if (!(threshold > 0) || !Number.isFinite(score)) return 0;
  const ratio = score / threshold;
  if (ratio > 3) return 4;
  if (ratio > 1) return 3;
  if (ratio > 0.5) return 2;
  if (ratio > 0.25) return 1;
  return 0;
}
