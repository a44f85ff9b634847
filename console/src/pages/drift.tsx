// Drift: per monitor, the windows over time and the histograms of the chosen one.

import {useState} from 'preact/hooks';

import {api} from '../api/client';
import type {DriftWindow, FeatureDrift, Monitor, PolicyStatus} from '../api/types';
import {formatCount, formatFixed, shortenNumbers} from '../format';
import {useWords} from '../i18n';
import {Ago, Chip, Code, DataTable, Empty, Failure, Figure, Loading} from '../parts/parts';
import {useResource} from '../resource';
import {Heat, featuresByDrift, scoreOf, type Cell} from './heat';
import {Histogram} from './histogram';
import type {PageProps} from './home';

const kColumnsMax = 30;

function Scale({monitor}: {monitor: Monitor}) {
  const {t} = useWords();
  return (
    <span class="scale">
      {t.drift.scaleCalm}
      {[0, 1, 2].map((level) => <i key={level} class={`level-${level}`} aria-hidden="true" />)}
      <b>{t.drift.threshold('')}<Code>{monitor.threshold}</Code></b>
      {[3, 4].map((level) => <i key={level} class={`level-${level}`} aria-hidden="true" />)}
      {t.drift.scaleFar}
    </span>
  );
}

function WindowTable({monitor, windows}: {monitor: Monitor; windows: DriftWindow[]}) {
  const {t} = useWords();
  return <DataTable caption={t.drift.over} rows={[...windows].reverse()}
    rowKey={(w) => String(w.id)} columns={[
      {head: t.columns.window, cell: (w) => <Code>{w.id}</Code>},
      {head: t.columns.version, cell: (w) => <Code>v{w.version}</Code>},
      {head: t.columns.requests, numeric: true, cell: (w) => formatCount(w.rows)},
      ...featuresByDrift(monitor).map((feature) => ({
        head: feature,
        numeric: true,
        cell: (w: DriftWindow) => {
          const found = w.drift.features.find((f) => f.feature === feature);
          return found ? formatFixed(scoreOf(monitor, found), 3) : '–';
        },
      })),
      {head: t.columns.time, cell: (w) => <Ago at={w.to} />},
    ]} />;
}

function Histograms({project, monitor, selected}: {
  project: string; monitor: Monitor; selected: Cell;
}) {
  const {t} = useWords();
  const {data, error} = useResource(`histograms ${project} ${monitor.name} ${selected.window}`, 0,
    (signal) => api.histograms(project, monitor.name, selected.window, signal));
  if (error) return <Failure error={error} />;
  if (!data) return <Loading />;
  // The chosen feature, then the others, worst first, each with the window's verdict on it.
  const rank = (drift: FeatureDrift) =>
    drift.feature === selected.feature ? Infinity : scoreOf(monitor, drift);
  const ordered = [...data.window.drift.features].sort((a, b) => rank(b) - rank(a));
  return (
    <>
      <p class="window-facts">
        <strong>{t.drift.window(data.window.id)}</strong>
        <span>{t.drift.rows(formatCount(data.window.rows))}</span>
        <span>{t.drift.model(data.window.version)}</span>
        <span><Ago at={data.window.to} /></span>
        {data.window.alarm && <Chip tone="clay">{t.drift.alarm}</Chip>}
        <span class="keys" aria-hidden="true"><i class="key bank" />{t.drift.reference}
          <i class="key water" />{t.drift.current}</span>
      </p>
      <div class="histograms">
        {ordered.map((drift) => {
          const histogram = data.features.find((h) => h.feature === drift.feature);
          return histogram && <Histogram key={drift.feature} histogram={histogram} drift={drift}
            score={scoreOf(monitor, drift)} chosen={drift.feature === selected.feature} />;
        })}
      </div>
    </>
  );
}

