// The server's stream of events: the state, a new model, answers of other people.
import { eventsOf } from "./api";
import { back, probe } from "./connection";
import type { State } from "./contract";

export interface Listeners {
  state(state: State): void;
  model(version: number): void;
  answer(by: string): void;
}

/** Listen until the returned function is called. The browser reconnects by itself, except after a refusal. */
export function listen(project: string, tell: Listeners): () => void {
  let source: EventSource | null = null;
  let closed = false;
  const on = <T>(name: string, then: (data: T) => void) =>
    source?.addEventListener(name, (event) => then(JSON.parse((event as MessageEvent<string>).data)));
  const open = () => {
    if (closed) return;
    source = new EventSource(eventsOf(project));
    on<State>("state", tell.state);
    on<{ version: number }>("model", (data) => tell.model(data.version));
    on<{ by: string }>("answer", (data) => tell.answer(data.by));
    source.onerror = async () => {
      const over = source?.readyState === EventSource.CLOSED;
      await probe();
      if (over) void back().then(() => setTimeout(open, 1000));
    };
  };
  open();
  return () => {
    closed = true;
    source?.close();
  };
}
