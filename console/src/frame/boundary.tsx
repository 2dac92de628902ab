/** A page that fails leaves the others standing, and says what to do. */
import { Button } from '@mantine/core';
import { Component, type ReactNode } from 'react';
import { Icon } from './icons.tsx';

interface State {
  readonly error?: unknown;
}

/** A file of the page that is not there any more: the service has been upgraded meanwhile. */
function isMissingFile(error: unknown): boolean {
  return error instanceof TypeError && /dynamically imported module|module script/i.test(error.message);
}

export class Boundary extends Component<{ readonly children: ReactNode }, State> {
  override state: State = {};

  static getDerivedStateFromError(error: unknown): State {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    const missing = isMissingFile(error);
    return (
      <div className="page">
        <div className="empty" role="alert">
          <Icon name="warning" size={28} />
          <h2>{missing ? 'The service has a newer console' : 'This page has failed'}</h2>
          <p>
            {missing
              ? 'Load it again to get it. You will be asked for the key.'
              : `Load it again, or go to another page. What it said: ${String(error)}`}
          </p>
          <Button onClick={() => location.reload()}>Load again</Button>
        </div>
      </div>
    );
  }
}
