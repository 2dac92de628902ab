import { timeZoneAt } from './format.ts';

/** A date and time in the time zone of the browser. Its value is an ISO 8601 date-time, or empty. */
interface Props {
  readonly label: string;
  readonly value: string;
  readonly change: (iso: string) => void;
}

export function TimeInput({ label, value, change }: Props) {
  return (
    <label className="time-input">
      {label} ({timeZoneAt(isTime(value) ? Date.parse(value) : Date.now())})
      <input
        type="datetime-local"
        value={localTime(value)}
        onChange={({ currentTarget: { value: local } }) =>
          change(local === '' ? '' : new Date(local).toISOString())
        }
      />
    </label>
  );
}

export function isTime(text: string): boolean {
  return !Number.isNaN(Date.parse(text));
}

/** The time in the form that a `datetime-local` input needs. */
function localTime(iso: string): string {
  if (!isTime(iso)) return '';
  const time = new Date(iso);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
