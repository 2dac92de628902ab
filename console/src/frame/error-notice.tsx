/** Error messages that say what to do. */
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

interface ErrorDescription {
  readonly title: string;
  readonly text: string;
  readonly retryable: boolean;
}

export function describeError(error: unknown): ErrorDescription {
  if (error instanceof ProblemError && error.code === 'permission_missing') {
    const permission = /[a-z][\w-]*(?::[a-z][\w-]*)+/.exec(error.problem.detail)?.[0];
    return {
      title: permission ? `This key lacks ${permission}` : 'Permission missing',
      text: 'Sign in with another key, or grant the permission to this one.',
      retryable: false,
    };
  }
  if (error instanceof RateLimitError) {
    return { title: 'Too many requests', text: 'Wait a moment, then try again.', retryable: true };
  }
  if (error instanceof UnavailableError) {
    const text = 'The service cannot reach its database. No change was made. Try again shortly.';
    return { title: 'Database unavailable', text, retryable: true };
  }
  if (error instanceof ConnectionError) {
    const status = /with status (\d+)/.exec(error.message)?.[1];
    if (status !== undefined) {
      const text = 'A proxy answered instead of the service. A deployment may be in progress. Try again.';
      return { title: `The service is not available (status ${status})`, text, retryable: true };
    }
    const text = navigator.onLine
      ? 'The service did not answer. Check that it is running, then try again.'
      : 'This device is offline.';
    return { title: 'Cannot reach the service', text, retryable: true };
  }
  if (error instanceof ValidationError) {
    const messages = Object.entries(error.errors).map(
      ([field, reasons]) => `${field}: ${reasons.join('; ')}`,
    );
    const text = messages.length > 0 ? messages.join('; ') : error.problem.detail;
    return { title: error.problem.title, text: `${text} (request ${error.requestId})`, retryable: false };
  }
  if (error instanceof ProblemError) {
    const text = `${error.problem.detail} (request ${error.requestId})`;
    return { title: error.problem.title, text, retryable: error.status >= 500 };
  }
  return { title: 'Unexpected error', text: String(error), retryable: true };
}

export function ErrorNotice({ error, retry }: { error: unknown; retry?: () => void }) {
  const { title, text, retryable } = describeError(error);
  useEffect(() => announce(`${title}. ${text}`), [title, text]);
  useEffect(() => {
    if (!retry || !(error instanceof ConnectionError)) return;
    addEventListener('online', retry);
    return () => removeEventListener('online', retry);
  }, [error, retry]);
  return (
    <div className="problem" role="group" aria-label="Error">
      <Icon name="warning" />
      <div>
        <strong>{title}</strong>
        <p>{text}</p>
        {retryable && retry && (
          <Button variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}

/** A one-line error next to the control that caused it. */
export function InlineError({ error }: { error: unknown }) {
  if (error === undefined) return null;
  const { title, text } = describeError(error);
  return (
    <p className="error-text" role="alert">
      {title}: {text}
    </p>
  );
}
