/** First steps: what is still to do until a browser has its first session. */
import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Draft } from '../applications/draft.ts';
import { openNew } from '../applications/stored-draft.ts';
import { CopyButton } from '../frame/copy-button.tsx';
import { Icon } from '../frame/icons.tsx';
import { useLoad } from '../frame/load.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';

/** Whether the user hid the checklist. Forgotten when the page is closed or reloaded. */
let wasHidden = false;

type NewApplication = Pick<Draft, 'name' | 'type' | 'rules'>;

const backend: NewApplication = {
  name: 'backend',
  type: 'private',
  rules: [
    {
      priority: 1,
      container: '/customers/',
      transform: 'reveal',
      permissions: ['token:create', 'token:read'],
    },
  ],
};

const page: NewApplication = {
  name: 'shop page',
  type: 'public',
  rules: [{ priority: 1, container: '/incoming/', transform: 'redact', permissions: ['token:create'] }],
};

const token = {
  container: '/customers/42/',
  data: '4242424242424242',
  mask: '{{ data | reveal_last: 4 }}',
};

const sessionRule = {
  priority: 1,
  transform: 'mask',
  permissions: ['token:read'],
  conditions: [{ attribute: 'container', operator: 'starts_with', value: token.container }],
};

/** A request with the key in a variable. Where the body has `$NAME`, the shell inserts the variable. */
function request(path: string, key: string, body?: string): string {
  const headers = [
    `-H "SVC-API-KEY: $${key}"`,
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'"]),
  ];
  const sent = body === undefined ? [] : [`-d '${body}'`];
  return [`curl -X POST ${location.origin}${path}`, headers.join(' '), ...sent].join(' \\\n  ');
}

/** The commands of each step. Those that follow use the variables that the comments name. */
const commands = () => ({
  backend: `${request('/applications', 'SALLYPORT_KEY', JSON.stringify(backend))}
# SALLYPORT_KEY is your management key. Export the key in the response as BACKEND_KEY.`,
  page: `${request('/applications', 'SALLYPORT_KEY', JSON.stringify(page))}
# Export the key in the response as PUBLIC_KEY.`,
  token: request('/tokens', 'BACKEND_KEY', JSON.stringify(token)),
  start: `${request('/sessions', 'PUBLIC_KEY')}
# Export the session_key in the response as SESSION_KEY, and the nonce as NONCE.`,
  authorize: `${request('/sessions/authorize', 'BACKEND_KEY', `{"nonce":"'"$NONCE"'","rules":${JSON.stringify([sessionRule])}}`)}
# What the browser sees now:
curl ${location.origin}/tokens -H "SVC-API-KEY: $SESSION_KEY"`,
});

interface Step {
  readonly title: string;
  readonly text: string;
  readonly done: boolean;
  readonly action?: ReactNode;
}

/** Which steps were done. Undefined while loading, or if the key may not see it. */
function useProgress() {
  const { api } = useSignedIn();
  return useLoad('first steps', async (signal) => {
    const hasType = async (type: 'private' | 'public') => {
      const { data, pagination } = await api.applications.list({ type, size: 1 }, { signal });
      // Of very many applications, a page examines some. A tenant that has so many is not new.
      return data.length > 0 || pagination.next !== undefined;
    };
    const [hasPrivate, hasPublic, tokens, created, authorized] = await Promise.all([
      hasType('private'),
      hasType('public'),
      api.tokens.list({ size: 1 }, { signal }),
      api.logs.counts({ operation: 'session.create' }, { signal }),
      api.logs.counts({ operation: 'session.authorize' }, { signal }),
    ]);
    return {
      hasPrivate,
      hasPublic,
      hasToken: tokens.data.length > 0,
      hasSession: created.totals.success > 0,
      // A tenant with archived entries is not new.
      isAuthorized: authorized.totals.success > 0 || authorized.gaps !== undefined,
    };
  }).data;
}

export function Checklist() {
  const signedIn = useSignedIn();
  const progress = useProgress();
  const [isHidden, setHidden] = useState(wasHidden);
  if (isHidden || !progress || progress.isAuthorized) return null;
  const mayCreate = holds(signedIn, 'application:create');
  const snippets = commands();
  const create = (application: NewApplication, command: string) =>
    mayCreate && (
      <>
        <Button variant="default" size="compact-xs" onClick={() => openNew(application)}>
          Create
        </Button>
        <Snippet text={command} />
      </>
    );
  const steps: Step[] = [
    {
      title: 'Create a private application for your backend',
      text: 'Its key stores data, and authorizes sessions that show customers their own data.',
      done: progress.hasPrivate,
      action: create(backend, snippets.backend),
    },
    {
      title: 'Create a public application for your web page',
      text: 'Its key may be public: it starts sessions, and stores data that it cannot read.',
      done: progress.hasPublic,
      action: create(page, snippets.page),
    },
    {
      title: 'Store a token',
      text: 'Sensitive data is stored encrypted, as a token in a container such as /customers/42/. Callers who may not see it get the mask.',
      done: progress.hasToken,
      action: <Snippet text={snippets.token} />,
    },
    {
      title: 'Start a session in the browser',
      text: 'The session is pending: it has no access until your backend authorizes it.',
      done: progress.hasSession,
      action: <Snippet text={snippets.start} />,
    },
    {
      title: 'Authorize the session in your backend',
      text: 'Grant only the data of this customer. In JavaScript, the SDK has startSession and authorizeSession.',
      done: false,
      action: <Snippet text={snippets.authorize} />,
    },
  ];
  const current = steps.findIndex(({ done }) => !done);
  const hide = () => {
    wasHidden = true;
    setHidden(true);
  };
  return (
    <section className="card first-steps" aria-label="First steps">
      <div className="panel-head">
        <h2>First steps</h2>
        <Button variant="subtle" color="gray" size="compact-xs" onClick={hide}>
          Hide
        </Button>
      </div>
      <p className="fine">Five steps to the first browser session.</p>
      <ol>
        {steps.map(({ title, text, done, action }, index) => (
          <li key={title} className={done ? 'step-done' : undefined}>
            <span className="step-mark">{done ? <Icon name="check" size={12} /> : index + 1}</span>
            <div>
              <h3>
                {title}
                {done && <span className="visually-hidden"> (done)</span>}
              </h3>
              {!done && <p className="fine">{text}</p>}
              {index === current && action}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Snippet({ text }: { text: string }) {
  return (
    <div className="snippet">
      <pre>{text}</pre>
      <CopyButton text={text} />
    </div>
  );
}
