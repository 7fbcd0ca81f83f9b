// The open project, shared by its views: its state, the version of the model, and short messages.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Project, State } from "./contract";

export interface Notice {
  text: string;
  /** The number of the gesture or answer that "Undo" takes back, or what it does. */
  undo?: number | (() => Promise<void>);
  isError?: boolean;
  link?: { text: string; href: string };
}

export interface OpenProject {
  project: Project;
  state: State;
  setState(state: State): void;
  /** Grows with every refit and with everything that was mended: views load again when it changes. */
  version: number;
  touch(): void;
  notify(notice: Notice | null): void;
}

export const ProjectContext = createContext<OpenProject | null>(null);

export function useProject(): OpenProject {
  const open = useContext(ProjectContext);
  if (!open) throw new Error("no project is open");
  return open;
}
