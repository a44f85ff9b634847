// The audit: newest first, searchable, verifiable, and each decision of the loop repeatable.

import {useEffect, useRef, useState} from 'preact/hooks';

import {api} from '../api/client';
import type {AuditEntry} from '../api/types';
import {families, matches, merge} from '../audit_list';
import {formatCount} from '../format';
import {useWords} from '../i18n';
import {Ago, Code, Empty, Failure, Hash, Loading} from '../parts/parts';
import {useMay} from '../rights';
import {AuditDrawer} from './audit_drawer';
import type {PageProps} from './home';

const kPage = 50;
const kSearchMax = 2000;

interface Listing {
  family: string;
  entries: AuditEntry[];
  ended: boolean;  // The first entry of all was reached.
  error: Error | undefined;
}

// `project` '': of all of them.
function useListing(family: string, project: string, revision: number) {
  const [state, setState] = useState<Listing>();
  const loading = useRef(false);
  const query = {
    ...(family === '' ? {} : {action: family}), ...(project === '' ? {} : {project}),
  };

  useEffect(() => {
    const abort = new AbortController();
    api.audit({...query, limit: kPage}, abort.signal).then((page) => {
      setState((old) => {
        const known = old?.family === family ? old : undefined;
        const entries = merge(known?.entries ?? [], page.entries);
        const ended = known?.ended ?? page.entries.length < kPage;
        return {family, entries, ended, error: undefined};
      });
    }, (error: Error) => {
      if (abort.signal.aborted) return;
      setState((old) => ({
        family, entries: old?.family === family ? old.entries : [], ended: true, error,
      }));
    });
    return () => abort.abort();
  }, [family, project, revision]);

  const older = async () => {
    const last = state?.entries[state.entries.length - 1];
    if (!last || loading.current) return;
    loading.current = true;
    try {
      const page = await api.audit({...query, limit: kPage, after: last.sequence});
      const fresh = page.entries.filter((entry) => entry.sequence < last.sequence);
      setState((old) => old?.family !== family ? old : {
        ...old, entries: merge(old.entries, fresh), ended: fresh.length < kPage,
      });
    } finally {
      loading.current = false;
    }
  };
  return {listing: state?.family === family ? state : undefined, older};
}

function Verify() {
  const {t} = useWords();
  const [state, setState] = useState<'idle' | 'busy' | {entries: number} | Error>('idle');
  const verify = () => {
    setState('busy');
    api.verifyAudit().then((done) => setState({entries: done.head.sequence}), setState);
  };
  return (
    <div class="verify">
      <button type="button" class="primary" disabled={state === 'busy'} onClick={verify}>
        {state === 'busy' ? t.audit.verifying : t.audit.verify}
      </button>
      <span aria-live="polite" data-testid="verify-result">
        {state instanceof Error ?
          <><strong class="clay">{t.audit.broken}</strong> <Failure error={state} /></> :
          typeof state === 'object' ?
            <strong class="ok">{t.audit.verified(formatCount(state.entries))}</strong> : null}
      </span>
    </div>
  );
}

function Rows({entries, onOpen}: {
  entries: AuditEntry[]; onOpen: (entry: AuditEntry) => void;
}) {
  const {t} = useWords();
  return (
    <div class="scroll">
      <table class="audit">
        <caption class="unseen">{t.audit.title}</caption>
        <thead><tr>
          <th scope="col" class="number">{t.columns.sequence}</th>
          <th scope="col">{t.columns.action}</th>
          <th scope="col">{t.columns.object}</th>
          <th scope="col">{t.columns.actor}</th>
          <th scope="col">{t.columns.time}</th>
          <th scope="col">{t.audit.hash}</th>
        </tr></thead>
        <tbody>{entries.map((entry) => (
          <tr key={entry.sequence} onClick={() => onOpen(entry)}
            class={entry.action.startsWith('loop.') ? 'deep' : ''}>
            <td class="number"><button type="button" class="quiet" data-sequence={entry.sequence}
              aria-label={t.audit.details(entry.sequence)}>{entry.sequence}</button></td>
            <td><Code>{entry.action}</Code></td>
            <td class="object"><Code title={entry.object}>{entry.object}</Code></td>
            <td class="who"><Code>{entry.actor}</Code></td>
            <td class="when"><Ago at={entry.at} /></td>
            <td class="hash"><Hash value={entry.hash} /></td>
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

export function Audit({project, revision}: PageProps) {
  const {t} = useWords();
  const may = useMay();
  const [family, setFamily] = useState('');
  const [search, setSearch] = useState('');
  const [open, setOpen] = useState<AuditEntry>();
  const [known, setKnown] = useState<string[]>([]);
  const {listing, older} = useListing(family, may('audit.read') ? '' : project, revision);
  const entries = listing?.entries ?? [];
  const found = search.trim() === '' ? entries :
    entries.filter((entry) => matches(entry, search.trim()));

  useEffect(() => {
    if (family === '' && entries.length > 0) setKnown(families(entries));
  }, [listing]);
  // A search that finds little reads on by itself, up to a limit that it names.
  useEffect(() => {
    const wants = search.trim() !== '' && found.length < 10;
    if (wants && listing && !listing.ended && entries.length < kSearchMax) void older();
  }, [search, listing]);

  return (
    <main id="content" tabIndex={-1} class="page">
      <div class="head"><h1>{t.audit.title}</h1><p class="lead">{t.audit.lead}</p></div>
      {may('audit.verify') && <Verify />}
      <div class="filters" role="search">
        <label class="grow">{t.audit.search}
          <input type="search" value={search} placeholder={t.audit.searchHint}
            onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <label>{t.audit.family}
          <select value={family} onChange={(event) => setFamily(event.currentTarget.value)}>
            <option value="">{t.audit.all}</option>
            {known.map((name) => <option key={name} value={name}>{name.slice(0, -1)}</option>)}
          </select>
        </label>
      </div>
      {listing?.error ? <Failure error={listing.error} /> : !listing ? <Loading /> : (
        <section class="panel flush">
          {found.length === 0 ? <Empty text={t.empty.audit} /> :
            <Rows entries={found} onOpen={setOpen} />}
        </section>
      )}
      <div class="more">
        {listing && !listing.ended && (
          <button type="button" onClick={() => void older()}>{t.audit.older}</button>)}
        {search.trim() !== '' && listing &&
          <span role="status">{t.audit.searched(formatCount(entries.length))}</span>}
      </div>
      {open && <AuditDrawer entry={open} onClose={() => setOpen(undefined)} />}
    </main>
  );
}
