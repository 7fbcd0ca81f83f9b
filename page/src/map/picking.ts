// Which points lie under the pointer or inside a line drawn around them.
import KDBush from "kdbush";

export class Picking {
  private readonly index: KDBush;

  constructor(private readonly xy: Float32Array) {
    const n = xy.length / 2;
    this.index = new KDBush(Math.max(1, n), 64, Float32Array);
    for (let k = 0; k < n; k++) this.index.add(xy[2 * k]!, xy[2 * k + 1]!);
    if (n === 0) this.index.add(0, 0);
    this.index.finish();
  }

  /** The row nearest to a place, within a radius. */
  nearest(x: number, y: number, radius: number): number | null {
    let best: number | null = null;
    let least = Infinity;
    for (const row of this.index.within(x, y, radius)) {
      const distance = (this.xy[2 * row]! - x) ** 2 + (this.xy[2 * row + 1]! - y) ** 2;
      if (distance < least) [best, least] = [row, distance];
    }
    return best;
  }

  /** The rows inside a polygon. */
  inside(polygon: [number, number][]): number[] {
    if (polygon.length < 3) return [];
    const xs = polygon.map(([x]) => x);
    const ys = polygon.map(([, y]) => y);
    const box = this.index.range(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys));
    return box.filter((row) => contains(polygon, this.xy[2 * row]!, this.xy[2 * row + 1]!)).sort((a, b) => a - b);
  }
}

/** Even-odd rule. */
function contains(polygon: [number, number][], x: number, y: number): boolean {
  let inside = false;
  for (let k = 0, j = polygon.length - 1; k < polygon.length; j = k++) {
    const [x1, y1] = polygon[k]!;
    const [x2, y2] = polygon[j]!;
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
  }
  return inside;
}
