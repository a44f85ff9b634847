// Searching and merging pages of the audit. Pure.

import type {AuditEntry} from './api/types';

// Every word must occur somewhere in the entry, ignoring case.
export function matches(entry: AuditEntry, search: string): boolean {
  const text = [
    entry.sequence, entry.actor, entry.project, entry.action, entry.object, entry.request_id,
    entry.hash, JSON.stringify(entry.detail),
  ].join(' ').toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// Newest first, each sequence once.
export function merge(known: AuditEntry[], more: AuditEntry[]): AuditEntry[] {
  const bySequence = new Map(known.map((entry) => [entry.sequence, entry]));
  for (const entry of more) bySequence.set(entry.sequence, entry);
  return [...bySequence.values()].sort((a, b) => b.sequence - a.sequence);
}

// "loop.", "object.", …: what the entries' actions begin with, in alphabetical order.
export function families(entries: AuditEntry[]): string[] {
  return [...new Set(entries.map((entry) => entry.action.split('.')[0] + '.'))].sort();
}
