// Two ways to paint the points: WebGL, and a plain canvas where there is none.
import * as twgl from "twgl.js";
import { type Camera, type Size, unitOf } from "./camera";

type Places = Float32Array<ArrayBuffer>;
type Bytes = Uint8Array<ArrayBuffer>;

export interface Painter {
  kind: "webgl" | "plain";
  /** Places before and after, and colors. */
  setPoints(from: Places, to: Places, colors: Bytes): void;
  /** One for each chosen row; the others fade while any is chosen. */
  setMarks(marks: Bytes, any: boolean): void;
  /** `share` of the way from the places before to the places after; a moving map may be painted roughly. */
  paint(camera: Camera, size: Size, share: number, isMoving: boolean): void;
}

export function painterFor(canvas: HTMLCanvasElement): Painter {
  const gl = hasGraphicsCard() ? canvas.getContext("webgl2", { antialias: false }) : null;
  return gl ? webglPainter(gl) : plainPainter(canvas.getContext("2d")!);
}

/** Without a graphics card WebGL is ten times slower than pixels that are written directly. */
function hasGraphicsCard(): boolean {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) return false;
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

/** Fewer points are larger. */
function diameter(n: number, zoom: number): number {
  const base = n < 3_000 ? 8 : n < 30_000 ? 5 : n < 300_000 ? 3 : 2;
  return Math.min(16, base * zoom ** 0.35);
}

const VERTEX = `#version 300 es
in vec2 from; in vec2 to; in vec4 color; in float mark;
uniform vec2 middle; uniform vec2 unit; uniform float share; uniform float diameter; uniform float faded;
out vec4 tint;
void main() {
  gl_Position = vec4((mix(from, to, share) - middle) * unit, 0.0, 1.0);
  gl_PointSize = diameter * (1.0 + 0.5 * mark);
  float alpha = mark > 0.5 ? 1.0 : color.a * (1.0 - 0.75 * faded);
  tint = vec4(color.rgb * alpha, alpha);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 tint; out vec4 pixel;
void main() {
  vec2 p = gl_PointCoord - 0.5;
  if (dot(p, p) > 0.25) discard;
  pixel = tint;
}`;

function webglPainter(gl: WebGL2RenderingContext): Painter {
  const program = twgl.createProgramInfo(gl, [VERTEX, FRAGMENT]);
  let buffers: twgl.BufferInfo | null = null;
  let n = 0;
  let faded = 0;
  return {
    kind: "webgl",
    setPoints(from, to, colors) {
      n = to.length / 2;
      for (const attribute of Object.values(buffers?.attribs ?? {})) gl.deleteBuffer(attribute.buffer);
      buffers = twgl.createBufferInfoFromArrays(gl, {
        from: { numComponents: 2, data: from },
        to: { numComponents: 2, data: to },
        color: { numComponents: 4, data: colors, normalize: true },
        mark: { numComponents: 1, data: new Uint8Array(n), normalize: false },
      });
    },
    setMarks(marks, any) {
      faded = any ? 1 : 0;
      const attribute = buffers?.attribs?.mark;
      if (attribute) twgl.setAttribInfoBufferFromArray(gl, attribute, marks);
    },
    paint(camera, size, share) {
      const ratio = Math.min(devicePixelRatio, 2);
      resize(gl.canvas as HTMLCanvasElement, size, ratio);
      gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      if (!buffers || !n) return;
      gl.enable(gl.BLEND);
      gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
      gl.useProgram(program.program);
      twgl.setBuffersAndAttributes(gl, program, buffers);
      const unit = unitOf(camera, size);
      twgl.setUniforms(program, {
        middle: [camera.x, camera.y],
        unit: [(2 * unit) / size.width, (2 * unit) / size.height],
        share,
        faded,
        diameter: diameter(n, camera.zoom) * ratio,
      });
      twgl.drawBufferInfo(gl, buffers, gl.POINTS, n);
    },
  };
}

/** Points that the plain painter can paint without stutter; a moving map of more shows some of them. */
const SMOOTH = 250_000;

/** Writes pixels: a million small discs take a twentieth of a second. */
function plainPainter(context: CanvasRenderingContext2D): Painter {
  let points = { from: new Float32Array(), to: new Float32Array(), colors: new Uint8Array() };
  let marked = { marks: new Uint8Array(), any: false };
  return {
    kind: "plain",
    setPoints(from, to, colors) {
      points = { from, to, colors };
      marked = { marks: new Uint8Array(to.length / 2), any: false };
    },
    setMarks(marks, any) {
      marked = { marks, any };
    },
    paint(camera, size, share, isMoving) {
      const n = points.to.length / 2;
      const ratio = n < SMOOTH ? Math.min(devicePixelRatio, 2) : 1;
      resize(context.canvas, size, ratio);
      const { width, height } = context.canvas;
      const image = context.createImageData(width, height);
      const radius = (diameter(n, camera.zoom) / 2) * ratio;
      const step = isMoving ? Math.ceil(n / SMOOTH) : 1;
      discs(image, points, marked, { camera, size: { width, height }, share, radius, step });
      context.putImageData(image, 0, 0);
    },
  };
}

interface Where {
  camera: Camera;
  size: Size;
  share: number;
  radius: number;
  /** Every so many-th point. */
  step: number;
}

function discs(
  image: ImageData,
  { from, to, colors }: { from: Places; to: Places; colors: Bytes },
  { marks, any }: { marks: Bytes; any: boolean },
  { camera, size, share, radius, step }: Where,
): void {
  const pixels = new Uint32Array(image.data.buffer);
  const tints = new Uint32Array(colors.buffer, colors.byteOffset, colors.length / 4);
  const unit = unitOf(camera, size);
  const [small, large] = [spansOf(radius), spansOf(1.5 * radius)];
  for (let k = 0; k < tints.length; k += step) {
    const x = from[2 * k]! + (to[2 * k]! - from[2 * k]!) * share;
    const y = from[2 * k + 1]! + (to[2 * k + 1]! - from[2 * k + 1]!) * share;
    const column = Math.round(size.width / 2 + (x - camera.x) * unit);
    const line = Math.round(size.height / 2 - (y - camera.y) * unit);
    const spans = marks[k] ? large : small;
    const reach = (spans.length - 1) / 2;
    if (column < reach || line < reach || column >= size.width - reach || line >= size.height - reach) continue;
    const tint = any && !marks[k] ? (tints[k]! & 0xffffff) | 0x30000000 : tints[k]!;
    for (let j = 0; j < spans.length; j++) {
      const middle = (line + j - reach) * size.width + column;
      pixels.fill(tint, middle - spans[j]!, middle + spans[j]! + 1);
    }
  }
}

/** Half the width of a disc, line by line. */
function spansOf(radius: number): number[] {
  const inner = Math.max(0, radius - 0.5);
  const reach = Math.floor(inner);
  return Array.from({ length: 2 * reach + 1 }, (_, j) => Math.floor(Math.sqrt(inner ** 2 - (j - reach) ** 2) + 0.3));
}

function resize(canvas: HTMLCanvasElement, { width, height }: Size, ratio: number): void {
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
}
