/** Chooses the type of a new application, or a template. Asks for confirmation if that would remove rules. */
import { useState } from 'react';
import type { Difference } from '../access/grants.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { Icon } from '../frame/icons.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { type Draft, grantsForType, type Preset, presets, removedGrants, runtimes } from './draft.ts';
import { Lines } from './review-dialog.tsx';

export interface PartProps {
  readonly draft: Draft;
  readonly change: (part: Partial<Draft>) => void;
}

interface PendingChange {
  readonly title: string;
  readonly part: Partial<Draft>;
  readonly removed: readonly Difference[];
}

function isUnedited({ permissions, rules }: Draft): boolean {
  const text = JSON.stringify([permissions, rules]);
  return presets.some((preset) => JSON.stringify([preset.permissions, preset.rules]) === text);
}

export function TypeChoice({ draft, change }: PartProps) {
  const signedIn = useSignedIn();
  const [pending, setPending] = useState<PendingChange>();
  const fit = presets.filter(({ permissions }) =>
    permissions.every((permission) => holds(signedIn, permission)),
  );
  const request = (title: string, part: Partial<Draft> & Pick<Draft, 'permissions' | 'rules'>) => {
    const removed = isUnedited(draft) ? [] : removedGrants(draft, part);
    if (removed.length === 0) change(part);
    else setPending({ title, part, removed });
  };
  const chooseType = (type: Draft['type']) =>
    request(`Change the type to ${type}?`, { type, ...grantsForType(draft, type, signedIn.permissions) });
  const chooseTemplate = ({ title, type, permissions, rules }: Preset) =>
    request(`Use the template ${title}?`, { type, permissions, rules });
  return (
    <>
      <fieldset className="choices choices-wide">
        <legend className="field-label">Where will the key be used?</legend>
        {runtimes.map(({ type, icon, title, text }) => (
          <label key={type} className="choice">
            <input type="radio" name="type" checked={draft.type === type} onChange={() => chooseType(type)} />
            <Icon name={icon} />
            <span>
              <strong>{title}</strong>
              <small>{text}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <div>
        <span className="field-label">Template</span>
        <div className="chips">
          {fit.map((preset) => (
            <button
              key={preset.title}
              type="button"
              className="chip"
              title={preset.text}
              onClick={() => chooseTemplate(preset)}
            >
              <strong>{preset.title}</strong> {preset.text}
            </button>
          ))}
        </div>
      </div>
      {pending && (
        <RemovalDialog
          {...pending}
          close={() => setPending(undefined)}
          confirm={() => {
            setPending(undefined);
            change(pending.part);
          }}
        />
      )}
    </>
  );
}

interface RemovalProps extends Pick<PendingChange, 'title' | 'removed'> {
  readonly close: () => void;
  readonly confirm: () => void;
}

function RemovalDialog({ title, removed, close, confirm }: RemovalProps) {
  return (
    <ConfirmDialog
      title={title}
      close={close}
      action="Remove and continue"
      run={confirm}
      dangerous
      focus="cancel"
      size={520}
    >
      <p className="quiet">This removes or restricts what you entered:</p>
      <Lines changes={removed} />
    </ConfirmDialog>
  );
}
