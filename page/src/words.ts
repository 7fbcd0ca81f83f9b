// Numbers and times in words.

const number = new Intl.NumberFormat("en");

export const whole = (n: number): string => number.format(n);

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${number.format(n)} ${n === 1 ? one : many}`;

export const percent = (share: number): string => `${Math.round(100 * share)} %`;

export function minutes(value: number): string {
  if (value < 1) return value === 0 ? "0 minutes" : "less than a minute";
  return count(Math.round(value), "minute");
}

export function when(iso: string | undefined): string {
  const time = new Date(iso ?? "");
  if (Number.isNaN(time.getTime())) return "";
  const today = time.toDateString() === new Date().toDateString();
  return today
    ? time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : time.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" });
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
