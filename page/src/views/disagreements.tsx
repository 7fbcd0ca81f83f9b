// Disagreements: answers that cannot all be right, answers that look wrong, and how often people agree.
import { useState } from "preact/hooks";
import * as api from "../api";
import type { Disagreements, PastAnswer, Says } from "../contract";
import { SmallItem } from "../item";
import { Show, useLoaded } from "../loading";
import { useProject } from "../project";
import { Triangle } from "../triangle";
import { count, messageOf, minutes, percent, when } from "../words";

const SAID = { same: "belong together", different: "do not belong together" };

export function DisagreementsView() {
  const { project, version } = useProject();
  const loaded = useLoaded(() => api.disagreements(project.id), [project.id, version]);
  return (
    <div class="disagreements">
      <h1>Disagreements</h1>
      <p class="lede">Answers that do not fit together, and what to do about them. Nothing is changed unless you say so.</p>
      <Show loaded={loaded}>{(found) => <Found found={found} />}</Show>
      <History />
    </div>
  );
}

function Found({ found }: { found: Disagreements }) {
  return (
    <>
      <section aria-labelledby="cannot-all">
        <h2 id="cannot-all">Cannot all be right</h2>
        {!found.contradictions.length && <p class="quiet">All answers fit together.</p>}
        {found.contradictions.map((contradiction, k) => (
          <article key={k} class="triangle">
            <Triangle sides={contradiction.triangle} />
            <div>
              <h3>Which of these is wrong?</h3>
              <ul>{contradiction.triangle.map((says) => <Statement key={`${says.number}-${says.left.row}-${says.right.row}`} says={says} />)}</ul>
            </div>
          </article>
        ))}
      </section>
      <section aria-labelledby="look-wrong">
        <h2 id="look-wrong">Worth a second look</h2>
        {!found.suspects.length && <p class="quiet">No answer looks wrong.</p>}
        <ul class="suspects">
          {found.suspects.map((suspect) => (
            <Statement key={`${suspect.number}-${suspect.left.row}-${suspect.right.row}`} says={suspect}>
              {suspect.reason} ({percent(suspect.probability)} likely to be wrong)
            </Statement>
          ))}
        </ul>
      </section>
      <People found={found} />
    </>
  );
}

/** Two items, what was said about them, and a button that takes it back. */
function Statement({ says, children }: { says: Says; children?: preact.ComponentChildren }) {
  const takeBack = useTakeBack();
  return (
    <li class={`statement ${says.says}`}>
      <div class="two"><SmallItem item={says.left} /><SmallItem item={says.right} /></div>
      <div>
        <p><strong>{says.by ?? "Somebody"}</strong> said: these <strong>{SAID[says.says]}</strong>. <span class="quiet">{when(says.time)}</span></p>
        {children && <p class="quiet">{children}</p>}
        {says.number !== null && (
          <button type="button" onClick={() => takeBack(says.number!)}>This is wrong, take it back</button>
        )}
      </div>
    </li>
  );
}

function useTakeBack(): (number: number) => Promise<void> {
  const { project, setState, touch, notify } = useProject();
  return async (number) => {
    try {
      setState(await api.takeBack(project.id, number));
      notify({ text: `Answer ${number} is taken back.` });
      touch();
    } catch (error) {
      notify({ text: messageOf(error), isError: true });
    }
  };
}

function People({ found }: { found: Disagreements }) {
  return (
    <section aria-labelledby="people">
      <h2 id="people">People</h2>
      {!found.people.length && <p class="quiet">Nobody has answered yet.</p>}
      {found.people.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of people">
          <table>
            <thead><tr><th scope="col">Name</th><th scope="col">Answers</th><th scope="col">Time</th><th scope="col">Says the same again</th></tr></thead>
            <tbody>
              {found.people.map((one) => (
                <tr key={one.person}>
                  <th scope="row" dir="auto">{one.person}</th><td>{one.answers}</td><td>{minutes(one.minutes)}</td>
                  <td>{one.reliability === null ? "not known yet" : percent(one.reliability)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.agreement.map(({ people: [one, other], shared, agree }) => (
        <p key={`${one} ${other}`}>
          <strong dir="auto">{one}</strong> and <strong dir="auto">{other}</strong>{" "}
          {shared ? `said the same in ${agree} of ${count(shared, "case")} (${percent(agree / shared)}).` : "have not looked at the same items yet."}
        </p>
      ))}
    </section>
  );
}

const PAGE = 20;

function History() {
  const { project, version, state } = useProject();
  const [open, setOpen] = useState(false);
  const [length, setLength] = useState(PAGE);
  const loaded = useLoaded(
    () => (open ? api.pastAnswers(project.id, 0, length) : Promise.resolve({ total: 0, answers: [] })),
    [project.id, version, state.answers, length, open],
  );
  return (
    <details class="history" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Everything that was said</summary>
      <Show loaded={loaded}>
        {({ total, answers }) => (
          <>
            {!total && <p class="quiet">Nothing yet.</p>}
            <ol>{answers.map((past) => <Past key={past.number} past={past} />)}</ol>
            {total > answers.length && <button type="button" onClick={() => setLength(length + PAGE)}>Show more</button>}
          </>
        )}
      </Show>
    </details>
  );
}

function Past({ past }: { past: PastAnswer }) {
  const takeBack = useTakeBack();
  return (
    <li class={past.undone ? "undone" : ""}>
      <span><bdi>{past.summary}</bdi> <span class="quiet">{past.by} {when(past.time)}{past.undone && " · taken back"}</span></span>
      {!past.undone && <button type="button" class="link" aria-label={`Take back answer ${past.number}`} onClick={() => takeBack(past.number)}>Take back</button>}
    </li>
  );
}
