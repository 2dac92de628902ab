/** What went wrong, in words that say what to do. */
import { Button } from '@mantine/core';
import { useEffect } from 'react';
import {
  ConnectionError,
  ProblemError,
  RateLimitError,
  UnavailableError,
  ValidationError,
} from '../../../sdk/src/sallyport.ts';
import { announce } from './announce.ts';
import { Icon } from './icons.tsx';

interface Advice {
  readonly title: string;
  readonly text: string;
  readonly again: boolean;
}

export function advice(error: unknown): Advice {
  if (error instanceof ProblemError && error.code === 'permission_missing') {
    const permission = /permission ([\w-]+(?::[\w-]+)+)/.exec(error.problem.detail)?.[1];
    return {
      title: permission ? `This key does not hold ${permission}` : 'This key may not do that',
      text: 'Sign in with a key that does, or have it granted to this one. Nothing else here is affected.',
      again: false,
    };
  }
  if (error instanceof RateLimitError) {
    return { title: 'Too many requests', text: 'Wait a moment, then try again.', again: true };
  }
  if (error instanceof UnavailableError) {
    const text = 'The service runs, but cannot reach its database. Nothing was changed. Try again soon.';
    return { title: 'The database is out of reach', text, again: true };
  }
  if (error instanceof ConnectionError) {
    const text = 'Check that the service is running and that this machine is online, then try again.';
    return { title: 'The service could not be reached', text, again: true };
  }
  if (error instanceof ValidationError) {
    const parts = Object.entries(error.errors).map(([part, said]) => `${part}: ${said.join('; ')}`);
    const text = parts.length > 0 ? parts.join('; ') : error.problem.detail;
    return { title: error.problem.title, text: `${text} (request ${error.requestId})`, again: false };
  }
  if (error instanceof ProblemError) {
    const text = `${error.problem.detail} (request ${error.requestId})`;
    return { title: error.problem.title, text, again: error.status >= 500 };
  }
  return { title: 'Something went wrong in this page', text: String(error), again: true };
}

export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  const { title, text, again } = advice(error);
  useEffect(() => announce(`${title}. ${text}`), [title, text]);
  return (
    <div className="problem" role="group" aria-label="Problem">
      <Icon name="warning" />
      <div>
        <strong>{title}</strong>
        <p>{text}</p>
        {again && retry && (
          <Button variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}

/** The same in one line, beside what caused it. */
export function Complaint({ error }: { error: unknown }) {
  if (error === undefined) return null;
  const { title, text } = advice(error);
  return (
    <p className="complaint" role="alert">
      {title}: {text}
    </p>
  );
}
