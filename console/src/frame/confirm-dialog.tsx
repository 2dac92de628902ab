/** A dialog that runs an action after a confirmation. If the action fails, shows the error and stays open. */
import { Button, Modal } from '@mantine/core';
import { type FormEvent, type ReactNode, useState } from 'react';
import { InlineError } from './error-notice.tsx';

interface Props {
  readonly title: string;
  readonly close: () => void;
  /** The label of the button that closes the dialog. */
  readonly cancel?: string;
  /** The label of the button that runs the action. */
  readonly action: string;
  readonly run: () => Promise<void> | void;
  /** Whether the action removes something. */
  readonly dangerous?: boolean;
  readonly disabled?: boolean;
  /** The element that gets the focus first. For `content`, `children` mark it with `data-autofocus`. */
  readonly focus?: 'action' | 'cancel' | 'content';
  readonly size?: number;
  /** Returns a message that replaces the default one of the error. Undefined for the default. */
  readonly explain?: (error: unknown) => string | undefined;
  readonly children: ReactNode;
}

export function ConfirmDialog(props: Props) {
  const { title, close, cancel = 'Cancel', action, run, dangerous = false, disabled = false } = props;
  const { focus = 'action', size, explain, children } = props;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    // React passes events in a portal on to the form around the dialog.
    event.stopPropagation();
    if (disabled) return;
    setBusy(true);
    setError(undefined);
    try {
      await run();
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  const explanation = error === undefined ? undefined : explain?.(error);
  return (
    <Modal opened onClose={close} title={title} {...(size !== undefined && { size })}>
      <form className="stack" onSubmit={submit}>
        {children}
        {explanation === undefined ? (
          <InlineError error={error} />
        ) : (
          <p className="error-text" role="alert">
            {explanation}
          </p>
        )}
        <div className="foot">
          <Button variant="default" onClick={close} data-autofocus={focus === 'cancel' || undefined}>
            {cancel}
          </Button>
          <Button
            type="submit"
            color={dangerous ? 'red' : 'teal'}
            loading={busy}
            disabled={disabled}
            data-autofocus={focus === 'action' || undefined}
          >
            {action}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
