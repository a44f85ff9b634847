// The front door: the walk, what is under way, and what just happened.

import type {ComponentChildren} from 'preact';
import {useState} from 'preact/hooks';

import {api} from '../api/client';
import type {AuditEntry, Emergency, Head, Overview, PolicySnapshot, PolicyStatus}
  from '../api/types';
import {formatCount, formatFixed, formatPercent, shortHash, shortenNumbers} from '../format';
import {useWords} from '../i18n';
import {Ago, Chip, Code, Command, DataTable, Empty, Failure, Hash, Loading, Progress}
  from '../parts/parts';
import {useResource} from '../resource';
import {useMay} from '../rights';
import {hrefOf} from '../router';
import {headlineOf} from '../walk/headline';
import {Walk} from '../walk/walk';
import {Profile} from './profile';

export interface PageProps {
  project: string;
  show: string;
  overview: Overview | undefined;
  revision: number;
}

function Panel({title, children, aside}: {
  title: string; children: ComponentChildren; aside?: ComponentChildren;
}) {
  return (
    <section class="panel">
      <header><h2>{title}</h2>{aside}</header>
      {children}
    </section>
  );
}

function Sources({project, revision}: {project: string; revision: number}) {
  const {t} = useWords();
  const {data, error} = useResource(`sources ${project}`, revision,
    (signal) => api.objects(project, 'Source', signal));
  if (error) return <Failure error={error} />;
  if (!data) return <Loading />;
  if (data.length === 0) return <Empty text={t.empty.sources} command="falaj apply -f source.yaml" />;
  return <DataTable caption={t.stations.sources} rows={data} rowKey={(o) => o.metadata.name}
    columns={[
      {head: t.columns.name, cell: (o) => <Code>{o.metadata.name}</Code>},
      {head: t.columns.format, cell: (o) => <Code>{String(o.spec['format'] ?? '–')}</Code>},
      {head: t.columns.path, cell: (o) => <Code>{String(o.spec['path'] ?? '–')}</Code>},
      {head: t.columns.eventTime, cell: (o) => <Code>{String(o.spec['event_time'] ?? '–')}</Code>},
    ]} />;
}

function Views({project, revision}: {project: string; revision: number}) {
  const {t} = useWords();
  const may = useMay();
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const {data, error} = useResource(`views ${project}`, revision,
    (signal) => api.featureViews(project, signal));
  if (error) return <Failure error={error} />;
  if (!data) return <Loading />;
  if (data.length === 0) {
    return <Empty text={t.empty.feature_views} command="falaj apply -f feature_view.yaml" />;
  }
  return <><DataTable caption={t.stations.feature_views} rows={data} rowKey={(v) => v.view}
    columns={[
      {head: t.columns.view, cell: (v) => <Code>{v.view}</Code>},
      {head: t.columns.rows, cell: (v) => formatCount(v.rows), numeric: true},
      {head: t.columns.quarantined, cell: (v) => formatCount(v.quarantined), numeric: true},
      {head: t.columns.onlineKeys, cell: (v) => formatCount(v.keys_online), numeric: true},
      {head: t.columns.segments, cell: (v) => formatCount(v.segments), numeric: true},
      {head: t.columns.newest, cell: (v) => <Ago at={v.newest_event} />},
    ]} />
    {may('data.read', project) && data.filter((v) => v.rows > 0).map((v) => (
      <details key={v.view} class="profile-of" onToggle={(event) => {
        if (event.currentTarget.open) setOpened((names) => new Set(names).add(v.view));
      }}>
        <summary>{t.profile.title} <Code>{v.view}</Code></summary>
        {opened.has(v.view) && <Profile project={project} view={v.view} revision={revision} />}
      </details>))}
  </>;
}

