// Take away: labels, pairs, model, report; and groups for new items.
import { useState } from "preact/hooks";
import * as api from "../api";
import { FileDrop } from "../filedrop";
import { useProject } from "../project";
import { messageOf } from "../words";

const FILES: [string, string, string][] = [
  ["labels?format=csv&escape=true", "Groups of all items, as a table", "csv, opens in any spreadsheet"],
  ["labels?format=parquet", "Groups of all items, for programs", "parquet"],
  ["pairs?format=csv", "What you said", "csv, a line says whether two items belong together"],
  ["pairs?format=jsonl", "What you said, for programs", "json lines"],
  ["report", "A report to send round", "one html file"],
  ["model", "What was learned", "zip, for sorting new items with spherepair predict"],
];

export function TakeView() {
  const { project } = useProject();
  const [said, setSaid] = useState("");
  const [problem, setProblem] = useState("");
  const keep = async (what: string) => {
    setProblem("");
    setSaid("Writing the file …");
    try {
      const { blob, name } = await api.fetchExport(project.id, what);
      save(blob, name);
      setSaid(`${name} is in your downloads.`);
    } catch (error) {
      setSaid("");
      setProblem(messageOf(error));
    }
  };
  return (
    <div class="take">
      <h1>Take away</h1>
      <ul class="files">
        {FILES.map(([what, name, kind]) => (
          <li key={what}>
            <a href={api.exportOf(project.id, what)} download="" onClick={(event) => { event.preventDefault(); void keep(what); }}>
              <strong>{name}</strong><span class="quiet">{kind}</span>
            </a>
          </li>
        ))}
      </ul>
      <p role="status">{said}</p>
      {problem && <p class="problem" role="alert">{problem}</p>}
      <SortNew />
    </div>
  );
}

function SortNew() {
  const { project } = useProject();
  const [said, setSaid] = useState("");
  const [problem, setProblem] = useState("");
  const sort = async (file: File) => {
    setProblem("");
    setSaid("Sorting …");
    try {
      save(await api.predict(project.id, file), `${file.name.replace(/\.[^.]*$/, "")}-groups.csv`);
      setSaid("Done. The table is in your downloads.");
    } catch (error) {
      setSaid("");
      setProblem(messageOf(error));
    }
  };
  return (
    <section aria-labelledby="sort-new">
      <h2 id="sort-new">Sort new items</h2>
      <p>Give a file with the same columns. You get a table that says which group each item belongs to.</p>
      <FileDrop label="Choose a file, or drop it here" hint="csv, parquet, jsonl or a zip of pictures" accept=".csv,.parquet,.jsonl,.zip" onFile={sort} />
      <p role="status">{said}</p>
      {problem && <p class="problem" role="alert">{problem}</p>}
    </section>
  );
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
