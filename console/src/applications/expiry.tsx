/** Chooses when an application expires. */
import type { Application } from '../../../sdk/src/sallyport.ts';
import { formatDate } from '../frame/format.ts';
import { lifetimes } from './draft.ts';
import type { PartProps } from './type-choice.tsx';

/** The expiry while "Custom" is chosen and no date is entered yet. */
const noDate = 'none';

function isDate(expiry: string): boolean {
  return expiry !== '' && expiry !== 'never' && !/^\d+$/.test(expiry);
}

export function expiryError({ expiry }: PartProps['draft']): string | undefined {
  return isDate(expiry) && Number.isNaN(Date.parse(expiry)) ? 'Enter a valid date.' : undefined;
}

interface Props extends PartProps {
  /** Undefined for a new application. */
  readonly application: Application | undefined;
  readonly error: string | undefined;
}

export function Expiry({ draft, change, application, error }: Props) {
  const custom = isDate(draft.expiry);
  const choices = application
    ? [['Unchanged', ''], ...(application.expires_at === undefined ? [] : [['Never', 'never']]), ...lifetimes]
    : [['Never', ''], ...lifetimes];
  return (
    <fieldset className="choices">
      <legend className="field-label">Expires</legend>
      {application && (
        <p className="fine">
          {application.expires_at === undefined ? 'Never at present.' : formatDate(application.expires_at)}
        </p>
      )}
      <div className="chips">
        {choices.map(([label = '', value = '']) => (
          <label key={label} className="chip chip-radio">
            <input
              type="radio"
              name="expiry"
              checked={draft.expiry === value}
              onChange={() => change({ expiry: value })}
            />
            {label}
          </label>
        ))}
        <label className="chip chip-radio">
          <input type="radio" name="expiry" checked={custom} onChange={() => change({ expiry: noDate })} />
          Custom
        </label>
        {custom && (
          <input
            type="datetime-local"
            className="chip"
            aria-label="Custom date"
            value={draft.expiry === noDate ? '' : draft.expiry}
            onChange={(event) => change({ expiry: event.currentTarget.value || noDate })}
          />
        )}
      </div>
      {error && <p className="error-text">{error}</p>}
    </fieldset>
  );
}
