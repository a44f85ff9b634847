// Small pieces that every page uses.

import type {ComponentChildren} from 'preact';
import {useEffect, useState} from 'preact/hooks';

import {ApiError} from '../api/client';
import {formatAgo, formatTime, shortHash} from '../format';
import {useWords} from '../i18n';
import {createStore, useStore} from '../store';

// One clock for every "3 minutes ago" on the page.
const now = createStore(Date.now());
setInterval(() => now.set(Date.now()), 5000);

export function Ago({at}: {at: string | null | undefined}) {
  const {lang} = useWords();
  const ms = useStore(now);
  if (!at) return <>–</>;
  return <time dateTime={at} title={formatTime(at, lang)}>{formatAgo(at, ms, lang)}</time>;
}

export function useAgo(at: string | null): string {
  const {lang} = useWords();
  const ms = useStore(now);
  return at ? formatAgo(at, ms, lang) : '–';
}

// A name or number that keeps its own direction inside a right-to-left line.
export function Code({children, title}: {children: ComponentChildren; title?: string}) {
  return <code dir="ltr" {...(title ? {title} : {})}>{children}</code>;
}

export function Hash({value}: {value: string}) {
  return <Code title={value}>{shortHash(value) || '–'}</Code>;
}

export function Command({children}: {children: string}) {
  const {t} = useWords();
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () => void navigator.clipboard?.writeText(children).then(() => setCopied(true));
  return (
    <span class="command" dir="ltr">
      <code>{children}</code>
      <button type="button" class="quiet" onClick={copy}>{copied ? t.copied : t.copy}</button>
    </span>
  );
}

export function Empty({text, command}: {text: string; command?: string}) {
  return (
    <div class="empty">
      <svg viewBox="0 0 120 24" aria-hidden="true">
        <path d="M0 9c20 0 20 8 40 8s20-8 40-8 20 8 40 8" />
      </svg>
      <p>{text}</p>
      {command && <Command>{command}</Command>}
    </div>
  );
}

export function Failure({error}: {error: Error}) {
  const {t} = useWords();
  const known = error instanceof ApiError ? error : undefined;
  return (
    <div class="failure" role="alert">
      <strong>{t.failed}{known?.code ? <> <Code>{known.code}</Code></> : null}</strong>
      <p dir="auto">{error.message}</p>
      {known?.nextStep ? <p dir="auto">{known.nextStep}</p> : null}
    </div>
  );
}

export function Loading() {
  const {t} = useWords();
  return <p class="loading" role="status">{t.loading}</p>;
}

export type Tone = 'water' | 'clay' | 'sand' | 'plain';

export function Chip({tone, children}: {tone: Tone; children: ComponentChildren}) {
  return <span class={`chip ${tone}`}>{children}</span>;
}

export function Progress({share, label}: {share: number; label: string}) {
  return <progress max={1} value={share} aria-label={label} />;
}

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  numeric?: boolean;
}

export function DataTable<T>({caption, columns, rows, rowKey}: {
  caption: string; columns: Column<T>[]; rows: T[]; rowKey: (row: T) => string;
}) {
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead><tr>{columns.map((c) =>
          <th key={c.head} scope="col" class={c.numeric ? 'number' : ''}>{c.head}</th>)}</tr></thead>
        <tbody>{rows.map((row) => (
          <tr key={rowKey(row)}>{columns.map((c) =>
            <td key={c.head} class={c.numeric ? 'number' : ''}>{c.cell(row)}</td>)}</tr>
        ))}</tbody>
      </table>
    </div>
  );
}

// A picture with the same facts as a table behind it.
export function Figure({title, note, chart, table}: {
  title: ComponentChildren; note?: ComponentChildren; chart: ComponentChildren;
  table: () => ComponentChildren;
}) {
  const {t} = useWords();
  const [asTable, setAsTable] = useState(false);
  return (
    <figure class="figure">
      <figcaption>
        <span class="figure-title">{title}</span>
        {note}
        <button type="button" class="quiet" aria-pressed={asTable}
          onClick={() => setAsTable(!asTable)}>{asTable ? t.chart : t.table}</button>
      </figcaption>
      {asTable ? table() : chart}
    </figure>
  );
}