// What the newest window says, about the version that answered it. When another version serves
// since, the window is history and the next one will judge the new one.
function Verdict({monitor, newest, serving, policy}: {
  monitor: Monitor; newest: DriftWindow; serving: number; policy: PolicyStatus | undefined;
}) {
  const {t} = useWords();
  const moved = newest.drift.drifted > 0;
  const past = serving > 0 && serving !== newest.version;
  const text = moved ?
    t.drift.moved(newest.drift.worst_feature, formatFixed(newest.drift.worst, 3)) :
    t.drift.calm(monitor.name);
  const now = policy?.current?.action.reason ?? '';
  return (
    <div class={`verdict ${past ? 'past' : moved ? 'clay' : 'calm'}`} aria-live="polite">
      <p>{past ? t.drift.replaced(newest.version, serving) : text}</p>
      <ul class="plain">
        {past && <li>{moved ? t.drift.movedFor(newest.version, newest.drift.worst_feature,
          formatFixed(newest.drift.worst, 3)) : text}</li>}
        {now !== '' && <li data-testid="loop-now"><Code>{policy?.policy}</Code>{' '}
          <span dir="auto">{shortenNumbers(now)}</span></li>}
      </ul>
    </div>
  );
}

function MonitorView({project, monitor, serving, policy}: {
  project: string; monitor: Monitor; serving: number; policy: PolicyStatus | undefined;
}) {
  const {t} = useWords();
  const [chosen, setChosen] = useState<Cell>();
  const newest = monitor.windows[0];
  if (!newest) {
    return <Empty text={t.empty.windows}
      command={`falaj predict ${monitor.deployment} KEY=VALUE -p ${project}`} />;
  }
  const windows = monitor.windows.slice(0, kColumnsMax).reverse();
  const known = chosen && windows.some((w) => w.id === chosen.window) ? chosen : undefined;
  const selected = known ?? {feature: newest.drift.worst_feature, window: newest.id};
  return (
    <>
      <Verdict monitor={monitor} newest={newest} serving={serving} policy={policy} />
      <section class="panel">
        <Figure title={<h2>{t.drift.over}</h2>} note={<Scale monitor={monitor} />}
          chart={<>
            <p class="calm">{t.drift.overHelp}</p>
            <Heat monitor={monitor} windows={windows} selected={selected} onSelect={setChosen} />
          </>}
          table={() => <WindowTable monitor={monitor} windows={windows} />} />
      </section>
      <section class="panel">
        <header><h2>{t.drift.histograms}</h2></header>
        <p class="calm">{t.drift.histogramsHelp}</p>
        <Histograms project={project} monitor={monitor} selected={selected} />
      </section>
    </>
  );
}

export function Drift({project, overview, revision}: PageProps) {
  const {t} = useWords();
  const [name, setName] = useState('');
  const {data, error} = useResource(`monitors ${project}`, revision,
    (signal) => api.monitors(project, signal));
  const declared = useResource(`policies ${project}`, revision, async (signal) => {
    const [objects, states] = await Promise.all(
      [api.objects(project, 'Policy', signal), api.policies(project, signal)]);
    return {objects, states};
  }).data;
  const monitor = data?.find((m) => m.name === name) ?? data?.[0];
  const serving = overview?.deployments.find((d) => d.name === monitor?.deployment);
  const watching = declared?.objects.find((o) => o.spec['monitor'] === monitor?.name);
  const policy = declared?.states.find((p) => p.policy === watching?.metadata.name);
  return (
    <main id="content" tabIndex={-1} class="page">
      <div class="head"><h1>{t.drift.title}</h1><p class="lead">{t.drift.lead}</p></div>
      {data && data.length > 1 && (
        <label class="choose">{t.drift.monitor}
          <select value={monitor?.name} onChange={(e) => setName(e.currentTarget.value)}>
            {data.map((m) => <option key={m.name} value={m.name}>{m.name}</option>)}
          </select>
        </label>
      )}
      {error ? <Failure error={error} /> : !data ? <Loading /> : !monitor ?
        <Empty text={t.empty.monitors} command="falaj demo" /> :
        <MonitorView key={monitor.name} project={project} monitor={monitor} policy={policy}
          serving={serving?.version ?? 0} />}
    </main>
  );
}
