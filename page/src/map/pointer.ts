// What a finger or a mouse does on the map: move it, draw a line around items, carry chosen items to a group.
import type { MapView } from "./view";

export type Mode = "move" | "choose";

export interface PointerTells {
  mode(): Mode;
  isChosen(row: number): boolean;
  /** Pointing at a row, or at nothing. */
  point(row: number | null, x: number, y: number): void;
  choose(rows: number[], adds: boolean): void;
  /** Chosen items are carried over a group, and dropped when `isOver`. */
  carry(group: number | null, isOver: boolean): void;
  line(points: [number, number][]): void;
}

type Doing = "nothing" | "panning" | "drawing" | "carrying" | "pinching";

export function followPointer(canvas: HTMLCanvasElement, view: MapView, tell: PointerTells): () => void {
  const down = new Map<number, [number, number]>();
  let doing: Doing = "nothing";
  let line: [number, number][] = [];
  let travelled = 0;

  const at = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const spread = (): number => {
    const [[x1, y1], [x2, y2]] = [...down.values()] as [[number, number], [number, number]];
    return Math.hypot(x1 - x2, y1 - y2) || 1;
  };
  const begin = (x: number, y: number): Doing => {
    if (down.size > 1) return "pinching";
    if (tell.mode() === "move") return "panning";
    const row = view.rowAt(x, y);
    return row !== null && tell.isChosen(row) ? "carrying" : "drawing";
  };

  const press = (event: PointerEvent) => {
    canvas.setPointerCapture(event.pointerId);
    const [x, y] = at(event);
    down.set(event.pointerId, [x, y]);
    doing = begin(x, y);
    travelled = 0;
    line = [[x, y]];
    tell.point(null, x, y);
  };

  const drag = (event: PointerEvent) => {
    const [x, y] = at(event);
    const before = down.get(event.pointerId);
    if (!before) return tell.point(event.pointerType === "mouse" ? view.rowAt(x, y) : null, x, y);
    const width = doing === "pinching" ? spread() : 1;
    down.set(event.pointerId, [x, y]);
    const [dx, dy] = [x - before[0], y - before[1]];
    travelled += Math.hypot(dx, dy);
    if (doing === "panning") view.pan(dx, dy);
    if (doing === "pinching") view.zoom(spread() / width, x, y);
    if (doing === "carrying") tell.carry(view.groupAt(x, y), false);
    if (doing === "drawing") {
      line.push([x, y]);
      tell.line(line);
    }
  };

  const release = (event: PointerEvent) => {
    if (!down.delete(event.pointerId)) return;
    const [x, y] = at(event);
    const [was, isClick] = [doing, travelled < 5];
    doing = "nothing";
    tell.line([]);
    if (event.type === "pointercancel" || was === "pinching") return tell.carry(null, false);
    if (isClick) {
      const row = view.rowAt(x, y);
      tell.carry(null, false);
      if (row !== null || was === "drawing") tell.choose(row === null ? [] : [row], event.shiftKey);
    } else if (was === "drawing") {
      tell.choose(view.rowsInside(line), event.shiftKey);
    } else if (was === "carrying") {
      tell.carry(view.groupAt(x, y), true);
    }
  };

  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    view.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...at(event));
  };
  const leave = () => tell.point(null, 0, 0);

  const listeners = { pointerdown: press, pointermove: drag, pointerup: release, pointercancel: release, pointerleave: leave, wheel };
  for (const [name, listener] of Object.entries(listeners)) {
    canvas.addEventListener(name, listener as EventListener, { passive: false });
  }
  return () => {
    for (const [name, listener] of Object.entries(listeners)) canvas.removeEventListener(name, listener as EventListener);
  };
}
