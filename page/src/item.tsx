// One item of the data as text, picture or record. Contents are only ever text, never markup.
import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import type { Item } from "./contract";
import { useProject } from "./project";
import { messageOf } from "./words";

const LONG = 420;
const FIELDS_SHOWN = 12;

/** The size of the type follows the length of the text. */
function lengthOf(text: string): "short" | "medium" | "long" {
  if (text.length < 110) return "short";
  return text.length < LONG ? "medium" : "long";
}

function Picture({ item }: { item: Item }) {
  return item.image === null ? null : <img class="picture" src={item.image} alt={`Picture of item ${item.id}`} draggable={false} />;
}

function Fields({ fields }: { fields: Item["fields"] }) {
  if (!fields.length) return null;
  return (
    <dl class="fields">
      {fields.map(([name, value]) => (
        <div key={name}><dt dir="auto">{name}</dt><dd dir="auto">{value}</dd></div>
      ))}
    </dl>
  );
}

function isEmpty(item: Item): boolean {
  return !item.text && item.image === null && !item.fields.length;
}

/** Small: for lists, options and tips. Long texts are cut by the style sheet. */
export function SmallItem({ item }: { item: Item }) {
  return (
    <span class="item small" data-item={item.id}>
      <Picture item={item} />
      {item.text !== null && <span class="words" dir="auto">{item.text}</span>}
      {item.text === null && item.image === null && (
        <span class="words" dir="auto">{item.fields.slice(0, 5).map(([name, value]) => `${name}: ${value}`).join(" · ") || "(empty)"}</span>
      )}
    </span>
  );
}

/** Large: the item a question is about. */
export function LargeItem({ item }: { item: Item }) {
  const [whole, setWhole] = useState<Item | null>(null);
  const [problem, setProblem] = useState("");
  const { project } = useProject();
  useEffect(() => setWhole(null), [item.id, item.row]);
  const shown = whole ?? item;
  const fetchWhole = () =>
    api.wholeItem(project.id, item.row).then(setWhole, (error: unknown) => setProblem(messageOf(error)));
  const text = shown.text ?? "";
  const isLong = text.length >= LONG || shown.fields.length > FIELDS_SHOWN;
  const scrolls = isLong ? { tabIndex: 0, role: "region", "aria-label": `Item ${item.id}, scrolls` } as const : {};
  return (
    <div class="item large" data-item={item.id}>
      <div class="body" {...scrolls}>
        <Picture item={shown} />
        {shown.text !== null && <p class={`words ${lengthOf(text)}`} dir="auto">{text}</p>}
        <Fields fields={shown.fields} />
        {isEmpty(shown) && <p class="quiet">(empty)</p>}
      </div>
      {item.cut && !whole && (
        <button type="button" class="link" onClick={fetchWhole}>Show all of it</button>
      )}
      {problem && <p class="problem" role="alert">{problem}</p>}
      <p class="caption"><bdi>{item.id}</bdi></p>
    </div>
  );
}
