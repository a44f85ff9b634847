// Who is signed in. The cookie is the browser's and the server's; this page only knows its CSRF
// token, which goes with every change.

import {createStore} from './store';

export interface SignedUser {
  id: string;
  name: string;
  credential: string;
}

export interface Session {
  state: 'unknown' | 'in' | 'out' | 'unreachable';
  user: SignedUser | undefined;
  csrf: string;
  setupPending: boolean;
  provider: boolean;
}

interface Answer {
  signed_in: boolean;
  user?: SignedUser;
  csrf?: string;
  setup_pending?: boolean;
  provider?: boolean;
}

const kUnknown: Session = {
  state: 'unknown', user: undefined, csrf: '', setupPending: false, provider: false,
};

export const session = createStore<Session>(kUnknown);

export async function readSession(): Promise<void> {
  try {
    const response = await fetch('/api/v1/session');
    const answer = await response.json() as Answer;
    session.set({
      state: answer.signed_in ? 'in' : 'out',
      user: answer.user,
      csrf: answer.csrf ?? '',
      setupPending: answer.setup_pending ?? false,
      provider: answer.provider ?? false,
    });
  } catch {
    // Nobody answers. A page that was open stays open: its link says so.
    if (session.get().state === 'unknown') session.set({...kUnknown, state: 'unreachable'});
  }
}

// A call was refused because the session has ended (idle, revoked, a restart): ask again who we are.
export function sessionRefused(): void {
  if (session.get().state === 'in') void readSession();
}

export function changeHeaders(): Record<string, string> {
  const {csrf} = session.get();
  const json = {'content-type': 'application/json'};
  return csrf === '' ? json : {...json, 'x-falaj-csrf': csrf};
}
