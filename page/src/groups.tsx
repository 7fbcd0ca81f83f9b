// The groups: their names, their typical, unsure and odd items, and what changed in them.
import { useRef, useState } from "preact/hooks";
import * as api from "./api";
import type { Group, Item } from "./contract";
import { SmallItem } from "./item";
import { colorOf } from "./map/colors";
import type { Plan } from "./mend";
import { useProject } from "./project";
import { count, messageOf } from "./words";

export interface GroupsProps {
  groups: Group[];
  open: Group["id"] | null;
  setOpen(id: Group["id"] | null): void;
  chosen: ReadonlySet<number>;
  choose(row: number, group: Group): void;
  plan(plan: Plan): void;
}

export function Groups({ groups, open, setOpen, ...rest }: GroupsProps) {
  return (
    <ul class="groups">
      {groups.map((group) => (
        <li key={group.id} class={open === group.id ? "group open" : "group"}>
          <Head group={group} isOpen={open === group.id} toggle={() => setOpen(open === group.id ? null : group.id)} />
          {open === group.id && <Inside group={group} groups={groups} {...rest} />}
        </li>
      ))}
    </ul>
  );
}

export function Swatch({ id }: { id: Group["id"] }) {
  return <span class="swatch" aria-hidden="true" style={{ "--group": colorOf(id) }} />;
}

function Head({ group, isOpen, toggle }: { group: Group; isOpen: boolean; toggle(): void }) {
  const { project, touch, notify } = useProject();
  const [draft, setDraft] = useState<string | null>(null);
  const pencil = useRef<HTMLButtonElement>(null);
  const stop = () => {
    setDraft(null);
    requestAnimationFrame(() => pencil.current?.focus());
  };
  const save = async () => {
    const name = draft?.trim();
    stop();
    if (!name || name === group.name) return;
    try {
      await api.rename(project.id, group.id, name);
      touch();
      const before = group.name;
      notify({
        text: `“${before}” is now “${name}”.`,
        undo: async () => void (await api.rename(project.id, group.id, before)),
      });
    } catch (error) {
      notify({ text: messageOf(error), isError: true });
    }
  };
  if (draft !== null) {
    return (
      <form class="group-head" onSubmit={(event) => { event.preventDefault(); void save(); }}>
        <Swatch id={group.id} />
        <input
          aria-label={`New name for ${group.name}`} value={draft} maxLength={120} ref={start}
          onInput={(event) => setDraft(event.currentTarget.value)} onKeyDown={(event) => event.key === "Escape" && stop()}
        />
        <button class="primary">Keep</button>
      </form>
    );
  }
  return (
    <div class="group-head">
      <Swatch id={group.id} />
      <h3><button type="button" class="plain" aria-expanded={isOpen} onClick={toggle}><bdi>{group.name}</bdi></button></h3>
      <span class="quiet">{count(group.size, "item")}</span>
      <button type="button" class="link" ref={pencil} aria-label={`Rename ${group.name}`} onClick={() => setDraft(group.name)}>Rename</button>
      <Change group={group} />
    </div>
  );
}

/** Begin to write as soon as the box is there. */
function start(box: HTMLInputElement | null): void {
  if (!box) return;
  box.focus();
  box.select();
}

function Change({ group: { change } }: { group: Group }) {
  if (!change || (!change.in && !change.out && !change.note)) return null;
  const parts = [change.in && `${change.in} came`, change.out && `${change.out} left`, change.note].filter(Boolean);
  return <p class="quiet change"><bdi>{parts.join(", ")}</bdi></p>;
}

type InsideProps = Omit<GroupsProps, "open" | "setOpen"> & { group: Group };

const PARTS: ["typical" | "unsure" | "odd", string][] = [
  ["typical", "Typical"],
  ["unsure", "Could also be elsewhere"],
  ["odd", "Unlike the others"],
];

function Inside({ group, groups, chosen, choose, plan }: InsideProps) {
  return (
    <div class="inside">
      {PARTS.map(([part, title]) => group[part].length > 0 && (
        <div key={part}>
          <h4>{title}</h4>
          <ul class="thumbs">
            {group[part].map((item) => <Thumb key={item.row} item={item} isChosen={chosen.has(item.row)} toggle={() => choose(item.row, group)} />)}
          </ul>
        </div>
      ))}
      <p class="quiet">Is this really several groups? Tick one item of each, then split the group around them.</p>
      <Merge group={group} groups={groups} plan={plan} />
    </div>
  );
}

function Thumb({ item, isChosen, toggle }: { item: Item; isChosen: boolean; toggle(): void }) {
  return (
    <li>
      <label class={isChosen ? "option chosen" : "option"}>
        <SmallItem item={item} />
        <span class="foot"><input type="checkbox" checked={isChosen} onChange={toggle} aria-label={`Choose item ${item.id}`} /><span class="caption"><bdi>{item.id}</bdi></span></span>
      </label>
    </li>
  );
}

function Merge({ group, groups, plan }: { group: Group; groups: Group[]; plan(plan: Plan): void }) {
  const others = groups.filter((other) => other.id !== group.id);
  const [target, setTarget] = useState("");
  const other = others.find((one) => String(one.id) === target) ?? others[0];
  if (!other) return null;
  return (
    <div class="actions">
      <label>
        The same as
        <select value={String(other.id)} onChange={(event) => setTarget(event.currentTarget.value)}>
          {others.map((one) => <option key={one.id} value={String(one.id)}>{one.name}</option>)}
        </select>
      </label>
      <button type="button" onClick={() => plan({ title: `Merge “${group.name}” and “${other.name}”?`, gesture: { action: "merge", groups: [group.id, other.id] } })}>
        Merge the two
      </button>
    </div>
  );
}
