// The map on the screen: paints when something changed, moves points to new places, writes names on groups.
import { type Camera, panned, type Size, START, toMap, toScreen, zoomed } from "./camera";
import { type Painter, painterFor } from "./painters";
import { Picking } from "./picking";
import { colorsOf, type Label, labelsOf, NONE, type Points } from "./points";

const WAY = 700;
const MOST_LABELS = 40;
/** Milliseconds after which a map that was moved counts as still. */
const REST = 140;

export class MapView {
  readonly painter: Painter;
  camera: Camera = START;
  private points: Points | null = null;
  private picking: Picking | null = null;
  private labels: Label[] = [];
  private started = -Infinity;
  private frame = 0;
  private resting = 0;

  constructor(private readonly canvas: HTMLCanvasElement, private readonly names: HTMLElement) {
    this.painter = painterFor(canvas);
    canvas.dataset.painter = this.painter.kind;
  }

  get size(): Size {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  /** New places: every point travels there from where it was. */
  show(points: Points): void {
    const before = this.points?.n === points.n ? this.points.xy : points.xy;
    const isStill = before === points.xy || matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.points = points;
    this.picking = null;
    this.labels = labelsOf(points);
    this.painter.setPoints(before, points.xy, colorsOf(points));
    this.started = isStill ? -Infinity : performance.now();
    this.redraw();
  }

  mark(rows: Iterable<number>): void {
    const marks = new Uint8Array(this.points?.n ?? 0);
    let any = false;
    for (const row of rows) {
      marks[row] = 1;
      any = true;
    }
    this.painter.setMarks(marks, any);
    this.redraw();
  }

  look(camera: Camera): void {
    this.camera = camera;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.resting = 0;
      this.redraw();
    }, REST);
    this.redraw();
  }

  pan(dx: number, dy: number): void {
    this.look(panned(this.camera, this.size, dx, dy));
  }

  zoom(factor: number, x?: number, y?: number): void {
    this.look(zoomed(this.camera, this.size, factor, x, y));
  }

  /** The row under a place on the screen. */
  rowAt(x: number, y: number, reach = 10): number | null {
    const [mapX, mapY] = toMap(this.camera, this.size, x, y);
    const [edge] = toMap(this.camera, this.size, x + reach, y);
    return this.index()?.nearest(mapX, mapY, edge - mapX) ?? null;
  }

  /** The rows inside a line on the screen. */
  rowsInside(line: [number, number][]): number[] {
    return this.index()?.inside(line.map(([x, y]) => toMap(this.camera, this.size, x, y))) ?? [];
  }

  /** The group of the points around a place on the screen. */
  groupAt(x: number, y: number): number | null {
    const row = this.rowAt(x, y, 40);
    const group = row === null ? NONE : (this.points?.group[row] ?? NONE);
    return group === NONE ? null : group;
  }

  redraw(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.resting);
  }

  /** Built when it is first needed: half a second for a million points. */
  private index(): Picking | null {
    if (!this.picking && this.points) this.picking = new Picking(this.points.xy);
    return this.picking;
  }

  private paint(): void {
    this.frame = 0;
    if (!this.size.width) return;
    const way = Math.min(1, (performance.now() - this.started) / WAY);
    this.painter.paint(this.camera, this.size, way * way * (3 - 2 * way), way < 1 || this.resting !== 0);
    this.writeNames();
    if (way < 1) this.redraw();
  }

  /** Names that would cover another name are left out. */
  private writeNames(): void {
    const taken: [number, number, number][] = [];
    const shown: HTMLElement[] = [];
    for (const label of this.labels.slice(0, 4 * MOST_LABELS)) {
      const [x, y] = toScreen(this.camera, this.size, label.x, label.y);
      const half = 4 + 4 * Math.min(24, label.name.length);
      const isOff = x < 0 || y < 0 || x > this.size.width || y > this.size.height;
      const covers = taken.some(([a, b, c]) => Math.abs(a - x) < half + c && Math.abs(b - y) < 22);
      if (isOff || covers || shown.length >= MOST_LABELS) continue;
      taken.push([x, y, half]);
      const name = document.createElement("bdi");
      name.textContent = label.name;
      name.dataset.group = String(label.index);
      name.style.setProperty("translate", `calc(${Math.round(x)}px - 50%) calc(${Math.round(y)}px - 50%)`);
      shown.push(name);
    }
    this.names.replaceChildren(...shown);
  }
}
