// The keys, and the switches of this browser.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { change, useSettings } from "./settings";

export function Dialog({ title, close, children }: { title: string; close(): void; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    heading.current?.focus();
    return () => {
      const isFree = document.activeElement === document.body || box.current?.contains(document.activeElement);
      if (isFree && before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog ref={box} aria-labelledby="dialog-title" onClose={close} onClick={(event) => event.target === box.current && close()}>
      <div class="dialog">
        <h2 id="dialog-title" tabIndex={-1} ref={heading}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

const KEYS: [string, string][] = [
  ["1 – 5", "it belongs with this one; on a card of two: 1 together, 2 different"],
  ["1 – 8", "on a card of many: mark what does not belong"],
  ["Enter", "on a card of many: done"],
  ["0", "it belongs with none of these"],
  ["U", "not sure"],
  ["S", "skip"],
  ["Z", "take the last answer back"],
  ["G", "show or hide our guess"],
  ["?", "this help"],
];

export function Help({ close }: { close(): void }) {
  const settings = useSettings();
  return (
    <Dialog title="How it works" close={close}>
      <p>
        You see one card at a time. Say what belongs together. The program learns from your answers and sorts the rest.
        There is no wrong order and no hurry, and every answer can be taken back.
      </p>
      <table class="keys">
        <caption>Keys</caption>
        <tbody>{KEYS.map(([key, what]) => <tr key={key}><th scope="row"><kbd>{key}</kbd></th><td>{what}</td></tr>)}</tbody>
      </table>
      <label class="switch">
        <input type="checkbox" checked={settings.keys} onChange={(event) => change({ keys: event.currentTarget.checked })} />
        Answer with single keys
      </label>
      <div class="buttons"><button type="button" class="primary" onClick={close}>Close</button></div>
    </Dialog>
  );
}