function Sets({project, revision}: {project: string; revision: number}) {
  const {t} = useWords();
  const {data, error} = useResource(`sets ${project}`, revision,
    (signal) => api.trainingSets(project, signal));
  if (error) return <Failure error={error} />;
  if (!data) return <Loading />;
  if (data.length === 0) return <Empty text={t.empty.training_sets} />;
  return <DataTable caption={t.stations.training_sets} rows={data} rowKey={(s) => s.id}
    columns={[
      {head: t.columns.set, cell: (s) => <Code>{s.name}</Code>},
      {head: t.columns.id, cell: (s) => <Hash value={s.id} />},
      {head: t.columns.rows, cell: (s) => formatCount(s.rows), numeric: true},
      {head: t.columns.validRows, cell: (s) => formatCount(s.rows_valid), numeric: true},
      {head: t.columns.service, cell: (s) => <Code>{s.service}</Code>},
      {head: t.columns.frozen, cell: (s) => <Ago at={s.frozen_at} />},
    ]} />;
}

function producedBy(outputs: unknown): string {
  const model = (outputs as {model?: {name?: string; version?: number}} | null)?.model;
  return model?.name ? `${model.name} v${model.version}` : '–';
}

function Runs({project, revision}: {project: string; revision: number}) {
  const {t} = useWords();
  const {data, error} = useResource(`runs ${project}`, revision,
    (signal) => api.runs(project, signal));
  if (error) return <Failure error={error} />;
  if (!data) return <Loading />;
  if (data.length === 0) return <Empty text={t.empty.runs} command="falaj train JOB" />;
  return <DataTable caption={t.stations.runs} rows={data} rowKey={(r) => r.id}
    columns={[
      {head: t.columns.run, cell: (r) => <Hash value={r.id} />},
      {head: t.columns.job, cell: (r) => <Code>{r.experiment}</Code>},
      {head: t.columns.status, cell: (r) => (
        <Chip tone={r.status === 'failed' ? 'clay' : r.status === 'finished' ? 'water' : 'sand'}>
          {t.runStatus[r.status] ?? r.status}
        </Chip>)},
      {head: t.columns.metric, cell: (r) => Object.entries(r.metrics ?? {}).slice(0, 2).map(
        ([name, value]) => <Code key={name}>{`${name} ${formatFixed(value, 4)} `}</Code>)},
      {head: t.columns.produced, cell: (r) => <Code>{producedBy(r.outputs)}</Code>},
      {head: t.columns.started, cell: (r) => <Ago at={r.started_at ?? r.created_at} />},
    ]} />;
}

const kShown = {sources: Sources, feature_views: Views, training_sets: Sets, runs: Runs};

function StationContents({project, show, revision}: {
  project: string; show: string; revision: number;
}) {
  const {t} = useWords();
  if (!(show in kShown)) return null;
  const id = show as keyof typeof kShown;
  const Contents = kShown[id];
  return (
    <Panel title={t.stations[id]}
      aside={<a class="quiet" href={hrefOf({page: 'home', project})}>{t.close}</a>}>
      <Contents project={project} revision={revision} />
    </Panel>
  );
}

function UnderWay({overview, project, revision}: {
  overview: Overview; project: string; revision: number;
}) {
  const {t} = useWords();
  const may = useMay();
  const jobs = useResource(`jobs ${project}`, revision,
    (signal) => api.objects(project, 'TrainJob', signal)).data;
  if (overview.running.length === 0) {
    const job = jobs?.[0]?.metadata.name;
    if (job === undefined) return <p class="calm">{t.home.idleWithoutJob}</p>;
    if (!may('training.run', project)) return <p class="calm">{t.home.idleNotYours}</p>;
    return <div class="calm"><p>{t.home.idle}</p>
      <Command>{`falaj train ${job} -p ${project}`}</Command></div>;
  }
  return (
    <ul class="plain running">
      {overview.running.map((run) => (
        <li key={run.run}>
          <div><Code>{run.experiment}</Code> <Hash value={run.run} />
            <span class="number">{formatPercent(run.progress)}</span></div>
          <Progress share={run.progress} label={`${run.experiment} ${formatPercent(run.progress)}`} />
        </li>
      ))}
    </ul>
  );
}

const kPhases = ['watching', 'training', 'evaluating'];

