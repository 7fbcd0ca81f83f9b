// What the answers have brought so far, and whether going on is worth it.
import * as api from "./api";
import type { State, Training } from "./contract";
import { useProject } from "./project";
import { count, messageOf, minutes, percent, whole } from "./words";

function lately({ answers, rows_moved, groups_new }: NonNullable<State["changed_lately"]>): string {
  const changes = [rows_moved && `moved ${count(rows_moved, "item")} to another group`, groups_new && `brought ${count(groups_new, "new group")}`];
  return `The last ${answers} answers ${changes.filter(Boolean).join(" and ") || "moved no item to another group"}.`;
}

function verdict({ worth_going_on, gain }: State): string {
  if (!worth_going_on) return "You can stop here. More answers will change little.";
  if (gain === null || gain < 0.005) return "Going on is worth it.";
  return `Going on is worth it: ten more minutes put about ${percent(gain)} more items in the right group.`;
}

function learning(training: Training, answers: number): string {
  switch (training.status) {
    case "running": {
      const share = training.epoch !== null && training.epochs ? ` ${percent(training.epoch / training.epochs)}` : "";
      return `${answers ? "Learning from your answers" : "Looking at all items"} …${share}`;
    }
    case "waiting": return "Will learn from your answers in a moment.";
    case "failed": return training.message ?? "Learning did not work this time. Your answers are safe.";
    case "idle": return training.version > 0 && answers ? "Has learned from your answers." : "Has not learned from any answer yet.";
  }
}

/** What the training does, and a button for those who do not want to wait. */
function Learning({ training, answers }: { training: Training; answers: number }) {
  const { project, setState, notify } = useProject();
  const now = () => api.train(project.id).then(setState, (error: unknown) => notify({ text: messageOf(error), isError: true }));
  return (
    <p class={training.status === "failed" ? "problem" : "quiet"}>
      {learning(training, answers)}{" "}
      {answers > 0 && training.status !== "running" && <button type="button" class="link inline" onClick={now}>Learn now</button>}
    </p>
  );
}

export function Progress({ state, rows }: { state: State; rows: number }) {
  return (
    <aside class="progress" aria-label="How far you are" data-version={state.training.version} data-training={state.training.status}>
      <p class="counter" role="status"><strong>{state.answers}</strong> {state.answers === 1 ? "answer" : "answers"}</p>
      <dl class="facts">
        <div><dt>Time spent</dt><dd>{minutes(state.minutes)}</dd></div>
        <div><dt>Groups found</dt><dd>{state.groups}</dd></div>
        <div><dt>Items you placed</dt><dd>{whole(state.rows_placed)} of {whole(rows)}</dd></div>
        {state.accuracy !== null && <div><dt>In the right group</dt><dd>about {percent(state.accuracy)}</dd></div>}
        {state.groups > 1 && <div><dt>Chance of a new group</dt><dd>{percent(state.chance_of_new_group)}</dd></div>}
      </dl>
      {state.changed_lately && <p class="lately">{lately(state.changed_lately)}</p>}
      {state.answers > 0 && <p class={state.worth_going_on ? "verdict go" : "verdict stop"}>{verdict(state)}</p>}
      <Learning training={state.training} answers={state.answers} />
    </aside>
  );
}
