/** A group of buttons, one of which is chosen. */
interface Props<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly (readonly [value: T, label: string])[];
  readonly choose: (value: T) => void;
}

export function Choice<T extends string>({ label, value, options, choose }: Props<T>) {
  return (
    <fieldset className="filters">
      <legend className="visually-hidden">{label}</legend>
      {options.map(([each, text]) => (
        <button key={each} type="button" aria-pressed={value === each} onClick={() => choose(each)}>
          {text}
        </button>
      ))}
    </fieldset>
  );
}
