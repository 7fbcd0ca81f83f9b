// Single keys that act wherever the focus is, except while somebody types or a dialog is open.
import { useLayoutEffect } from "preact/hooks";
import { settings } from "./settings";

export type Keys = Record<string, () => void>;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return target.type !== "checkbox" && target.type !== "radio";
  return target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Enter on a button or link does what that button or link does. */
function belongsToTarget(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return event.key === "Enter" && !!target?.closest("button, a, summary");
}

export function useKeys(keys: Keys): void {
  // Together with the card and not after it is painted: a key must never answer the card before.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      if (!settings().keys || isTyping(event.target) || belongsToTarget(event)) return;
      if (document.querySelector("dialog[open]")) return;
      const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
}
