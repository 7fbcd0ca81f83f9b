// The map as the server sends it: a header in JSON, places, groups and how sure each is.
import type { GroupName } from "../contract";
import { NO_GROUP, rgbOf } from "./colors";

export const NONE = 65535;

export interface Points {
  n: number;
  version: number;
  groups: (GroupName & { size: number })[];
  /** x and y of each row, in turn, from -1 to 1. */
  xy: Float32Array<ArrayBuffer>;
  /** Position in `groups`, or NONE. */
  group: Uint16Array;
  confidence: Uint8Array;
}

export function decode(buffer: ArrayBuffer): Points {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Pick<Points, "n" | "version" | "groups">;
  const start = Math.ceil((4 + length) / 4) * 4;
  const { n } = header;
  return {
    ...header,
    xy: new Float32Array(buffer, start, 2 * n),
    group: new Uint16Array(buffer, start + 8 * n, n),
    confidence: new Uint8Array(buffer, start + 10 * n, n),
  };
}

/** Red, green, blue and alpha of each row: the less sure, the fainter. */
export function colorsOf({ n, groups, group, confidence }: Points): Uint8Array<ArrayBuffer> {
  const palette = groups.map(({ id }) => rgbOf(id));
  const colors = new Uint8Array(4 * n);
  for (let k = 0; k < n; k++) {
    const [r, g, b] = palette[group[k]!] ?? NO_GROUP;
    colors[4 * k] = r;
    colors[4 * k + 1] = g;
    colors[4 * k + 2] = b;
    colors[4 * k + 3] = 110 + (confidence[k]! * 145) / 255;
  }
  return colors;
}

export interface Label {
  index: number;
  name: string;
  size: number;
  x: number;
  y: number;
}

/** A name at the middle of each group, the largest group first. */
export function labelsOf({ n, groups, group, xy }: Points): Label[] {
  const sums = groups.map(() => ({ x: 0, y: 0, n: 0 }));
  for (let k = 0; k < n; k++) {
    const sum = sums[group[k]!];
    if (!sum) continue;
    sum.x += xy[2 * k]!;
    sum.y += xy[2 * k + 1]!;
    sum.n += 1;
  }
  return groups
    .map(({ name }, index) => ({ index, name, ...sums[index]! }))
    .filter((sum) => sum.n > 0)
    .map(({ index, name, x, y, n: size }) => ({ index, name, size, x: x / size, y: y / size }))
    .sort((a, b) => b.size - a.size);
}
