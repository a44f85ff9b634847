// One audit entry in full, at the side of the page.

import {useEffect, useRef, useState} from 'preact/hooks';

import {api} from '../api/client';
import type {AuditEntry} from '../api/types';
import {formatTime} from '../format';
import {useWords} from '../i18n';
import {Code, Failure} from '../parts/parts';
import {useMay} from '../rights';

function Replay({entry}: {entry: AuditEntry}) {
  const {t} = useWords();
  const [state, setState] = useState<'idle' | 'busy' | string | Error>('idle');
  const replay = () => {
    setState('busy');
    api.replay(entry.sequence).then(
      (done) => setState(t.audit.replayed(done.action.kind)), setState);
  };
  const words = typeof state === 'string' && state !== 'idle' && state !== 'busy' ? state : '';
  return (
    <div class="verify">
      <button type="button" class="primary" disabled={state === 'busy'} onClick={replay}>
        {state === 'busy' ? t.audit.replaying : t.audit.replay}
      </button>
      <span aria-live="polite" data-testid="replay-result">
        {state instanceof Error ?
          <><strong class="clay">{t.audit.differs}</strong> <Failure error={state} /></> :
          words !== '' ? <strong class="ok">{words}</strong> : null}
      </span>
    </div>
  );
}

// A modal <dialog>: the browser keeps the focus inside, closes on Escape and gives the focus back.
export function AuditDrawer({entry, onClose}: {entry: AuditEntry; onClose: () => void}) {
  const {t, lang} = useWords();
  const may = useMay();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const facts: [string, string][] = [
    [t.columns.action, entry.action], [t.columns.object, entry.object],
    [t.columns.actor, entry.actor], [t.audit.project, entry.project],
    [t.columns.time, formatTime(entry.at, lang)], [t.audit.request, entry.request_id],
    [t.audit.hash, entry.hash],
  ];
  return (
    <dialog ref={dialog} class="drawer" aria-labelledby="drawer-title" onClose={onClose}
      onClick={(event) => { if (event.target === dialog.current) dialog.current?.close(); }}>
      <div class="drawer-body">
        <header>
          <h2 id="drawer-title">{t.audit.details(entry.sequence)}</h2>
          <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
            {t.close}</button>
        </header>
        <dl class="facts">
          {facts.map(([name, value]) =>
            <div key={name}><dt>{name}</dt><dd><Code>{value || '–'}</Code></dd></div>)}
        </dl>
        {entry.action.startsWith('loop.') && may('audit.verify', entry.project) &&
          <Replay entry={entry} />}
        <h3>{t.audit.evidence}</h3>
        <pre dir="ltr" tabIndex={0}>{JSON.stringify(entry.detail, null, 2)}</pre>
      </div>
    </dialog>
  );
}
