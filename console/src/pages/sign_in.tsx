// Who are you? A password, the identity provider, or the first administrator's setup link.

import {useState} from 'preact/hooks';

import {api} from '../api/client';
import {useWords} from '../i18n';
import {Failure} from '../parts/parts';
import {readSession, session} from '../session';
import {useStore} from '../store';

// The secret stands behind '#': browsers send it to nobody.
function setupSecret(): string {
  return location.pathname === '/setup' ? location.hash.slice(1) : '';
}

function useSubmit(act: () => Promise<void>) {
  const [state, setState] = useState<'idle' | 'busy' | Error>('idle');
  const submit = (event: Event) => {
    event.preventDefault();
    setState('busy');
    act().then(() => setState('idle'), (error: Error) => setState(error));
  };
  return {state, submit};
}

function Fields({fresh, name, setName, password, setPassword}: {
  fresh: boolean; name: string; setName: (text: string) => void;
  password: string; setPassword: (text: string) => void;
}) {
  const {t} = useWords();
  return (
    <>
      <label>{t.sign.name}
        <input name="name" required autocomplete="username" autocapitalize="none" spellcheck={false}
          dir="ltr" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label>{t.sign.password}
        <input name="password" type="password" required dir="ltr" value={password}
          autocomplete={fresh ? 'new-password' : 'current-password'}
          {...(fresh ? {minLength: 12} : {})}
          onInput={(event) => setPassword(event.currentTarget.value)} />
      </label>
    </>
  );
}

function Setup({secret}: {secret: string}) {
  const {t} = useWords();
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const {state, submit} = useSubmit(async () => {
    await api.setUp(secret, name, password);
    history.replaceState(null, '', '/');  // The link is spent: out of the address with it.
    await api.signIn(name, password);
    await readSession();
  });
  return (
    <form class="panel sign" onSubmit={submit}>
      <h1>{t.sign.setup}</h1>
      <p class="lead">{t.sign.setupLead}</p>
      <Fields fresh={true} name={name} setName={setName} password={password}
        setPassword={setPassword} />
      <p class="hint">{t.sign.passwordHint}</p>
      {state instanceof Error && <Failure error={state} />}
      <button class="primary" disabled={state === 'busy'}>{t.sign.setupDo}</button>
    </form>
  );
}

function PasswordOrProvider() {
  const {t} = useWords();
  const {provider, setupPending} = useStore(session);
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const {state, submit} = useSubmit(async () => {
    await api.signIn(name, password);
    setPassword('');
    await readSession();
  });
  const back = encodeURIComponent(location.pathname + location.search);
  return (
    <form class="panel sign" onSubmit={submit}>
      <h1>{t.sign.title}</h1>
      {setupPending && <p class="notice">{t.sign.pending}</p>}
      {provider && <a class="button primary" href={`/auth/login?return_to=${back}`}>{t.sign.provider}</a>}
      {provider && <p class="or">{t.sign.or}</p>}
      <Fields fresh={false} name={name} setName={setName} password={password}
        setPassword={setPassword} />
      {state instanceof Error && <Failure error={state} />}
      <button class={provider ? '' : 'primary'} disabled={state === 'busy'}>{t.sign.signIn}</button>
    </form>
  );
}

export function SignIn() {
  const secret = setupSecret();
  return (
    <main id="content" tabIndex={-1} class="page">
      {secret !== '' ? <Setup secret={secret} /> : <PasswordOrProvider />}
    </main>
  );
}
