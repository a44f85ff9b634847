// What the caller may do, so that the page offers nothing else. The server decides all the same.

import {api} from './api/client';
import {createStore, useStore} from './store';

export interface Rights {
  platform: string[];
  projects: {[name: string]: {all: string[]; some: string[]}};
}

// undefined: not known (yet). Then everything is offered, and the server says no.
export const rights = createStore<Rights | undefined>(undefined);

export async function readRights(): Promise<void> {
  try {
    rights.set(await api.rights());
  } catch {
    rights.set(undefined);
  }
}

export type Extent = 'some' | 'all';

// On the platform or, when a project is named, on something (or everything) in it.
export function allows(
  known: Rights | undefined, action: string, project?: string, extent: Extent = 'some',
): boolean {
  if (known === undefined || known.platform.includes(action)) return true;
  return project !== undefined && (known.projects[project]?.[extent].includes(action) ?? false);
}

export function useMay(): (action: string, project?: string, extent?: Extent) => boolean {
  const known = useStore(rights);
  return (action, project, extent) => allows(known, action, project, extent);
}
