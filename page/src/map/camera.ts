// Where on the map one looks: the middle, and how near.

export interface Camera {
  x: number;
  y: number;
  zoom: number;
}

export interface Size {
  width: number;
  height: number;
}

export const START: Camera = { x: 0, y: 0, zoom: 1 };
const NEAREST = 200;
const MARGIN = 0.92;

/** Pixels of the screen to one unit of the map. */
export const unitOf = ({ zoom }: Camera, { width, height }: Size): number => (Math.min(width, height) / 2) * MARGIN * zoom;

export function toScreen(camera: Camera, size: Size, x: number, y: number): [number, number] {
  const unit = unitOf(camera, size);
  return [size.width / 2 + (x - camera.x) * unit, size.height / 2 - (y - camera.y) * unit];
}

export function toMap(camera: Camera, size: Size, x: number, y: number): [number, number] {
  const unit = unitOf(camera, size);
  return [camera.x + (x - size.width / 2) / unit, camera.y - (y - size.height / 2) / unit];
}

/** Nearer by a factor; the place under (x, y) on the screen stays where it is. */
export function zoomed(camera: Camera, size: Size, factor: number, x = size.width / 2, y = size.height / 2): Camera {
  const zoom = Math.min(NEAREST, Math.max(0.5, camera.zoom * factor));
  const [mapX, mapY] = toMap(camera, size, x, y);
  const [newX, newY] = toMap({ ...camera, zoom }, size, x, y);
  return { x: camera.x + mapX - newX, y: camera.y + mapY - newY, zoom };
}

/** Moved by pixels of the screen. */
export function panned(camera: Camera, size: Size, dx: number, dy: number): Camera {
  const unit = unitOf(camera, size);
  return { ...camera, x: camera.x - dx / unit, y: camera.y + dy / unit };
}
