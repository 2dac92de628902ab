/** The groups of operations, in the order in which the reference shows them. */
export const tags = {
  Applications:
    'Every program that calls has an Application: a key, and the list of what the key opens. The key is shown when it is made and never again, since only a digest of it is kept. The shorter the list, the less is lost with the key.',
  Sessions:
    'A browser comes in through two doors. With the key of a public Application it creates a Session, which opens nothing yet, and hands the nonce to your backend. The backend, which knows the user, authorizes the Session once, for what it names and no more. From then on the session key works, until it expires.',
  Tokens:
    'A Token is data behind a name: sealed when it comes in, and shown to each caller as far as its access rules go: whole, masked, or not at all.',
  Decisions:
    'For services that guard data of their own: show the key you were shown, and learn whether it may do what it asks, how much it may see, and which rule says so.',
  Tenants:
    'A tenant is a context of its own: what belongs to one, no key of another ever sees. Tenants are made, disabled and deleted on the command line.',
  Logs: 'Who did what, on what, from where, and what came of it: every change with the change itself, and every refusal. Rows are sealed into a chain, so that a changed or missing one shows.',
  Reference: 'What the service tells about itself, to anyone.',
  Health: 'For load balancers and whatever restarts the service.',
} as const;

export type Tag = keyof typeof tags;
