// Models and deployments: versions with their proof, aliases, and what serves.

import {api} from '../api/client';
import type {AuditEntry, Model, ModelVersion} from '../api/types';
import {formatCount, formatFixed, shortenNumbers} from '../format';
import {useWords} from '../i18n';
import {keyFields} from '../key_fields';
import {Ago, Chip, Code, Empty, Failure, Loading} from '../parts/parts';
import {useResource} from '../resource';
import {useMay} from '../rights';
import {DeploymentCard} from './deployments';
import type {PageProps} from './home';

function Proof({proof}: {proof: ModelVersion['proof']}) {
  const {t} = useWords();
  if (proof?.rows === undefined) return <Chip tone="sand">{t.models.unproven}</Chip>;
  if (proof.mismatches) {
    return <Chip tone="clay">{t.models.mismatches(formatCount(proof.mismatches))}</Chip>;
  }
  return <Chip tone="water">{t.models.proven(formatCount(proof.rows))}</Chip>;
}

function VersionDetails({version}: {version: ModelVersion}) {
  const {t} = useWords();
  const facts: [string, string][] = [
    [t.models.hash, version.onnx],
    [t.models.trainingSet, version.training_set],
    [t.models.run, version.run],
    [t.models.featureService, version.feature_service],
    [t.models.code, version.code_version],
    [t.models.zone, version.zone],
    [t.models.features, (version.signature?.features ?? []).join(', ')],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) =>
        <div key={name}><dt>{name}</dt><dd><Code>{value || '–'}</Code></dd></div>)}
    </dl>
  );
}

function VersionRow({version, aliases}: {version: ModelVersion; aliases: string[]}) {
  const {t} = useWords();
  const metrics = Object.entries(version.metrics ?? {});
  return (
    <li class={`version ${aliases.includes('champion') ? 'champion' : ''}`}
      data-version={version.version}>
      <div class="version-head">
        <strong dir="ltr">v{version.version}</strong>
        <span class="aliases">
          {aliases.map((alias) => <Chip key={alias} tone="water"><Code>{alias}</Code></Chip>)}
        </span>
        <span class="metrics">
          {metrics.map(([name, value]) => (
            <span key={name} dir="ltr"><small>{name}</small> {formatFixed(value, 4)}</span>))}
        </span>
        <Proof proof={version.proof} />
        <span class="when"><Ago at={version.created_at} /></span>
      </div>
      <details>
        <summary>{t.models.details}</summary>
        <VersionDetails version={version} />
      </details>
    </li>
  );
}

function ModelCard({model}: {model: Model}) {
  const aliasesOf = (version: number) => Object.entries(model.aliases ?? {})
    .filter(([, target]) => target === version).map(([alias]) => alias);
  return (
    <article class="panel model" data-model={model.name}>
      <header><h3><Code>{model.name}</Code></h3></header>
      <ol class="plain versions">
        {model.versions.map((version) => <VersionRow key={version.version} version={version}
          aliases={aliasesOf(version.version)} />)}
      </ol>
    </article>
  );
}

// What an entry says for itself: a reason in words, a moved alias, or the metrics of a new version.
function sayingOf(entry: AuditEntry): string {
  const detail = entry.detail as {
    reason?: unknown; action?: {reason?: unknown}; alias?: unknown; before?: unknown;
    version?: unknown; metrics?: {[name: string]: number};
  } | null;
  const reason = detail?.action?.reason ?? detail?.reason;
  if (typeof reason === 'string') return shortenNumbers(reason);
  if (typeof detail?.alias === 'string') {
    return `${detail.alias}: ${detail.before ? `v${detail.before} → ` : ''}v${detail.version}`;
  }
  return Object.entries(detail?.metrics ?? {})
    .map(([name, value]) => `${name} ${formatFixed(value, 4)}`).join(', ');
}

function History({project, revision}: {project: string; revision: number}) {
  const {t} = useWords();
  const {data} = useResource(`history ${project}`, revision, async (signal) => {
    const pages = await Promise.all(
      ['loop.', 'model.'].map((action) => api.audit({action, limit: 12, project}, signal)));
    return pages.flatMap((page) => page.entries).sort((a, b) => b.sequence - a.sequence);
  });
  if (!data || data.length === 0) return null;
  return (
    <section class="panel">
      <header><h2>{t.models.history}</h2></header>
      <ol class="plain timeline">
        {data.slice(0, 12).map((entry) => (
          <li key={entry.sequence} class={entry.action.startsWith('loop.') ? 'deep' : ''}>
            <div><Code>{entry.action}</Code> <Code>{entry.object}</Code>
              <span class="when"><Ago at={entry.at} /></span></div>
            {sayingOf(entry) !== '' && <p dir="auto">{sayingOf(entry)}</p>}
          </li>
        ))}
      </ol>
    </section>
  );
}

function useDeclarations(project: string, revision: number) {
  return useResource(`declared ${project}`, revision, async (signal) => {
    const [deployments, services, views, entities] = await Promise.all(
      ['Deployment', 'FeatureService', 'FeatureView', 'Entity'].map(
        (kind) => api.objects(project, kind, signal)));
    return {
      deployments: deployments ?? [], services: services ?? [], views: views ?? [],
      entities: entities ?? [],
    };
  }).data;
}

export function Models({project, overview, revision}: PageProps) {
  const {t} = useWords();
  const may = useMay();
  const models = useResource(`models ${project}`, revision,
    (signal) => api.models(project, signal));
  const declared = useDeclarations(project, revision);

  const fieldsOf = (name: string, model: string, version: number) => {
    if (!declared) return [];
    const spec = declared.deployments.find((o) => o.metadata.name === name)?.spec;
    const registered = models.data?.find((m) => m.name === model)?.versions
      .find((v) => v.version === version)?.feature_service;
    return keyFields(String(spec?.['features'] ?? registered ?? ''), declared.services,
      declared.views, declared.entities);
  };

  const deployments = overview?.deployments ?? [];
  return (
    <main id="content" tabIndex={-1} class="page">
      <div class="head"><h1>{t.models.title}</h1><p class="lead">{t.models.lead}</p></div>
      <h2>{t.models.deployments}</h2>
      {!overview ? <Loading /> : deployments.length === 0 ?
        <Empty text={t.empty.deployments} command="falaj apply -f deployment.yaml" /> :
        deployments.map((d) => <DeploymentCard key={d.name} deployment={d}
          points={overview.latency.find((l) => l.deployment === d.name)?.points ?? []}
          fields={fieldsOf(d.name, d.model, d.version)} />)}
      <h2>{t.models.models}</h2>
      {models.error ? <Failure error={models.error} /> : !models.data ? <Loading /> :
        models.data.length === 0 ? <Empty text={t.empty.models} command="falaj demo" /> :
          models.data.map((m) => <ModelCard key={m.name} model={m} />)}
      {may('audit.read', project) && <History project={project} revision={revision} />}
    </main>
  );
}
