// Data of a page: loaded when its inputs change, kept on screen while it is read again.

import {useEffect, useRef, useState} from 'preact/hooks';

export interface Resource<T> {
  data: T | undefined;
  error: Error | undefined;
}

// `load` runs when `key` or `revision` changes; a new key forgets the old data, a new revision keeps
// it until the new one is there.
export function useResource<T>(
  key: string, revision: number, load: (signal: AbortSignal) => Promise<T>,
): Resource<T> {
  const [state, setState] = useState<Resource<T> & {key: string}>(
    {key, data: undefined, error: undefined});
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const abort = new AbortController();
    latest.current(abort.signal).then(
      (data) => { if (!abort.signal.aborted) setState({key, data, error: undefined}); },
      (error: Error) => {
        if (!abort.signal.aborted) {
          setState((old) => ({key, data: old.key === key ? old.data : undefined, error}));
        }
      });
    return () => abort.abort();
  }, [key, revision]);
  return state.key === key ? state : {data: undefined, error: undefined};
}
