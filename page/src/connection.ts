// Whether the server answers. When it does not, the page asks every two seconds, and callers wait.
import { useEffect, useState } from "preact/hooks";

const AGAIN = 2000;
let lost = false;
let timer = 0;
const watchers = new Set<() => void>();

export class Unreachable extends Error {}

export function setLost(now: boolean): void {
  const isNew = now !== lost;
  lost = now;
  if (isNew) for (const tell of [...watchers]) tell();
  if (lost && !timer) timer = setTimeout(probe, AGAIN);
}

/** Ask for a sign of life; the answer decides whether the server counts as lost. */
export async function probe(): Promise<void> {
  clearTimeout(timer);
  timer = 0;
  try {
    const response = await fetch("/api/session", { cache: "no-store" });
    setLost(response.status === 502 || response.status === 504);
  } catch {
    setLost(true);
  }
}

/** Resolves once the server answers again. */
export function back(): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (lost) return;
      watchers.delete(look);
      resolve();
    };
    watchers.add(look);
    look();
  });
}

/** Repeat a call until the server has answered it, with yes or with no. */
export async function patiently<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      await back();
    }
  }
}

export function useLost(): boolean {
  const [value, set] = useState(lost);
  useEffect(() => {
    const look = () => set(lost);
    watchers.add(look);
    look();
    return () => void watchers.delete(look);
  }, []);
  return value;
}
