// The three kinds of cards. Each shows its keys on its buttons.
import { useEffect, useState } from "preact/hooks";
import type { ChoiceQuestion, GroupQuestion, Item, PairQuestion, Question, Reply } from "./contract";
import { LargeItem, SmallItem } from "./item";
import { useKeys, type Keys } from "./keys";

export interface CardProps<Q> {
  question: Q;
  showGuess: boolean;
  sending: Reply | null;
  answer(reply: Reply): void;
}

const Key = ({ name }: { name: string }) => <kbd aria-hidden="true">{name}</kbd>;

interface ReplyButtonProps {
  label: string;
  hint: string;
  reply: Reply;
  card: CardProps<unknown>;
  isMain?: boolean;
  isGuess?: boolean;
}

function ReplyButton({ label, hint, reply, card, isMain, isGuess }: ReplyButtonProps) {
  const classes = ["reply", isMain && "main", card.sending === reply && "sent"].filter(Boolean).join(" ");
  return (
    <button type="button" class={classes} aria-keyshortcuts={hint} onClick={() => card.answer(reply)}>
      <span>{label}{isGuess && <em class="guess"> our guess</em>}</span><Key name={hint} />
    </button>
  );
}

/** The replies that every card has. */
function Otherwise({ card }: { card: CardProps<unknown> }) {
  useKeys({ u: () => card.answer("unsure"), s: () => card.answer("skip") });
  return (
    <>
      <ReplyButton label="Not sure" hint="U" reply="unsure" card={card} />
      <ReplyButton label="Skip" hint="S" reply="skip" card={card} />
    </>
  );
}

function ChoiceCard(card: CardProps<ChoiceQuestion>) {
  const { question, answer, sending, showGuess } = card;
  const keys: Keys = { "0": () => answer("none") };
  question.exemplars.forEach(({ item }, k) => (keys[String(k + 1)] = () => answer(item.row)));
  useKeys(keys);
  return (
    <>
      <LargeItem item={question.item} />
      <ol class={`options of-${question.exemplars.length}`} aria-label="It belongs together with">
        {question.exemplars.map(({ item, group }, k) => (
          <li key={item.row}>
            <button
              type="button" class={sending === item.row ? "option sent" : "option"} aria-keyshortcuts={String(k + 1)}
              onClick={() => answer(item.row)}
            >
              <SmallItem item={item} />
              <span class="foot">
                <Key name={String(k + 1)} />
                {group && <span class="group-name" dir="auto">{group.name}</span>}
                {showGuess && question.guess === k && <em class="guess">our guess</em>}
              </span>
            </button>
          </li>
        ))}
      </ol>
      <div class="replies">
        <ReplyButton label="None of these" hint="0" reply="none" card={card} />
        <Otherwise card={card} />
      </div>
    </>
  );
}

function PairCard(card: CardProps<PairQuestion>) {
  const { question, answer, showGuess } = card;
  useKeys({ "1": () => answer("same"), "2": () => answer("different") });
  const guess = showGuess ? question.guess : null;
  return (
    <>
      <div class="pair"><LargeItem item={question.left} /><LargeItem item={question.right} /></div>
      <div class="replies">
        <ReplyButton label="Yes, together" hint="1" reply="same" card={card} isMain isGuess={guess === "same"} />
        <ReplyButton label="No, different" hint="2" reply="different" card={card} isMain isGuess={guess === "different"} />
        <Otherwise card={card} />
      </div>
    </>
  );
}

function GroupCard(card: CardProps<GroupQuestion>) {
  const { question, answer } = card;
  const [known, ...others] = question.items as [Item, ...Item[]];
  const [odd, setOdd] = useState<ReadonlySet<number>>(new Set());
  useEffect(() => setOdd(new Set()), [question.ticket]);
  const toggle = (row: number) =>
    setOdd((before) => {
      const after = new Set(before);
      return after.delete(row) ? after : after.add(row);
    });
  const confirm = () => answer(others.map((item) => item.row).filter((row) => odd.has(row)));
  const keys: Keys = { Enter: confirm };
  others.forEach((item, k) => (keys[String(k + 1)] = () => toggle(item.row)));
  useKeys(keys);
  return (
    <>
      <LargeItem item={known} />
      <fieldset class="members">
        <legend>Mark those that do not belong with it</legend>
        {others.map((item, k) => (
          <label key={item.row} class={odd.has(item.row) ? "option odd" : "option"}>
            <SmallItem item={item} />
            <span class="foot">
              <Key name={String(k + 1)} />
              <input type="checkbox" checked={odd.has(item.row)} onChange={() => toggle(item.row)} />
              <span>{odd.has(item.row) ? "does not belong" : "belongs"}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div class="replies">
        <button type="button" class={Array.isArray(card.sending) ? "reply main sent" : "reply main"} aria-keyshortcuts="Enter" onClick={confirm}>
          <span>{odd.size === 0 ? "All belong together" : odd.size === others.length ? "None of them belongs" : `All but ${odd.size} belong together`}</span>
          <Key name="Enter" />
        </button>
        <Otherwise card={card} />
      </div>
    </>
  );
}

export function headingOf(question: Question): string {
  switch (question.kind) {
    case "choice": return question.exemplars.length === 1 ? "Does it belong with this one?" : "Which one does it belong with?";
    case "pair": return "Do these two belong together?";
    case "group": return question.group ? `Do all of these belong to “${question.group.name}”?` : "Do all of these belong together?";
    case "done": return "Nothing left to ask";
  }
}

export function Card(props: CardProps<Exclude<Question, { kind: "done" }>>) {
  const { question } = props;
  switch (question.kind) {
    case "choice": return <ChoiceCard {...props} question={question} />;
    case "pair": return <PairCard {...props} question={question} />;
    case "group": return <GroupCard {...props} question={question} />;
  }
}
