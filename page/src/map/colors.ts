// Colors of groups: a group keeps its color for as long as the page is open, whatever happens to the others.

const FIRST = [
  "#3d7ab8", "#d9822b", "#4a9d5b", "#c2504f", "#8a6bb8", "#2f9fae", "#d072a8", "#a09a2c", "#9a7358", "#5b5fc7", "#6d9b2f", "#b34a86",
];
const places = new Map<string, number>();

function place(id: string | number): number {
  const key = String(id);
  const found = places.get(key) ?? places.size;
  places.set(key, found);
  return found;
}

/** The color as the style sheet takes it. */
export function colorOf(id: string | number): string {
  return colorAt(place(id));
}

function colorAt(k: number): string {
  const color = FIRST[k];
  if (color) return color;
  // The golden angle keeps the hues of any number of groups apart.
  const [r, g, b] = fromHue((k * 137.508) % 360, 0.45, 0.5 + 0.1 * (k % 2));
  return `#${[r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("")}`;
}

function fromHue(hue: number, saturation: number, lightness: number): [number, number, number] {
  const a = saturation * Math.min(lightness, 1 - lightness);
  const channel = (n: number) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (lightness - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

/** Red, green and blue from 0 to 255. */
export function rgbOf(id: string | number): [number, number, number] {
  const value = Number.parseInt(colorOf(id).slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

export const NO_GROUP: [number, number, number] = [138, 145, 153];
