// One deployment: what answers, how fast, and a box to ask it.

import {useMemo} from 'preact/hooks';
import type uPlot from 'uplot';

import type {Deployment, LatencyPoint} from '../api/types';
import {formatClock, formatFixed, formatMs, formatShort} from '../format';
import {useWords} from '../i18n';
import type {KeyField} from '../key_fields';
import {latencySeries} from '../latency_series';
import {Chart, type MakeOptions} from '../parts/chart';
import {Chip, Code, Command, DataTable, Figure, useAgo} from '../parts/parts';
import {useMay} from '../rights';
import {TryIt} from './try_it';

const kSpark: MakeOptions = (colours) => ({
  legend: {show: false},
  cursor: {show: false},
  padding: [6, 8, 0, 0],
  scales: {
    x: {time: true, range: around},
    y: {range: (_plot, _min, max) => [0, Math.max(max * 1.15, 0.001)]},
  },
  axes: [
    {
      stroke: colours.muted, grid: {show: false}, ticks: {show: false}, size: 24, space: 90,
      values: (_plot, splits) => splits.map((s) => formatClock(s * 1000, 'en')),
    },
    {
      stroke: colours.muted, grid: {stroke: colours.line, width: 1}, ticks: {show: false},
      size: 62, space: 34, values: (_plot, splits) => splits.map((ms) => formatMs(ms)),
    },
  ],
  series: [
    {},
    {label: 'p50', stroke: colours.water, width: 2.5, fill: fade(colours.water),
      points: {show: true, size: 6, fill: colours.water}},
    {label: 'p99', stroke: colours.amber, width: 1.5, dash: [5, 4],
      points: {show: true, size: 5, fill: colours.amber}},
  ],
});

// One burst may be a single sample: it still stands in the middle of a span of time.
function around(_plot: uPlot, min: number, max: number): [number, number] {
  const room = Math.max(1, (max - min) * 0.04);
  return [min - room, max + room];
}

function fade(colour: string): string {
  return colour.replace(/^rgb\((.*)\)$/, 'rgba($1, 0.16)');
}

function Latency({points, command}: {points: LatencyPoint[]; command: string}) {
  const {t, lang} = useWords();
  const series = useMemo(() => latencySeries(points), [points]);
  const data = useMemo<uPlot.AlignedData>(
    () => [series.seconds, series.p50, series.p99], [series]);
  if (series.seconds.length === 0) {
    return (
      <div class="calm quiet-channel">
        <svg viewBox="0 0 400 90" preserveAspectRatio="none" aria-hidden="true">
          <path d="M0 60H400" />
        </svg>
        <p>{t.models.quiet}</p>
        {command !== '' && <Command>{command}</Command>}
      </div>
    );
  }
  const last = series.seconds.length - 1;
  const label = `${t.models.latency}: ${t.models.median} ${formatMs(series.p50[last] ?? 0)}, ` +
    `${t.models.p99} ${formatMs(series.p99[last] ?? 0)}`;
  return (
    <Figure title={t.models.latency}
      note={<span class="keys" aria-hidden="true">
        <i class="key line" />{t.columns.p50}<i class="key dashes" />{t.columns.p99}</span>}
      chart={<Chart label={label} height={216} data={data} options={kSpark} optionsKey="spark" />}
      table={() => <DataTable caption={t.models.latency} rows={[...points].reverse()}
        rowKey={(p) => String(p.t)} columns={[
          {head: t.columns.time, cell: (p) => <Code>{formatClock(p.t, lang)}</Code>},
          {head: t.columns.p50, numeric: true, cell: (p) => <Code>{formatMs(p.p50_ms)}</Code>},
          {head: t.columns.p99, numeric: true, cell: (p) => <Code>{formatMs(p.p99_ms)}</Code>},
          {head: t.columns.rps, numeric: true, cell: (p) => formatFixed(p.rps, 1)},
        ]} />} />
  );
}

function askCommand(deployment: Deployment, fields: KeyField[]): string {
  const keys = fields.map((f) => `${f.name}=${f.type === 'int64' ? '7' : 'VALUE'}`).join(' ');
  return `falaj predict ${deployment.name} ${keys || 'KEY=VALUE'} -p ${deployment.project}`;
}

function Since({at}: {at: string | null}) {
  const {t} = useWords();
  return <>{t.models.since(useAgo(at))}</>;
}

export function DeploymentCard({deployment, points, fields}: {
  deployment: Deployment; points: LatencyPoint[]; fields: KeyField[];
}) {
  const {t} = useWords();
  const asks = useMay()('serving.predict', deployment.project);
  const tone = deployment.state === 'ready' ? 'water' :
    deployment.state === 'failed' ? 'clay' : 'sand';
  const figures: [string, string][] = [
    [t.models.requests, formatShort(deployment.requests)],
    [t.models.errors, formatShort(deployment.errors)],
    [t.models.median, deployment.requests > 0 ? formatMs(deployment.p50_ms) : '–'],
    [t.models.p99, deployment.requests > 0 ? formatMs(deployment.p99_ms) : '–'],
  ];
  return (
    <article class="panel deployment" data-deployment={deployment.name}>
      <header>
        <h3><Code>{deployment.name}</Code></h3>
        <Chip tone={tone}>{t.models.state[deployment.state] ?? deployment.state}</Chip>
        <span class="serves">
          {deployment.version > 0 ?
            <Code>{t.models.serves(deployment.model, deployment.version)}</Code> :
            t.models.nothing}
          {deployment.version > 0 && <small><Since at={deployment.since} /></small>}
        </span>
      </header>
      {deployment.error !== '' && <p class="fault" dir="auto">{deployment.error}</p>}
      <div class={asks ? 'two wide-start' : ''}>
        <div>
          <dl class="figures">
            {figures.map(([name, value]) =>
              <div key={name}><dt>{name}</dt><dd dir="ltr">{value}</dd></div>)}
          </dl>
          <Latency points={points} command={asks ? askCommand(deployment, fields) : ''} />
        </div>
        {asks && <TryIt deployment={deployment} fields={fields} />}
      </div>
    </article>
  );
}
