// One feature: the shares of the training set against those of the window, bin by bin.

import {useMemo} from 'preact/hooks';
import type uPlot from 'uplot';

import type {FeatureDrift, FeatureHistogram} from '../api/types';
import {binLabels, edgeLabel, formatCount, formatFixed, shares} from '../format';
import {useWords} from '../i18n';
import {Chart, type MakeOptions} from '../parts/chart';
import type {Colours} from '../parts/colours';
import {Chip, Code, DataTable, Figure} from '../parts/parts';

// Reference as banks (broad sand bars), current as water (narrow bars inside them); where a drifted
// feature overflows its bank, the overflow is clay.
function drawBars(colours: Colours, drifted: boolean) {
  return (plot: uPlot) => {
    const [, reference = [], current = []] = plot.data;
    const {ctx} = plot;
    const slot = plot.valToPos(1, 'x', true) - plot.valToPos(0, 'x', true);
    const y = (share: number | null | undefined) => plot.valToPos(share ?? 0, 'y', true);
    const bar = (i: number, width: number, top: number, bottom: number, colour: string) => {
      ctx.fillStyle = colour;
      const x = plot.valToPos(i, 'x', true) - slot * width / 2;
      ctx.fillRect(x, top, slot * width, Math.max(0, bottom - top));
    };
    ctx.save();
    for (let i = 0; i < reference.length; i++) {
      const bank = y(reference[i]);
      const water = y(current[i]);
      bar(i, 0.88, bank, y(0), colours.bank);
      bar(i, 0.88, bank - devicePixelRatio, bank + devicePixelRatio, colours['bank-line']);
      bar(i, 0.46, drifted ? Math.max(bank, water) : water, y(0), colours.current);
      if (drifted) bar(i, 0.46, water, bank, colours.clay);
    }
    ctx.restore();
  };
}

function edgeTicks(edges: number[], missing: string) {
  const last = edges.length;  // The open bin at the top end; one more is for missing values.
  return (_plot: uPlot, splits: number[]) => splits.map((i) => {
    if (!Number.isInteger(i) || i < 0 || i > last + 1) return '';
    return i === last + 1 ? missing : edgeLabel(edges, i);
  });
}

function percentTicks(_plot: uPlot, splits: number[]): string[] {
  const whole = splits.every((share) => Math.abs(share * 100 - Math.round(share * 100)) < 1e-6);
  return splits.map((share) => `${(share * 100).toFixed(whole ? 0 : 1)}%`);
}

// Where the axis is labelled: both ends and as many between as fit.
function labelled(bins: number, steps: number): number[] {
  const last = bins - 2;
  const count = Math.max(1, Math.min(steps, last));
  return Array.from({length: count + 1}, (_, i) => Math.round(i * last / count));
}

function optionsFor(
  histogram: FeatureHistogram, drifted: boolean, steps: number, missing: string,
): MakeOptions {
  const bins = histogram.reference.length;
  return (colours) => ({
    legend: {show: false},
    cursor: {show: false},
    padding: [8, 22, 0, 0],
    scales: {
      x: {time: false, range: () => [-0.6, bins - 0.4]},
      y: {range: (_plot, _min, max) => [0, Math.max(max * 1.1, 0.01)]},
    },
    axes: [
      {
        stroke: colours.muted, grid: {show: false}, ticks: {show: false}, size: 26,
        splits: () => labelled(bins, steps),
        values: edgeTicks(histogram.edges, missing),
      },
      {
        stroke: colours.muted, grid: {stroke: colours.line, width: 1}, ticks: {show: false},
        size: 44, space: 30, values: percentTicks,
      },
    ],
    series: [
      {}, {paths: () => null, points: {show: false}}, {paths: () => null, points: {show: false}},
    ],
    hooks: {draw: [drawBars(colours, drifted)]},
  });
}

export function Histogram({histogram, drift, score, chosen}: {
  histogram: FeatureHistogram; drift: FeatureDrift; score: number; chosen: boolean;
}) {
  const {t} = useWords();
  const {feature, edges, reference, current} = histogram;
  const {drifted} = drift;
  const data = useMemo<uPlot.AlignedData>(() =>
    [reference.map((_, i) => i), shares(reference), shares(current)], [histogram]);
  const labels = binLabels(edges, t.drift.missing);
  const steps = chosen && innerWidth > 700 ? 9 : 2;
  const verdict = drifted ? t.drift.drifted : t.drift.within;
  return (
    <div class={`histogram ${chosen ? 'chosen' : ''}`} data-feature={feature}>
      <Figure
        title={<Code>{feature}</Code>}
        note={<Chip tone={drifted ? 'clay' : 'water'}>
          <Code>{formatFixed(score, 3)}</Code>{drifted ? ` ${verdict}` : ''}</Chip>}
        chart={<Chart label={`${feature}: ${formatFixed(score, 3)}, ${verdict}`}
          height={chosen ? 240 : 168} data={data}
          options={optionsFor(histogram, drifted, steps, t.drift.missing)}
          optionsKey={`${feature} ${edges.length} ${drifted} ${steps} ${t.drift.missing}`} />}
        table={() => <DataTable caption={feature} rows={labels.map((label, i) => ({label, i}))}
          rowKey={(r) => r.label} columns={[
            {head: t.columns.bin, cell: (r) => <Code>{r.label}</Code>},
            {head: t.columns.reference, numeric: true, cell: (r) => formatCount(reference[r.i] ?? 0)},
            {head: t.columns.current, numeric: true, cell: (r) => formatCount(current[r.i] ?? 0)},
          ]} />} />
    </div>
  );
}
