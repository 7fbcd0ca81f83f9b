// Statements that cannot all be right, as a small figure: a corner for each item, a side for each statement.
import type { Item, Says } from "./contract";

const SIZE = 180;
const RADIUS = 58;
const PICTURE = 44;

export function Triangle({ sides }: { sides: Says[] }) {
  const corners = cornersOf(sides);
  const at = (item: Item) => place(corners.findIndex((corner) => corner.row === item.row), corners.length);
  return (
    <svg class="corners" viewBox={`0 0 ${SIZE} ${SIZE}`} aria-hidden="true">
      {sides.map((side) => {
        const [[x1, y1], [x2, y2]] = [at(side.left), at(side.right)];
        return (
          <g key={`${side.left.row}-${side.right.row}`} class={side.says}>
            <line x1={x1} y1={y1} x2={x2} y2={y2} />
            <circle cx={(x1 + x2) / 2} cy={(y1 + y2) / 2} r="11" />
            <text x={(x1 + x2) / 2} y={(y1 + y2) / 2}>{side.says === "same" ? "=" : "≠"}</text>
          </g>
        );
      })}
      {corners.map((item) => <Corner key={item.row} item={item} at={at(item)} />)}
    </svg>
  );
}

function Corner({ item, at: [x, y] }: { item: Item; at: [number, number] }) {
  const half = PICTURE / 2;
  return (
    <g class="corner">
      <rect x={x - half} y={y - half} width={PICTURE} height={PICTURE} rx="8" />
      {item.image !== null
        ? <image href={item.image} x={x - half + 3} y={y - half + 3} width={PICTURE - 6} height={PICTURE - 6} />
        : <text x={x} y={y}>{item.id.slice(0, 5)}</text>}
    </g>
  );
}

function cornersOf(sides: Says[]): Item[] {
  const all = sides.flatMap(({ left, right }) => [left, right]);
  return all.filter((item, k) => all.findIndex((other) => other.row === item.row) === k);
}

function place(k: number, n: number): [number, number] {
  const angle = (2 * Math.PI * k) / n - Math.PI / 2;
  return [SIZE / 2 + RADIUS * Math.cos(angle), SIZE / 2 + RADIUS * Math.sin(angle)];
}
