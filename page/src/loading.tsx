// Load something from the server and show it, or a sentence that says what is wrong.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { patiently } from "./connection";
import { messageOf } from "./words";

export interface Loaded<T> {
  value: T | null;
  error: string | null;
}

/** The last value stays while a newer one is on its way, so that nothing flickers. */
export function useLoaded<T>(load: () => Promise<T>, needs: unknown[]): Loaded<T> {
  const [loaded, set] = useState<Loaded<T>>({ value: null, error: null });
  useEffect(() => {
    let wanted = true;
    patiently(load).then(
      (value) => wanted && set({ value, error: null }),
      (error: unknown) => wanted && set((last) => ({ ...last, error: messageOf(error) })),
    );
    return () => {
      wanted = false;
    };
  }, needs);
  return loaded;
}

export function Show<T>({ loaded, children }: { loaded: Loaded<T>; children: (value: T) => ComponentChildren }) {
  return (
    <>
      {loaded.error && <p class="problem" role="alert">{loaded.error}</p>}
      {loaded.value !== null ? children(loaded.value) : !loaded.error && <p class="quiet" role="status">One moment …</p>}
    </>
  );
}
