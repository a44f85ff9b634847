// Drift over time: one row per feature, one column per window. A grid that the arrow keys walk.

import {useEffect, useRef} from 'preact/hooks';

import type {DriftWindow, Monitor} from '../api/types';
import {driftLevel} from '../drift_scale';
import {formatFixed} from '../format';
import {useWords} from '../i18n';
import {Code} from '../parts/parts';

export interface Cell {
  feature: string;
  window: number;
}

export function scoreOf(monitor: Monitor, drift: {psi: number; js: number}): number {
  return monitor.method === 'js' ? drift.js : drift.psi;
}

// Worst first, by the highest score in any window: what mattered is on top.
export function featuresByDrift(monitor: Monitor): string[] {
  const worst = new Map<string, number>();
  for (const drift of monitor.windows.flatMap((w) => w.drift.features)) {
    worst.set(drift.feature, Math.max(worst.get(drift.feature) ?? 0, scoreOf(monitor, drift)));
  }
  return [...worst].sort((a, b) => b[1] - a[1]).map(([feature]) => feature);
}

function moveOf(key: string, mirrored: boolean): [number, number] | undefined {
  const forward = mirrored ? -1 : 1;
  switch (key) {
    case 'ArrowRight': return [0, forward];
    case 'ArrowLeft': return [0, -forward];
    case 'ArrowDown': return [1, 0];
    case 'ArrowUp': return [-1, 0];
    default: return undefined;
  }
}

// Runs of windows that one version answered, oldest first.
function byVersion(windows: DriftWindow[]): {version: number; count: number}[] {
  const runs: {version: number; count: number}[] = [];
  for (const {version} of windows) {
    const last = runs[runs.length - 1];
    if (last?.version === version) last.count++;
    else runs.push({version, count: 1});
  }
  return runs;
}

// More columns than these leave no room for figures.
const kFiguresMax = 14;

function clamp(value: number, last: number): number {
  return Math.min(last, Math.max(0, value));
}

export function Heat({monitor, windows, selected, onSelect}: {
  monitor: Monitor; windows: DriftWindow[]; selected: Cell; onSelect: (cell: Cell) => void;
}) {
  const {t, lang} = useWords();
  const grid = useRef<HTMLTableElement>(null);
  // On a narrow screen the newest window is what one came for.
  useEffect(() => {
    const box = grid.current?.parentElement;
    if (box) box.scrollLeft = lang === 'ar' ? -box.scrollWidth : box.scrollWidth;
  }, [lang]);
  const features = featuresByDrift(monitor);
  const row = Math.max(0, features.indexOf(selected.feature));
  const figures = windows.length <= kFiguresMax;
  const column = Math.max(0, windows.findIndex((w) => w.id === selected.window));

  const onKeyDown = (event: KeyboardEvent) => {
    const move = moveOf(event.key, lang === 'ar');
    if (!move) return;
    event.preventDefault();
    const feature = features[clamp(row + move[0], features.length - 1)];
    const window = windows[clamp(column + move[1], windows.length - 1)];
    if (feature === undefined || !window) return;
    onSelect({feature, window: window.id});
    const id = `${feature} ${window.id}`;
    grid.current?.querySelector<HTMLElement>(`[data-cell="${CSS.escape(id)}"]`)?.focus();
  };

  return (
    <div class="scroll">
      <table class={`heat ${figures ? 'figures-in' : ''}`} role="grid" ref={grid}
        onKeyDown={onKeyDown} aria-label={t.drift.over}
        style={{maxInlineSize: `${14 + windows.length * 7}rem`}}>
        <thead><tr role="row" class="answered">
          <td />
          {byVersion(windows).map(({version, count}, i) => (
            <th key={i} scope="colgroup" colSpan={count}>
              <span>{t.drift.model(version)}</span></th>))}
        </tr><tr role="row">
          <td />
          {windows.map((w) => (
            <th key={w.id} scope="col"
              class={`${w.alarm ? 'alarm' : ''} ${w.id === selected.window ? 'here' : ''}`}
              title={w.alarm ? t.drift.alarm : ''}><Code>{w.id}</Code></th>))}
        </tr></thead>
        <tbody>{features.map((feature) => (
          <tr key={feature} role="row">
            <th scope="row"><Code>{feature}</Code></th>
            {windows.map((w) => {
              const found = w.drift.features.find((f) => f.feature === feature);
              const score = found ? scoreOf(monitor, found) : NaN;
              const text = formatFixed(score, 3);
              const here = w.id === selected.window;
              const exact = here && feature === selected.feature;
              return (
                <td key={w.id} role="gridcell" data-cell={`${feature} ${w.id}`}
                  class={`level-${driftLevel(score, monitor.threshold)} ${here ? 'here' : ''}`}
                  tabIndex={exact ? 0 : -1} aria-selected={exact}
                  aria-label={t.drift.cell(feature, w.id, text)} title={text}
                  onClick={() => onSelect({feature, window: w.id})}>
                  {figures && <span dir="ltr">{formatFixed(score, 2)}</span>}</td>
              );
            })}
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}
