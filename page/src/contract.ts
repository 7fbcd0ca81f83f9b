// What the server says and takes, as its OpenAPI page describes it.

export interface Item {
  row: number;
  id: string;
  text: string | null;
  image: string | null;
  fields: [string, string][];
  cut: boolean;
}

export interface Session {
  person: string | null;
  csrf: string;
  version: string;
}

export interface ProjectSummary {
  id: string;
  name: string;
  rows: number;
  answers: number;
  groups: number;
  opened: string;
  kind: "text" | "image" | "table";
}

/** A project that cannot be opened, and why. */
export interface DamagedProject {
  id: string;
  problem: string;
}

export interface Project {
  id: string;
  name: string;
  rows: number;
  kind: "text" | "image" | "table";
  columns: unknown[];
  state: State;
}

export interface Training {
  status: "idle" | "waiting" | "running" | "failed";
  epoch: number | null;
  epochs: number | null;
  message: string | null;
  version: number;
}

export interface State {
  answers: number;
  minutes: number;
  groups: number;
  rows_placed: number;
  answers_since_new_group: number;
  chance_of_new_group: number;
  accuracy: number | null;
  gain: number | null;
  worth_going_on: boolean;
  contradictions: number;
  /** By so many of the latest answers: at least twenty, and all since some training. */
  changed_lately: { answers: number; rows_moved: number; groups_new: number } | null;
  training: Training;
}

export interface GroupName {
  id: string | number;
  name: string;
}

export interface ChoiceQuestion {
  ticket: string;
  kind: "choice";
  item: Item;
  exemplars: { item: Item; group: GroupName | null }[];
  check: boolean;
  guess: number | null;
}

export interface PairQuestion {
  ticket: string;
  kind: "pair";
  left: Item;
  right: Item;
  check: boolean;
  guess: "same" | "different" | null;
}

export interface GroupQuestion {
  ticket: string;
  kind: "group";
  group: GroupName | null;
  items: Item[];
  check: boolean;
}

export type Question = ChoiceQuestion | PairQuestion | GroupQuestion | { ticket: null; kind: "done" };

/** An exemplar's row, the rows that do not belong, or a word. */
export type Reply = "none" | "unsure" | "skip" | "same" | "different" | number | number[];

export interface Says {
  left: Item;
  right: Item;
  says: "same" | "different";
  /** The answer that says so; null when no single answer does. */
  number: number | null;
  by: string | null;
  time?: string;
}

export interface Contradiction {
  triangle: Says[];
}

export interface Suspect extends Says {
  probability: number;
  reason: string;
}

export interface Answered {
  number: number;
  links: { must: number; cannot: number };
  contradiction: Contradiction | null;
  state: State;
  question: Question;
}

export interface Undone {
  undone: { number: number; summary: string; by: string | null; time: string } | null;
  state: State;
  question: Question;
}

export interface PastAnswer {
  number: number;
  kind: string;
  summary: string;
  by: string | null;
  time: string;
  seconds: number | null;
  rows: number[];
  links: { must: number; cannot: number };
  undone: boolean;
  gesture: string | null;
}

export interface Group extends GroupName {
  named_by_person: boolean;
  size: number;
  placed: number;
  typical: Item[];
  unsure: Item[];
  odd: Item[];
  change: { since: number; in: number; out: number; note: string | null } | null;
}

export interface Found {
  item: Item;
  group: GroupName | null;
}

export type Gesture =
  | { action: "merge"; groups: GroupName["id"][] }
  | { action: "split"; group: GroupName["id"]; seeds: number[] }
  | { action: "remove"; group: GroupName["id"]; rows: number[] }
  | { action: "move"; rows: number[]; to: GroupName["id"] | null };

export interface GesturePreview {
  sentence: string;
  must: number;
  cannot: number;
  takes_back: { number: number; summary: string }[];
}

export interface Disagreements {
  contradictions: Contradiction[];
  suspects: Suspect[];
  people: { person: string; answers: number; minutes: number; reliability: number | null }[];
  agreement: { people: [string, string]; shared: number; agree: number }[];
}

export interface Preview {
  columns: { name: string; kind: string; examples: string[] }[];
  suggested: Columns;
  items: Item[];
}

export interface Columns {
  text: string | null;
  images: string | null;
  id: string | null;
}
