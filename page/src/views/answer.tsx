// Answer: one card at a time.
import { useEffect, useRef } from "preact/hooks";
import { Card, headingOf } from "../cards";
import { useDesk } from "../desk";
import { useKeys } from "../keys";
import { Progress } from "../progress";
import { useProject } from "../project";
import { change, useSettings } from "../settings";

export function AnswerView() {
  const { project, state } = useProject();
  const desk = useDesk();
  const { showGuess } = useSettings();
  const heading = useRef<HTMLHeadingElement>(null);
  const { question } = desk;
  useKeys({ z: desk.undo, g: () => change({ showGuess: !showGuess }) });
  // A new card takes the focus from the one before, so that a screen reader reads it and Tab starts from it.
  useEffect(() => {
    const isElsewhere = document.activeElement?.closest("header, aside, dialog, .toast");
    if (question?.ticket && !isElsewhere) heading.current?.focus({ preventScroll: true });
  }, [question?.ticket]);

  return (
    <div class="desk">
      <section class="card" aria-labelledby="question" data-ticket={question?.ticket ?? ""} data-kind={question?.kind ?? ""}>
        <h1 id="question" ref={heading} tabIndex={-1}>{question ? headingOf(question) : "One moment …"}</h1>
        {question?.kind === "done" && <Done />}
        {question && question.kind !== "done" && (
          <Card key={question.ticket} question={question} showGuess={showGuess} sending={desk.sending} answer={desk.answer} />
        )}
        <footer class="card-foot">
          <button type="button" class="link" aria-keyshortcuts="Z" onClick={desk.undo}>Take back the last answer <kbd aria-hidden="true">Z</kbd></button>
          <label class="switch">
            <input type="checkbox" checked={showGuess} onChange={(event) => change({ showGuess: event.currentTarget.checked })} />
            Show our guess
          </label>
          {desk.guessed && (
            <span class="quiet">{desk.guessed === "same" ? "We had guessed the same." : "We had guessed something else."}</span>
          )}
        </footer>
        <p class="unseen" role="status">{desk.said}</p>
      </section>
      <Progress state={state} rows={project.rows} />
    </div>
  );
}

function Done() {
  const { project } = useProject();
  const to = (view: string) => `#/${encodeURIComponent(project.id)}/${view}`;
  return (
    <p>
      There is no question that would help now. <a href={to("look")}>Look at the groups</a> or{" "}
      <a href={to("take")}>take the result away</a>.
    </p>
  );
}
