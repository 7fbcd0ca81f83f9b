// The map of all items, with its buttons and the tip under the pointer.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import type { Item } from "../contract";
import { SmallItem } from "../item";
import { useProject } from "../project";
import { START } from "./camera";
import { followPointer, type Mode } from "./pointer";
import { NONE, type Points } from "./points";
import { MapView } from "./view";

export interface MapProps {
  points: Points;
  chosen: ReadonlySet<number>;
  choose(rows: number[], adds: boolean): void;
  /** Chosen items were dropped onto a group, a position in `points.groups`. */
  drop(group: number): void;
}

interface Tip {
  row: number;
  x: number;
  y: number;
  item: Item | null;
}

export function Map(props: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const names = useRef<HTMLDivElement>(null);
  const lasso = useRef<SVGPolylineElement>(null);
  const view = useRef<MapView | null>(null);
  const [mode, setMode] = useState<Mode>("move");
  const [over, setOver] = useState<number | null>(null);
  const [tip, point] = useTip();
  const latest = useRef({ ...props, mode });
  latest.current = { ...props, mode };

  useEffect(() => {
    const now = new MapView(canvas.current!, names.current!);
    view.current = now;
    const unfollow = followPointer(canvas.current!, now, {
      mode: () => latest.current.mode,
      isChosen: (row) => latest.current.chosen.has(row),
      point,
      choose: (rows, adds) => latest.current.choose(rows, adds),
      carry: (group, isOver) => {
        setOver(isOver ? null : group);
        if (isOver && group !== null) latest.current.drop(group);
      },
      line: (points) => lasso.current!.setAttribute("points", points.map((p) => p.join(",")).join(" ")),
    });
    const resized = new ResizeObserver(() => now.redraw());
    resized.observe(canvas.current!);
    return () => {
      unfollow();
      resized.disconnect();
      now.close();
    };
  }, []);
  useEffect(() => view.current?.show(props.points), [props.points]);
  useEffect(() => view.current?.mark(props.chosen), [props.chosen, props.points]);

  const { groups, group, version } = props.points;
  const nameOf = (row: number) => groups[group[row] ?? NONE]?.name ?? "no group yet";
  return (
    <figure class="map">
      <div class="sheet">
        <canvas ref={canvas} class={mode} role="img" aria-label={`Map of ${props.points.n} items in ${groups.length} groups. The list of groups says the same in words.`} />
        <div ref={names} class="names" aria-hidden="true" />
        {version === 0 && <p class="quiet empty">The map comes as soon as the program has looked at all items. The groups are listed already.</p>}
        <svg class="lasso" aria-hidden="true"><polyline ref={lasso} /></svg>
        {over !== null && <p class="carry">Move to “<bdi>{groups[over]?.name}</bdi>”</p>}
        {tip && (
          <div class="tip" style={{ "--x": `${tip.x}px`, "--y": `${tip.y}px` }}>
            {tip.item && <SmallItem item={tip.item} />}
            <span class="quiet"><bdi>{nameOf(tip.row)}</bdi></span>
          </div>
        )}
      </div>
      <figcaption class="tools">
        <div class="switcher" role="group" aria-label="What dragging does">
          <button type="button" aria-pressed={mode === "move"} onClick={() => setMode("move")}>Move the map</button>
          <button type="button" aria-pressed={mode === "choose"} onClick={() => setMode("choose")}>Choose items</button>
        </div>
        <div class="switcher" role="group" aria-label="Nearer or farther">
          <button type="button" aria-label="Farther" onClick={() => view.current?.zoom(1 / 1.5)}>−</button>
          <button type="button" aria-label="Nearer" onClick={() => view.current?.zoom(1.5)}>+</button>
          <button type="button" onClick={() => view.current?.look(START)}>All</button>
        </div>
        <span class="quiet">
          {mode === "choose" ? "Draw a line around items. Drag chosen items onto another group to move them." : "Items that are alike lie close together."}
        </span>
      </figcaption>
    </figure>
  );
}

/** What the pointer is on. The item is asked for only when the pointer rests. */
function useTip(): [Tip | null, (row: number | null, x: number, y: number) => void] {
  const { project } = useProject();
  const [tip, setTip] = useState<Tip | null>(null);
  const timer = useRef(0);
  const last = useRef<number | null>(null);
  const point = (row: number | null, x: number, y: number) => {
    if (row === last.current) return;
    last.current = row;
    clearTimeout(timer.current);
    setTip(row === null ? null : { row, x, y, item: null });
    if (row === null) return;
    timer.current = setTimeout(async () => {
      const [item] = await api.items(project.id, [row]).catch(() => []);
      setTip((now) => (now?.row === row ? { ...now, item: item ?? null } : now));
    }, 80);
  };
  return [tip, point];
}
