// The question on the desk, and the way of an answer to the server: kept in the browser until it is acknowledged.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { patiently } from "./connection";
import type { Answered, Question, Reply } from "./contract";
import { useProject } from "./project";
import { messageOf } from "./words";

interface Pending {
  ticket: string;
  reply: Reply;
  seconds: number;
}

/** The answer that the server has not acknowledged yet: it survives a reload, and goes out with the same ticket. */
const outbox = {
  key: (project: string) => `spherepair-pending-${project}`,
  put: (project: string, answer: Pending) => localStorage.setItem(outbox.key(project), JSON.stringify(answer)),
  clear: (project: string) => localStorage.removeItem(outbox.key(project)),
  read(project: string): Pending | null {
    try {
      return JSON.parse(localStorage.getItem(outbox.key(project)) ?? "null") as Pending | null;
    } catch {
      return null;
    }
  },
};

/** Seconds that a card was before somebody's eyes; time in another tab does not count. */
function useReadingTime(ticket: string | null | undefined): () => number {
  const clock = useRef({ seen: 0, since: 0 });
  useEffect(() => {
    clock.current = { seen: 0, since: performance.now() };
    const turn = () => {
      const now = performance.now();
      if (document.hidden) clock.current.seen += now - clock.current.since;
      clock.current.since = now;
    };
    document.addEventListener("visibilitychange", turn);
    return () => document.removeEventListener("visibilitychange", turn);
  }, [ticket]);
  return () => Math.round(clock.current.seen + performance.now() - clock.current.since) / 1000;
}

export interface Desk {
  question: Question | null;
  /** The reply that is on its way. */
  sending: Reply | null;
  /** Whether the last answer agreed with what the model had guessed. */
  guessed: "same" | "other" | null;
  said: string;
  answer(reply: Reply): void;
  undo(): void;
}

export function useDesk(): Desk {
  const { project, setState, version, notify } = useProject();
  const [question, setQuestion] = useState<Question | null>(null);
  const [sending, setSending] = useState<Reply | null>(null);
  const [guessed, setGuessed] = useState<Desk["guessed"]>(null);
  const [said, setSaid] = useState("");
  const busy = useRef(false);
  const readingTime = useReadingTime(question?.ticket);

  const fetchQuestion = async () => setQuestion(await patiently(() => api.question(project.id)));

  /** One thing at a time; what the server refuses is told, and the desk starts again from its question. */
  const alone = async (work: () => Promise<void>) => {
    if (busy.current) return;
    busy.current = true;
    try {
      await work();
    } catch (error) {
      outbox.clear(project.id);
      notify({ text: messageOf(error), isError: true });
      await fetchQuestion().catch(() => undefined);
    } finally {
      busy.current = false;
      setSending(null);
    }
  };

  const take = (answered: Answered) => {
    outbox.clear(project.id);
    setState(answered.state);
    setQuestion(answered.question);
    setSaid(`Answer ${answered.state.answers} is kept.`);
    notify(
      answered.contradiction
        ? { text: "This does not fit with an earlier answer. Nothing is lost: look at both when you like.",
            link: { text: "Look", href: `#/${encodeURIComponent(project.id)}/disagreements` } }
        : null,
    );
  };

  const send = (pending: Pending) =>
    alone(async () => {
      setSending(pending.reply);
      outbox.put(project.id, pending);
      take(await patiently(() => api.answer(project.id, pending)));
    });

  useEffect(() => {
    const pending = outbox.read(project.id);
    void (pending ? send(pending) : alone(fetchQuestion));
  }, [project.id]);

  // When nothing was left to ask, a newer model may have something.
  useEffect(() => {
    if (question?.kind === "done") void alone(fetchQuestion);
  }, [version]);

  return {
    question,
    sending,
    guessed,
    said,
    answer(reply) {
      if (!question || question.ticket === null || busy.current) return;
      setGuessed(comparison(question, reply));
      void send({ ticket: question.ticket, reply, seconds: readingTime() });
    },
    undo() {
      void alone(async () => {
        const result = await patiently(() => api.undo(project.id, null));
        setState(result.state);
        setQuestion(result.question);
        setGuessed(null);
        notify({ text: result.undone ? `Taken back: ${result.undone.summary}` : "There is nothing to take back." });
      });
    },
  };
}

function comparison(question: Question, reply: Reply): Desk["guessed"] {
  if (reply === "unsure" || reply === "skip") return null;
  if (question.kind === "pair") return question.guess === null ? null : question.guess === reply ? "same" : "other";
  if (question.kind !== "choice" || question.guess === null) return null;
  return question.exemplars[question.guess]?.item.row === reply ? "same" : "other";
}
