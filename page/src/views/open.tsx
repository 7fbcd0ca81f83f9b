// Open: the projects that there are, and a new one from a file.
import { useState } from "preact/hooks";
import * as api from "../api";
import type { Columns, DamagedProject, Preview, ProjectSummary } from "../contract";
import { FileDrop } from "../filedrop";
import { SmallItem } from "../item";
import { Show, useLoaded } from "../loading";
import { count, messageOf, when } from "../words";

const KINDS = ".csv,.parquet,.jsonl,.zip";

export function OpenView() {
  const projects = useLoaded(api.projects, []);
  return (
    <div class="open">
      <h1>Sort your data by saying what belongs together</h1>
      <p class="lede">
        You look at a few items and say which belong together. The program finds the groups and sorts all the rest.
        Nothing leaves this machine.
      </p>
      <section aria-labelledby="go-on">
        <h2 id="go-on">Go on with</h2>
        <Show loaded={projects}>{(list) => <Projects list={list} />}</Show>
      </section>
      <NewProject />
    </div>
  );
}

function Projects({ list }: { list: (ProjectSummary | DamagedProject)[] }) {
  if (!list.length) return <p class="quiet">Nothing yet. Start with a file below.</p>;
  return (
    <ul class="projects">
      {list.map((project) => (
        <li key={project.id}>
          {"problem" in project ? <p class="problem"><strong>{project.id}</strong> {project.problem}</p> : <ProjectLink project={project} />}
        </li>
      ))}
    </ul>
  );
}

function ProjectLink({ project }: { project: ProjectSummary }) {
  return (
    <a href={`#/${encodeURIComponent(project.id)}/answer`}>
      <strong dir="auto">{project.name}</strong>
      <span>{count(project.rows, "item")} · {count(project.answers, "answer")} · {count(project.groups, "group")}</span>
      <span class="quiet">{when(project.opened) && `opened ${when(project.opened)}`}</span>
    </a>
  );
}

const NO_COLUMNS: Columns = { text: null, images: null, id: null };

function NewProject() {
  const [file, setFile] = useState<File | null>(null);
  const [preview, setPreview] = useState<Preview | null>(null);
  const [columns, setColumns] = useState(NO_COLUMNS);
  const [name, setName] = useState("");
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState("");

  const attempt = async (what: string, work: () => Promise<void>) => {
    setBusy(what);
    setProblem("");
    await work().catch((error: unknown) => setProblem(messageOf(error)));
    setBusy("");
  };
  const choose = (chosen: File) =>
    attempt("Reading the file …", async () => {
      setFile(null);
      const seen = await api.preview(chosen, null);
      setFile(chosen);
      setPreview(seen);
      setColumns({ ...NO_COLUMNS, ...seen.suggested });
      setName(chosen.name.replace(/\.[^.]*$/, ""));
    });
  const pick = (some: Partial<Columns>) =>
    attempt("Reading the file …", async () => {
      const next = { ...columns, ...some };
      setColumns(next);
      if (file) setPreview(await api.preview(file, next));
    });
  const start = () =>
    attempt("Making everything ready …", async () => {
      if (!file) return;
      const made = await api.upload(file, name.trim() || file.name, columns);
      location.hash = `#/${encodeURIComponent(made.id)}/answer`;
    });

  return (
    <section aria-labelledby="new">
      <h2 id="new">Start with a file</h2>
      <FileDrop label="Choose a file, or drop it here" hint="A table (csv, parquet, jsonl) or a zip of pictures." accept={KINDS} onFile={choose} />
      <p class="quiet" role="status">{busy}</p>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {file && preview && (
        <form class="new-project" onSubmit={(event) => { event.preventDefault(); void start(); }}>
          <label>Name <input required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
          <ColumnChoice label="Text to read" value={columns.text} preview={preview} onPick={(text) => pick({ text })} />
          <ColumnChoice label="Pictures" value={columns.images} preview={preview} onPick={(images) => pick({ images })} />
          <ColumnChoice label="What to call an item" value={columns.id} preview={preview} onPick={(id) => pick({ id })} />
          <h3>This is how items will look</h3>
          <ul class="thumbs">{preview.items.map((item) => <li key={item.row} class="option"><SmallItem item={item} /></li>)}</ul>
          <div class="buttons"><button class="primary" disabled={busy !== ""}>Start</button></div>
        </form>
      )}
    </section>
  );
}

interface ColumnChoiceProps {
  label: string;
  value: string | null;
  preview: Preview;
  onPick(column: string | null): void;
}

function ColumnChoice({ label, value, preview, onPick }: ColumnChoiceProps) {
  if (!preview.columns.length) return null;
  return (
    <label>
      {label}
      <select value={value ?? ""} onChange={(event) => onPick(event.currentTarget.value || null)}>
        <option value="">no column</option>
        {preview.columns.map((column) => (
          <option key={column.name} value={column.name}>
            {column.examples.length ? `${column.name} (such as ${String(column.examples[0]).slice(0, 30)})` : column.name}
          </option>
        ))}
      </select>
    </label>
  );
}
