/** First steps: what is still to do until a browser has its first session. */
import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { CopyButton } from '../frame/copy-button.tsx';
import { Icon } from '../frame/icons.tsx';
import { useLoad } from '../frame/load.ts';
import { href } from '../frame/route.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';

/** Whether the user hid the checklist. Forgotten when the page is closed or reloaded. */
let wasHidden = false;

const startSnippet = `import { startSession } from '@sallyport/sdk';

// In the browser. Your backend authorizes the nonce for the signed-in customer. Fails unless it answers 2xx.
const session = await startSession({
  url: '${location.origin}',
  publicKey: 'slp_pub_…',
  authorize: (nonce) =>
    fetch('/session', { method: 'POST', headers: { 'X-Requested-With': 'fetch' }, body: nonce }),
});`;

const authorizeSnippet = `import { authorizeSession, Sallyport } from '@sallyport/sdk';

// In your backend, for the signed-in customer.
const service = new Sallyport({ url: '${location.origin}', key: process.env.SALLYPORT_KEY });

async function authorize(request, customer) {
  // Another site can make the browser send your cookies, but not this header (CSRF).
  if (!request.headers.has('X-Requested-With')) return new Response(null, { status: 403 });
  const { expiresAt } = await authorizeSession(service, await request.text(), {
    rules: [
      {
        priority: 1,
        transform: 'mask',
        permissions: ['token:read'],
        conditions: [
          { attribute: 'container', operator: 'starts_with', value: \`/customers/\${customer}/\` },
        ],
      },
    ],
  });
  return new Response(null, { status: 204, headers: { 'SVC-SESSION-EXPIRES-AT': expiresAt } });
}`;

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
  const create = mayCreate && (
    <Button component="a" variant="default" size="compact-xs" href={href('applications', 'new')}>
      Create
    </Button>
  );
  const steps: Step[] = [
    {
      title: 'Create a private application for your backend',
      text: 'Its key authorizes sessions, for instance to show customers their own data.',
      done: progress.hasPrivate,
      action: create,
    },
    {
      title: 'Create a public application for your web page',
      text: 'Its key may be public: it only starts sessions.',
      done: progress.hasPublic,
      action: create,
    },
    {
      title: 'Store a token',
      text: 'Sensitive data is stored encrypted, as a token in a container such as /customers/42/.',
      done: progress.hasToken,
      action: <Snippet text={tokenSnippet()} />,
    },
    {
      title: 'Start a session in the browser',
      text: 'The session is pending: it has no access until your backend authorizes it.',
      done: progress.hasSession,
      action: <Snippet text={startSnippet} />,
    },
    {
      title: 'Authorize the session in your backend',
      text: 'Grant only the data of this customer.',
      done: false,
      action: <Snippet text={authorizeSnippet} />,
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

function tokenSnippet(): string {
  return `curl ${location.origin}/tokens \\
  -H "SVC-API-KEY: $SALLYPORT_KEY" -H 'Content-Type: application/json' \\
  -d '{"id":"card-42","container":"/customers/42/","data":"4242424242424242"}'`;
}

function Snippet({ text }: { text: string }) {
  return (
    <div className="snippet">
      <pre>{text}</pre>
      <CopyButton text={text} />
    </div>
  );
}
