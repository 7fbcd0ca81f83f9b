// A change to the groups: what it will write is shown first, then it is written, and it can be undone.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { patiently } from "./connection";
import type { Gesture } from "./contract";
import { Dialog } from "./help";
import { Show, useLoaded } from "./loading";
import { useProject } from "./project";
import { count, messageOf } from "./words";

export interface Plan {
  title: string;
  gesture: Gesture;
}

export function Confirm({ plan, close }: { plan: Plan; close(done: boolean): void }) {
  const { project, setState, touch, notify } = useProject();
  const loaded = useLoaded(() => api.previewGesture(project.id, plan.gesture), []);
  const [busy, setBusy] = useState(false);
  const doIt = useRef<HTMLButtonElement>(null);
  useEffect(() => doIt.current?.focus(), [loaded.value]);
  const write = async () => {
    setBusy(true);
    const ticket = newTicket();
    try {
      const { number, state } = await patiently(() => api.makeGesture(project.id, plan.gesture, ticket));
      setState(state);
      touch();
      notify({ text: "Done.", undo: number });
      close(true);
    } catch (error) {
      notify({ text: messageOf(error), isError: true });
      close(false);
    }
  };
  return (
    <Dialog title={plan.title} close={() => close(false)}>
      <Show loaded={loaded}>
        {(preview) => (
          <>
            <p>{preview.sentence}</p>
            <p>
              It writes {written(preview.must, preview.cannot)}. You can undo it.
            </p>
            {preview.takes_back.length > 0 && (
              <>
                <p>It takes these answers back, and keeps what else they say:</p>
                <ul class="said">{preview.takes_back.map((one) => <li key={one.number}><bdi>{one.summary}</bdi></li>)}</ul>
              </>
            )}
          </>
        )}
      </Show>
      <div class="buttons">
        <button type="button" onClick={() => close(false)}>Cancel</button>
        <button type="button" class="primary" ref={doIt} disabled={busy || loaded.value === null} onClick={write}>Do it</button>
      </div>
    </Dialog>
  );
}

/** How many answers of each kind; a kind of which there are none is left out. */
function written(must: number, cannot: number): string {
  const parts = [must && `${count(must, "time")} “belong together”`, cannot && `${count(cannot, "time")} “do not belong together”`];
  return parts.filter(Boolean).join(" and ");
}

/** A name that nobody else chooses. */
function newTicket(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
