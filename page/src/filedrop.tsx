// A place for a file: to click, or to drop onto.
import { useState } from "preact/hooks";

export interface FileDropProps {
  label: string;
  hint: string;
  accept: string;
  onFile(file: File): void;
}

export function FileDrop({ label, hint, accept, onFile }: FileDropProps) {
  const [over, setOver] = useState(false);
  const hover = (event: DragEvent, isOver: boolean) => {
    event.preventDefault();
    setOver(isOver);
  };
  const take = (files: FileList | null | undefined) => files?.[0] && onFile(files[0]);
  return (
    <label
      class={over ? "drop over" : "drop"}
      onDragOver={(event) => hover(event, true)}
      onDragLeave={(event) => hover(event, false)}
      onDrop={(event) => { hover(event, false); take(event.dataTransfer?.files); }}
    >
      <strong>{label}</strong>
      <span class="quiet">{hint}</span>
      <input
        type="file" accept={accept}
        onChange={(event) => { take(event.currentTarget.files); event.currentTarget.value = ""; }}
      />
    </label>
  );
}
