// One function a request. Errors: `Refused` when the server says no, `Unreachable` when it says nothing.
import { setLost, Unreachable } from "./connection";
import type {
  Answered, Columns, DamagedProject, Disagreements, Found, Gesture, GesturePreview, Group, GroupName, Item, PastAnswer, Preview,
  Project, ProjectSummary, Question, Reply, Session, State, Undone,
} from "./contract";

export class Refused extends Error {
  constructor(readonly status: number, sentence: string) {
    super(sentence);
  }
}

let csrf = "";

async function request(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    setLost(true);
    throw new Unreachable("The program does not answer.");
  }
  const silent = response.status === 502 || response.status === 504; // a proxy answers in its place
  setLost(silent);
  if (silent) throw new Unreachable("The program does not answer.");
  if (!response.ok) throw new Refused(response.status, await sentenceOf(response));
  return response;
}

async function sentenceOf(response: Response): Promise<string> {
  const body: unknown = await response.json().catch(() => null);
  const said = body && typeof body === "object" && "error" in body ? body.error : null;
  return typeof said === "string" ? said : `The program refused this (${response.status}).`;
}

const ask = async <T>(path: string): Promise<T> => (await request(path, { cache: "no-store" })).json();

/** A request that changes something. A restarted server has a new CSRF value: get it and try once more. */
async function write(path: string, body: object | FormData): Promise<Response> {
  const isForm = body instanceof FormData;
  const attempt = () => {
    const headers: Record<string, string> = { "X-CSRF": csrf };
    if (!isForm) headers["Content-Type"] = "application/json";
    return request(path, { method: "POST", headers, body: isForm ? body : JSON.stringify(body) });
  };
  if (!csrf) await session();
  try {
    return await attempt();
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 403) throw error;
    const old = csrf;
    if ((await session()).csrf === old) throw error;
    return attempt();
  }
}

const tell = async <T>(path: string, body: object | FormData): Promise<T> => (await write(path, body)).json();

function form(file: File, values: Record<string, string | null>): FormData {
  const data = new FormData();
  data.set("file", file);
  for (const [name, value] of Object.entries(values)) if (value) data.set(name, value);
  return data;
}

export async function session(): Promise<Session> {
  const now = await ask<Session>("/api/session");
  csrf = now.csrf;
  return now;
}

export async function signIn(person: string): Promise<Session> {
  await write("/api/session", { person });
  return session();
}

export const projects = () => ask<(ProjectSummary | DamagedProject)[]>("/api/projects");
/** Without columns the server guesses them. */
export const preview = (file: File, columns: Columns | null) =>
  tell<Preview>("/api/preview", form(file, columns ? { ...columns, chosen: "true" } : {}));
export const upload = (file: File, name: string, columns: Columns) =>
  tell<ProjectSummary>("/api/projects", form(file, { name, ...columns, chosen: "true" }));

const at = (project: string) => `/api/projects/${encodeURIComponent(project)}`;
export const eventsOf = (project: string) => `${at(project)}/events`;
export const exportOf = (project: string, what: string) => `${at(project)}/export/${what}`;

/** A file to keep, with the name that the server gives it. */
export async function fetchExport(p: string, what: string): Promise<{ blob: Blob; name: string }> {
  const response = await request(exportOf(p, what), { cache: "no-store" });
  const [, name] = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "") ?? [];
  return { blob: await response.blob(), name: name ?? "spherepair" };
}

export const project = (p: string) => ask<Project>(at(p));
export const question = (p: string) => ask<Question>(`${at(p)}/question`);
export const answer = (p: string, body: { ticket: string; reply: Reply; seconds: number }) =>
  tell<Answered>(`${at(p)}/answers`, body);
export const undo = (p: string, number: number | null) => tell<Undone>(`${at(p)}/undo`, { number });
export const takeBack = (p: string, number: number) => tell<State>(`${at(p)}/take-back`, { number });
export const train = (p: string) => tell<State>(`${at(p)}/train`, {});
export const pastAnswers = (p: string, offset: number, limit: number) =>
  ask<{ total: number; answers: PastAnswer[] }>(`${at(p)}/answers?offset=${offset}&limit=${limit}`);
export const groups = (p: string) => ask<Group[]>(`${at(p)}/groups`);
export const rename = (p: string, group: GroupName["id"], name: string) =>
  tell<GroupName>(`${at(p)}/groups/${encodeURIComponent(group)}/name`, { name });
export const search = (p: string, words: string) =>
  ask<Found[]>(`${at(p)}/search?limit=30&q=${encodeURIComponent(words)}`);
export const items = (p: string, rows: number[]) => ask<Item[]>(`${at(p)}/items?rows=${rows.join(",")}`);
export const wholeItem = (p: string, row: number) => ask<Item>(`${at(p)}/items/${row}`);
export const previewGesture = (p: string, gesture: Gesture) =>
  tell<GesturePreview>(`${at(p)}/gestures/preview`, gesture);
/** The same ticket again writes nothing a second time. */
export const makeGesture = (p: string, gesture: Gesture, ticket: string) =>
  tell<{ number: number; state: State }>(`${at(p)}/gestures`, { ...gesture, ticket });
export const disagreements = (p: string) => ask<Disagreements>(`${at(p)}/disagreements`);
export const map = async (p: string, version: number) =>
  (await request(`${at(p)}/map?version=${version}`, {})).arrayBuffer();
export const predict = async (p: string, file: File) => (await write(`${at(p)}/predict`, form(file, {}))).blob();