// The two versions that met at the gate, as two bars of one scale.
function Gate({snapshot}: {snapshot: PolicySnapshot}) {
  const {t} = useWords();
  const sides: [number, number, string][] = [
    [snapshot.champion_version, snapshot.champion_auc, 'before'],
    [snapshot.candidate_version, snapshot.candidate_auc, 'after'],
  ];
  return (
    <div class="gate">
      <p class="calm">{t.home.gate(formatCount(snapshot.gate_rows))}</p>
      {sides.map(([version, auc, side]) => (
        <div key={side} class={side}>
          <Code>v{version}</Code>
          <meter min={0} max={1} value={auc} aria-label={`v${version} AUC`} />
          <strong dir="ltr">{formatFixed(auc, 3)}</strong>
        </div>
      ))}
    </div>
  );
}

function LoopState({policy}: {policy: PolicyStatus}) {
  const {t} = useWords();
  const {current, last_action: last, snapshot} = policy;
  const decided = last.kind !== 'none';
  return (
    <>
      <ol class="phases">
        {kPhases.map((phase) => (
          <li key={phase} aria-current={phase === policy.phase ? 'step' : undefined}>
            {t.home.loopPhase[phase]}</li>))}
      </ol>
      <dl class="loop-facts">
        {current && current.action.reason !== '' && (
          <div data-testid="loop-now"><dt>{t.home.loopWaits}</dt>
            <dd dir="auto">{shortenNumbers(current.action.reason)}</dd></div>)}
        {decided && (
          <div><dt>{t.home.loopDid}</dt>
            <dd><Chip tone={last.kind === 'keep' ? 'sand' : 'water'}>
              {t.home.loopAction[last.kind] ?? last.kind}</Chip>
            {!snapshot?.evaluated && <p dir="auto">{shortenNumbers(last.reason)}</p>}
            </dd></div>)}
      </dl>
      {decided && snapshot?.evaluated && <Gate snapshot={snapshot} />}
    </>
  );
}

function Loop({policies}: {policies: PolicyStatus[]}) {
  const {t} = useWords();
  if (policies.length === 0) return <p class="calm">{t.home.loopIdle}</p>;
  return (
    <ul class="plain">
      {policies.map((policy) => (
        <li key={policy.policy} class="policy">
          {policies.length > 1 && <Code>{policy.policy}</Code>}
          <LoopState policy={policy} />
        </li>
      ))}
    </ul>
  );
}

function Activity({entries}: {entries: AuditEntry[]}) {
  const {t} = useWords();
  if (entries.length === 0) return <p class="calm">{t.home.noActivity}</p>;
  return (
    <ol class="plain activity">
      {entries.map((entry) => (
        <li key={entry.sequence}>
          <span class={`drop ${entry.action.startsWith('loop.') ? 'deep' : ''}`} aria-hidden="true" />
          <Code>{entry.action}</Code>
          <span class="object"><Code title={entry.object}>{entry.object}</Code></span>
          <span class="when"><Ago at={entry.at} /></span>
        </li>
      ))}
    </ol>
  );
}

function Dry() {
  const {t} = useWords();
  return (
    <section class="teach">
      <p>{t.home.dryHelp}</p>
      <Command>falaj demo</Command>
      <p>{t.home.dryOr}</p>
      <Command>falaj apply -f objects.yaml</Command>
    </section>
  );
}

function Ledger({head, project}: {head: Head; project: string}) {
  const {t} = useWords();
  return (
    <p class="ledger">
      <a href={hrefOf({page: 'audit', project})}>
        {t.home.ledger(head.sequence, formatCount(head.sequence))}{' '}
        <Code title={head.hash}>{shortHash(head.hash) || '–'}</Code>
      </a>
    </p>
  );
}

