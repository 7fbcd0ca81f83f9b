// Settings of this browser: light or dark, whether the guess is shown, whether single keys answer.
import { useEffect, useState } from "preact/hooks";

export interface Settings {
  theme: "auto" | "light" | "dark";
  showGuess: boolean;
  keys: boolean;
}

const STORED = "spherepair-settings";
const watchers = new Set<(settings: Settings) => void>();
let current: Settings = { theme: "auto", showGuess: false, keys: true, ...stored() };

function stored(): Partial<Settings> {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}") as Partial<Settings>;
  } catch {
    return {};
  }
}

export function change(some: Partial<Settings>): void {
  current = { ...current, ...some };
  try {
    localStorage.setItem(STORED, JSON.stringify(current));
  } catch {
    // A browser that keeps nothing still works until it is closed.
  }
  applyTheme();
  for (const tell of watchers) tell(current);
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = current.theme;
}

export const settings = (): Settings => current;

export function useSettings(): Settings {
  const [value, set] = useState(current);
  useEffect(() => {
    watchers.add(set);
    return () => void watchers.delete(set);
  }, []);
  return value;
}

/** Whether the page is dark now. */
export function isDark(): boolean {
  if (current.theme !== "auto") return current.theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
