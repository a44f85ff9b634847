// The frame: header, the page that the address names, and what the connection does.

import {useEffect, useRef, useState} from 'preact/hooks';

import {api} from './api/client';
import type {Project} from './api/types';
import {formatClock} from './format';
import {useWords} from './i18n';
import {follow, live} from './live';
import {Audit} from './pages/audit';
import {Drift} from './pages/drift';
import {Home} from './pages/home';
import {Models} from './pages/models';
import {SignIn} from './pages/sign_in';
import {useResource} from './resource';
import {readRights, rights, useMay, type Extent} from './rights';
import {go, hrefOf, place, type Page} from './router';
import {readSession, session} from './session';
import {language, theme, type Theme} from './settings';
import {useStore} from './store';
import mark from './style/mark.svg';

const kPages: Page[] = ['home', 'models', 'drift', 'audit'];
// What a page shows is nothing without.
const kNeeds: {[page in Page]: [action: string, extent: Extent]} = {
  home: ['monitoring.read', 'all'],
  models: ['models.read', 'some'],
  drift: ['monitoring.read', 'some'],
  audit: ['audit.read', 'some'],
};

function usePages(project: string): Page[] {
  const may = useMay();
  return kPages.filter((page) => may(kNeeds[page][0], project, kNeeds[page][1]));
}
const kViews = {home: Home, models: Models, drift: Drift, audit: Audit};
const kThemes: Theme[] = ['auto', 'light', 'dark'];

function LinkState() {
  const {t, lang} = useWords();
  const {link, receivedAt} = useStore(live);
  const since = receivedAt > 0 ? formatClock(receivedAt, lang) : '';
  const text = link === 'lost' ? t.link.lost(since) : t.link[link];
  return <span class={`link ${link}`} role="status"><i aria-hidden="true" />{text}</span>;
}

// Whoever signed in by this page can sign out of it; the local developer cannot.
function SignedIn() {
  const {t} = useWords();
  const {user} = useStore(session);
  if (user?.credential !== 'session') return null;
  const signOut = () => void api.signOut().catch(() => {}).then(readSession);
  return (
    <span class="who"><bdi>{user.name}</bdi>
      <button type="button" class="quiet" name="sign-out" onClick={signOut}>{t.sign.signOut}</button>
    </span>
  );
}

function LookSwitches() {
  const {t, lang} = useWords();
  const chosen = useStore(theme);
  return (
    <>
      <label><span class="unseen">{t.theme.label}</span>
        <select name="theme" value={chosen}
          onChange={(event) => theme.set(event.currentTarget.value as Theme)}>
          {kThemes.map((name) => <option key={name} value={name}>{t.theme[name]}</option>)}
        </select>
      </label>
      <button type="button" class="quiet" name="language" lang={lang === 'en' ? 'ar' : 'en'}
        onClick={() => language.set(lang === 'en' ? 'ar' : 'en')}>{t.otherLanguage}</button>
    </>
  );
}

// Where the project's bytes may be, beside its name on every page.
function ZoneOf({project}: {project: Project | undefined}) {
  const {t} = useWords();
  if (!project?.zone) return null;
  return <span class="zone" title={t.models.zone}><span class="unseen">{t.models.zone}: </span>
    <bdi>{project.zone}</bdi></span>;
}

function Switches({project, projects}: {project: string; projects: Project[]}) {
  const {t} = useWords();
  const {page} = useStore(place);
  return (
    <div class="switches">
      <LinkState />
      <label><span class="unseen">{t.project}</span>
        <select name="project" value={project}
          onChange={(event) => go({page, project: event.currentTarget.value})}>
          {projects.some((p) => p.name === project) ? null :
            <option value={project}>{project}</option>}
          {projects.map((p) => <option key={p.name} value={p.name}>{p.name}</option>)}
        </select>
      </label>
      <ZoneOf project={projects.find((p) => p.name === project)} />
      <LookSwitches />
      <SignedIn />
    </div>
  );
}

function Header({project, projects, page}: {project: string; projects: Project[]; page: Page}) {
  const {t} = useWords();
  return (
    <header class="top">
      <div class="bar">
        <a class="brand" href={hrefOf({page: 'home', project})}>
          <img src={mark} alt="" width="30" height="30" />{t.product}</a>
        <nav aria-label={t.nav.label}>
          {usePages(project).map((name) => (
            <a key={name} href={hrefOf({page: name, project})}
              aria-current={name === page ? 'page' : undefined}>{t.nav[name]}</a>))}
        </nav>
        <Switches project={project} projects={projects} />
      </div>
    </header>
  );
}

// The one in the address; else the first that is not the empty default; else "default".
export function projectToShow(asked: string, projects: Project[]): string {
  if (asked !== '') return asked;
  const others = projects.filter((p) => p.name !== 'default');
  return others[0]?.name ?? projects[0]?.name ?? 'default';
}

// Nobody is signed in: the frame without anybody's data.
function Door() {
  const {t} = useWords();
  useEffect(() => { document.title = `${t.sign.title} · ${t.product}`; }, [t]);
  return (
    <>
      <header class="top">
        <div class="bar">
          <span class="brand"><img src={mark} alt="" width="30" height="30" />{t.product}</span>
          <div class="switches"><LookSwitches /></div>
        </div>
      </header>
      <SignIn />
    </>
  );
}

export function App() {
  const {state, user} = useStore(session);
  const [asked, setAsked] = useState('');
  // What this person may do comes before what to show them.
  useEffect(() => {
    rights.set(undefined);
    if (user) void readRights().then(() => setAsked(user.id));
  }, [user?.id]);
  if (state === 'out') return <Door />;
  if (state === 'unknown' || (user && asked !== user.id)) {
    return <main id="content" tabIndex={-1} />;
  }
  return <Inside />;
}

function Inside() {
  const {t} = useWords();
  const may = useMay();
  const here = useStore(place);
  const {overview, revision} = useStore(live);
  const listed = useResource('projects', revision, (signal) => api.projects(signal));
  const ready = listed.data !== undefined || listed.error !== undefined || here.project !== '';
  const project = projectToShow(here.project, listed.data ?? []);

  const watches = may('monitoring.read', project, 'all');
  useEffect(() => { if (ready && watches) follow(project); }, [ready, watches, project]);
  useEffect(() => { void readRights(); }, [revision]);
  useEffect(() => { document.title = `${t.nav[here.page]} · ${t.product}`; }, [t, here.page]);
  // A new page begins at its top, and the keyboard with it; the first one leaves the focus alone.
  const shown = useRef(here.page);
  useEffect(() => {
    if (shown.current === here.page) return;
    shown.current = here.page;
    window.scrollTo(0, 0);
    document.getElementById('content')?.focus({preventScroll: true});
  }, [here.page]);

  const View = kViews[here.page];
  const pages = usePages(project);
  const hidden = !pages.includes(here.page);
  const unknown = listed.data && !listed.data.some((p) => p.name === project) &&
    here.project !== '';
  const skip = (event: Event) => {
    event.preventDefault();
    document.getElementById('content')?.focus();
  };
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>{t.skip}</a>
      <Header project={project} projects={listed.data ?? []} page={here.page} />
      {unknown && <p class="notice" role="alert">{t.noSuchProject(here.project)}</p>}
      {hidden && !unknown && <p class="notice" role="alert">{t.notYours(project)}</p>}
      {ready && !hidden ? <View project={project} show={here.show} overview={overview} revision={revision} />
        : <main id="content" tabIndex={-1} class="page"><h1 class="unseen">
          {t.nav[here.page]}</h1></main>}
    </>
  );
}
