// Which entity keys a deployment must be asked with: Deployment → FeatureService → FeatureView →
// Entity. Pure.

import type {DeclaredObject, Json} from './api/types';

export interface KeyField {
  name: string;
  type: string;  // "int64" or "string".
}

function find(objects: DeclaredObject[], name: string): DeclaredObject | undefined {
  return objects.find((o) => o.metadata.name === name);
}

// An item of a service's list is a view's name or {view: [features]}; "@v2" pins a generation.
function viewName(item: Json): string {
  const text = typeof item === 'string' ? item :
    item !== null && typeof item === 'object' && !Array.isArray(item) ?
      Object.keys(item)[0] ?? '' : '';
  return text.split('@')[0] ?? '';
}

export function keyFields(
  service: string, services: DeclaredObject[], views: DeclaredObject[], entities: DeclaredObject[],
): KeyField[] {
  const items = find(services, service)?.spec['features'];
  const fields = new Map<string, KeyField>();
  for (const item of Array.isArray(items) ? items : []) {
    const entity = find(views, viewName(item))?.spec['entity'];
    const keys = find(entities, String(entity ?? ''))?.spec['keys'];
    for (const key of Array.isArray(keys) ? keys : []) {
      const {name, type} = key as {name?: string; type?: string};
      if (name && !fields.has(name)) fields.set(name, {name, type: type ?? 'string'});
    }
  }
  return [...fields.values()];
}

// The value to send, or undefined when the text does not fit the type.
export function keyValue(field: KeyField, text: string): Json | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  if (field.type !== 'int64') return trimmed;
  if (!/^-?\d{1,18}$/.test(trimmed)) return undefined;
  const number = Number(trimmed);
  return Number.isSafeInteger(number) ? number : undefined;
}
