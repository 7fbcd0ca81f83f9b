// The frame around every view: where one is, who one is, light or dark, and whether the server is there.
import { render } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import "./app.css";
import * as api from "./api";
import { useLost } from "./connection";
import type { Project, Session, State } from "./contract";
import { listen } from "./events";
import { Help } from "./help";
import { useKeys } from "./keys";
import { Show, useLoaded } from "./loading";
import { type Notice, ProjectContext } from "./project";
import { applyTheme, change, isDark, useSettings } from "./settings";
import { AnswerView } from "./views/answer";
import { DisagreementsView } from "./views/disagreements";
import { LookView } from "./views/look";
import { OpenView } from "./views/open";
import { TakeView } from "./views/take";
import { messageOf } from "./words";

const VIEWS = { answer: "Answer", look: "Groups", disagreements: "Disagreements", take: "Take away" } as const;
type View = keyof typeof VIEWS;

/** `#/PROJECT/VIEW`, or the list of projects. */
function place(): { project: string | null; view: View } {
  const [, project, view] = /^#\/([^/]+)\/?(\w*)/.exec(location.hash) ?? [];
  return { project: project ? decodeURIComponent(project) : null, view: view && view in VIEWS ? (view as View) : "answer" };
}

function App() {
  const [{ project, view }, setPlace] = useState(place);
  const [help, setHelp] = useState(false);
  const session = useLoaded(api.session, []);
  const [signedIn, setSignedIn] = useState<Session | null>(null);
  useEffect(() => {
    const go = () => {
      setPlace(place());
      scrollTo(0, 0);
      document.getElementById("main")?.focus({ preventScroll: true });
    };
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
  useKeys({ "?": () => setHelp(true) });
  const me = signedIn ?? session.value;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
      <LostBanner />
      <Header project={project} view={view} me={me} setMe={setSignedIn} openHelp={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        <Show loaded={session}>
          {() => (project === null ? <OpenView /> : !me?.person ? <AskName setMe={setSignedIn} /> : <ProjectFrame key={project} id={project} view={view} />)}
        </Show>
      </main>
      {help && <Help close={() => setHelp(false)} />}
    </>
  );
}

function LostBanner() {
  const lost = useLost();
  return (
    <div role="alert">
      {lost && <p class="lost"><strong>The program does not answer.</strong> Nothing is lost: what you answered is kept here and sent as soon as it is back.</p>}
    </div>
  );
}

interface HeaderProps {
  project: string | null;
  view: View;
  me: Session | null;
  setMe(session: Session): void;
  openHelp(): void;
}

function Header({ project, view, me, setMe, openHelp }: HeaderProps) {
  const { theme } = useSettings();
  const dark = useMemo(isDark, [theme]);
  const [naming, setNaming] = useState(false);
  return (
    <header class="bar">
      <a class="home" href="#/">spherepair</a>
      {project !== null && (
        <nav aria-label="Steps">
          {Object.entries(VIEWS).map(([name, title]) => (
            <a key={name} href={`#/${encodeURIComponent(project)}/${name}`} aria-current={name === view ? "page" : undefined}>{title}</a>
          ))}
        </nav>
      )}
      <div class="tools">
        {me?.person && !naming && <button type="button" class="link" aria-label={`You are ${me.person}. Change the name`} onClick={() => setNaming(true)}><bdi>{me.person}</bdi></button>}
        {naming && <NameForm first={me?.person ?? ""} done={(session) => { setMe(session); setNaming(false); }} />}
        <button type="button" class="link" onClick={() => change({ theme: dark ? "light" : "dark" })}>{dark ? "Light" : "Dark"}</button>
        <button type="button" class="link" aria-keyshortcuts="?" onClick={openHelp}>Help</button>
      </div>
    </header>
  );
}

function NameForm({ first, done }: { first: string; done(session: Session): void }) {
  const [name, setName] = useState(first);
  const [problem, setProblem] = useState("");
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.focus(), []);
  const save = () => api.signIn(name.trim()).then(done, (error: unknown) => setProblem(messageOf(error)));
  return (
    <form class="name-form" onSubmit={(event) => { event.preventDefault(); if (name.trim()) void save(); }}>
      <label for="person">Your name</label>
      <div class="row"><input id="person" ref={box} required maxLength={60} autocomplete="name" value={name} onInput={(event) => setName(event.currentTarget.value)} /><button class="primary">Go on</button></div>
      {problem && <p class="problem" role="alert">{problem}</p>}
    </form>
  );
}

function AskName({ setMe }: { setMe(session: Session): void }) {
  return (
    <div class="ask-name">
      <h1>Who are you?</h1>
      <p class="lede">Your name is written beside your answers, so that several people can work together. It stays on this machine.</p>
      <NameForm first="" done={setMe} />
    </div>
  );
}

function ProjectFrame({ id, view }: { id: string; view: View }) {
  const loaded = useLoaded(() => api.project(id), [id]);
  return <Show loaded={loaded}>{(project) => <OpenedProject project={project} view={view} />}</Show>;
}

function OpenedProject({ project, view }: { project: Project; view: View }) {
  const [state, setState] = useState<State>(project.state);
  const [version, setVersion] = useState(0);
  const [notice, setNotice] = useState<Notice | null>(null);
  const touch = useCallback(() => setVersion((v) => v + 1), []);
  useEffect(() => listen(project.id, { state: setState, model: touch, answer: () => undefined }), [project.id]);
  useEffect(() => setNotice(null), [view]);
  useEffect(() => {
    document.title = `${VIEWS[view]} · ${project.name} · spherepair`;
  }, [view, project.name]);
  const open = useMemo(
    () => ({ project, state, setState, version, touch, notify: setNotice }),
    [project, state, version],
  );
  return (
    <ProjectContext.Provider value={open}>
      <p class="project-name"><bdi>{project.name}</bdi></p>
      <Toast notice={notice} close={() => setNotice(null)} undo={async (what) => {
        try {
          let isUndone = true;
          if (typeof what === "number") {
            const undone = await api.undo(project.id, what);
            setState(undone.state);
            isUndone = Boolean(undone.undone);
          } else await what();
          setNotice({ text: isUndone ? "Undone." : "There is nothing to undo." });
          touch();
        } catch (error) {
          setNotice({ text: messageOf(error), isError: true });
        }
      }} />
      {view === "answer" && <AnswerView />}
      {view === "look" && <LookView />}
      {view === "disagreements" && <DisagreementsView />}
      {view === "take" && <TakeView />}
    </ProjectContext.Provider>
  );
}

function Toast({ notice, close, undo }: { notice: Notice | null; close(): void; undo(what: NonNullable<Notice["undo"]>): void }) {
  return (
    <div class="toast" role="status">
      {notice && (
        <p class={notice.isError ? "problem" : ""}>
          <bdi>{notice.text}</bdi>
          {notice.link && <a href={notice.link.href}>{notice.link.text}</a>}
          {notice.undo !== undefined && <button type="button" onClick={() => undo(notice.undo!)}>Undo</button>}
          <button type="button" class="link" aria-label="Close this message" onClick={close}>×</button>
        </p>
      )}
    </div>
  );
}

applyTheme();
render(<App />, document.getElementById("app")!);