// Until somebody else has seen to it.
function Emergencies({project, revision}: {project: string; revision: number}) {
  const {t} = useWords();
  const may = useMay();
  const [closed, setClosed] = useState<number[]>([]);
  const [error, setError] = useState<Error>();
  const open = (useResource(`emergencies ${project}`, revision,
    (signal) => api.alarms(project, signal)).data ?? [])
    .filter((alarm): alarm is Emergency => alarm.kind === 'break-glass' && alarm.open)
    .filter((alarm) => !closed.includes(alarm.id));
  if (open.length === 0) return null;
  const close = (id: number) => {
    api.closeEmergency(id).then(() => setClosed((old) => [...old, id]), setError);
  };
  return (
    <Panel title={t.home.emergencies}>
      <ul class="plain emergencies" data-testid="emergencies">
        {open.map((alarm) => (
          <li key={alarm.id}>
            <Chip tone="clay">{t.home.uses(alarm.uses)}</Chip>{' '}
            <Code>{alarm.principal}</Code> <Code>{alarm.action}</Code>{' '}
            <span class="when"><Ago at={alarm.at} /></span>{' '}
            {may('access.write', alarm.project === '' ? undefined : alarm.project) &&
              <button type="button" onClick={() => close(alarm.id)}>
                {t.home.emergencyClose}</button>}
          </li>
        ))}
      </ul>
      {error && <Failure error={error} />}
    </Panel>
  );
}

function RecentActivity({project, revision}: {project: string; revision: number}) {
  const {t} = useWords();
  const may = useMay();
  const everything = may('audit.read');
  const activity = useResource(`activity ${everything ? '' : project}`, revision, (signal) =>
    api.audit({limit: 11, ...(everything ? {} : {project})}, signal));
  return (
    <Panel title={t.home.activity}
      aside={<a class="quiet" href={hrefOf({page: 'audit', project})}>{t.home.allActivity}</a>}>
      {activity.error ? <Failure error={activity.error} /> :
        <Activity entries={activity.data?.entries ?? []} />}
    </Panel>
  );
}

export function Home({project, show, overview, revision}: PageProps) {
  const {t} = useWords();
  const policies = useResource(`policies ${project}`, revision,
    (signal) => api.policies(project, signal)).data ?? [];
  const may = useMay();
  const monitors = useResource(`monitors ${project}`, revision,
    (signal) => api.monitors(project, signal)).data ?? [];
  if (!overview) return <main id="content" tabIndex={-1} class="page"><Loading /></main>;
  const drifted = monitors.flatMap((m) => m.windows.slice(0, 1))
    .find((w) => w.drift.drifted > 0)?.drift.worst_feature ?? '';
  const headline = headlineOf(overview, policies, drifted, t);
  const busy = policies.find((p) => p.phase !== 'watching');
  const running = overview.running.length > 0;
  // What moves stands first; at rest it only says how to begin.
  const underWay = <Panel title={t.home.now}>
    <UnderWay overview={overview} project={project} revision={revision} /></Panel>;
  const looped = policies.some((p) => p.last_action.kind !== 'none');
  return (
    <main id="content" tabIndex={-1}>
      <div class="page head">
        <h1 class="headline" data-tone={headline.tone} aria-live="polite">{headline.text}</h1>
        {headline.reason !== '' && <p class="lead" dir="auto">{headline.reason}</p>}
      </div>
      <Walk overview={overview} project={project} shown={show}
        loopNote={busy ? t.home.loopPhase[busy.phase] ?? busy.phase : t.home.loop}
        loopFlows={looped || busy !== undefined} />
      <div class="page">
        {headline.tone === 'dry' && overview.counts.sources === 0 &&
          may('objects.write', project) && <Dry />}
        <StationContents project={project} show={show} revision={revision} />
        <Emergencies project={project} revision={revision} />
        {overview.head && <Ledger head={overview.head} project={project} />}
        <div class={may('audit.read', project) ? 'two' : ''}>
          <div>
            {running && underWay}
            <Panel title={t.home.loopTitle}
              aside={policies.length === 1 && <Code>{policies[0]?.policy}</Code>}>
              <Loop policies={policies} /></Panel>
            {!running && underWay}
          </div>
          {may('audit.read', project) && <RecentActivity project={project} revision={revision} />}
        </div>
      </div>
    </main>
  );
}
