// Look and mend: the map, the groups, a search, and what is done with chosen items.
import { useMemo, useState } from "preact/hooks";
import * as api from "../api";
import type { Found, Group, GroupName } from "../contract";
import { Groups, Swatch } from "../groups";
import { SmallItem } from "../item";
import { Show, useLoaded } from "../loading";
import { Map } from "../map/map";
import { decode, NONE, type Points } from "../map/points";
import { Confirm, type Plan } from "../mend";
import { useProject } from "../project";
import { Selection } from "../selection";
import { count, messageOf } from "../words";

interface Picture {
  points: Points;
  groups: Group[];
}

export function LookView() {
  const { project, version } = useProject();
  const loaded = useLoaded<Picture>(async () => {
    const [buffer, groups] = await Promise.all([api.map(project.id, version), api.groups(project.id)]);
    return { points: decode(buffer), groups };
  }, [project.id, version]);
  return (
    <div class="look">
      <h1>The groups</h1>
      <Show loaded={loaded}>{(picture) => <Picture {...picture} />}</Show>
    </div>
  );
}

function Picture({ points, groups }: Picture) {
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [open, setOpen] = useState<Group["id"] | null>(null);
  const [plan, setPlan] = useState<Plan | null>(null);
  const choose = (rows: number[], adds: boolean) => setChosen(new Set(adds ? [...chosen, ...rows] : rows));
  const toggle = (row: number) => {
    const next = new Set(chosen);
    if (!next.delete(row)) next.add(row);
    setChosen(next);
  };
  const rows = useMemo(() => [...chosen], [chosen]);
  const from = useMemo(() => homeOf(rows, points), [rows, points]);
  const drop = (index: number) => {
    const to = points.groups[index];
    if (!to || !rows.length) return;
    setPlan({ title: `Move ${count(rows.length, "item")} to “${to.name}”?`, gesture: { action: "move", rows, to: to.id } });
  };
  return (
    <>
      <Changes groups={groups} />
      <div class="picture">
        <Map points={points} chosen={chosen} choose={choose} drop={drop} />
        <div class="lists">
          {rows.length > 0 && <Selection rows={rows} groups={groups} from={from} plan={setPlan} clear={() => setChosen(new Set())} />}
          <Search chosen={chosen} toggle={toggle} />
          <h2 id="groups-title">{count(groups.length, "group")}</h2>
          {!groups.length && <p class="quiet">There are no groups yet. Answer some questions first.</p>}
          <Groups groups={groups} open={open} setOpen={setOpen} chosen={chosen} choose={toggle} plan={setPlan} />
        </div>
      </div>
      {plan && (
        <Confirm
          key={plan.title} plan={plan}
          close={(done) => { setPlan(null); if (done) setChosen(new Set()); }}
        />
      )}
    </>
  );
}

/** The group that all rows are in, if it is one. */
function homeOf(rows: number[], { group, groups }: Points): GroupName | null {
  const first = group[rows[0] ?? -1] ?? NONE;
  return rows.every((row) => group[row] === first) ? (groups[first] ?? null) : null;
}

function Changes({ groups }: { groups: Group[] }) {
  const came = groups.reduce((sum, { change }) => sum + (change?.in ?? 0), 0);
  const notes = groups.flatMap(({ name, change }) => (change?.note ? [`${name}: ${change.note}`] : []));
  if (!came && !notes.length) return null;
  return (
    <p class="lede">
      Since the last update {count(came, "item")} changed the group. {notes.map((note) => <bdi key={note}>{note}. </bdi>)}
    </p>
  );
}

function Search({ chosen, toggle }: { chosen: ReadonlySet<number>; toggle(row: number): void }) {
  const { project } = useProject();
  const [words, setWords] = useState("");
  const [found, setFound] = useState<Found[] | null>(null);
  const [problem, setProblem] = useState("");
  const look = async () => {
    setProblem("");
    if (!words.trim()) return setFound(null);
    await api.search(project.id, words.trim()).then(setFound, (error: unknown) => setProblem(messageOf(error)));
  };
  return (
    <form class="search" role="search" onSubmit={(event) => { event.preventDefault(); void look(); }}>
      <label for="search">Find items</label>
      <div class="row"><input id="search" type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} /><button>Find</button></div>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {found && <p class="quiet" role="status">{found.length ? `${count(found.length, "item")} found` : "Nothing found."}</p>}
      {found && found.length > 0 && (
        <ul class="found">
          {found.map(({ item, group }) => (
            <li key={item.row}>
              <label class={chosen.has(item.row) ? "option chosen" : "option"}>
                <SmallItem item={item} />
                <span class="foot">
                  <input type="checkbox" checked={chosen.has(item.row)} onChange={() => toggle(item.row)} aria-label={`Choose item ${item.id}`} />
                  {group ? <><Swatch id={group.id} /><bdi>{group.name}</bdi></> : "no group yet"}
                </span>
              </label>
            </li>
          ))}
        </ul>
      )}
    </form>
  );
}
