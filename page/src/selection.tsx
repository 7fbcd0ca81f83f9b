// The items that are chosen, and what can be done with them.
import { useState } from "preact/hooks";
import * as api from "./api";
import type { Group, GroupName } from "./contract";
import { SmallItem } from "./item";
import { Show, useLoaded } from "./loading";
import type { Plan } from "./mend";
import { useProject } from "./project";
import { count, whole } from "./words";

const SHOWN = 12;

export interface SelectionProps {
  rows: number[];
  groups: Group[];
  /** The group that all chosen items are in, if it is one. */
  from: GroupName | null;
  plan(plan: Plan): void;
  clear(): void;
}

export function Selection({ rows, groups, from, plan, clear }: SelectionProps) {
  const { project } = useProject();
  const shown = rows.slice(0, SHOWN);
  const loaded = useLoaded(() => api.items(project.id, shown), [shown.join(",")]);
  const [target, setTarget] = useState("");
  const chosen = count(rows.length, "item");
  const move = () => {
    const to = groups.find((group) => String(group.id) === target);
    plan({
      title: to ? `Move ${chosen} to “${to.name}”?` : `Make a new group of ${chosen}?`,
      gesture: { action: "move", rows, to: to ? to.id : null },
    });
  };
  return (
    <section class="selection" aria-label="Chosen items">
      <header>
        <h2><span role="status">{chosen} chosen</span></h2>
        <button type="button" class="link" onClick={clear}>Let go</button>
      </header>
      <Show loaded={loaded}>
        {(items) => <ul class="thumbs">{items.map((item) => <li key={item.row} class="option"><SmallItem item={item} /></li>)}</ul>}
      </Show>
      {rows.length > SHOWN && <p class="quiet">and {whole(rows.length - SHOWN)} more</p>}
      <div class="actions">
        <label>
          Move to
          <select value={target} onChange={(event) => setTarget(event.currentTarget.value)}>
            <option value="">a new group</option>
            {groups.filter((group) => group.id !== from?.id).map((group) => (
              <option key={group.id} value={String(group.id)}>{group.name}</option>
            ))}
          </select>
        </label>
        <button type="button" onClick={move}>Move</button>
        {from && (
          <button type="button" onClick={() => plan({ title: `Not in “${from.name}”?`, gesture: { action: "remove", group: from.id, rows } })}>
            Not in this group
          </button>
        )}
        {from && rows.length > 1 && rows.length <= 9 && (
          <button type="button" onClick={() => plan({ title: `Split “${from.name}”?`, gesture: { action: "split", group: from.id, seeds: rows } })}>
            Split the group: one part around each
          </button>
        )}
      </div>
    </section>
  );
}
