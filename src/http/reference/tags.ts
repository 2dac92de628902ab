/** The groups of operations, in the order of the reference. */
export const tags = {
  Applications:
    'An application represents a program that calls the API: a backend, a web page or a tool. It has keys, permissions and access rules. A key is returned only when it is created; only a hash is stored.',
  Sessions:
    'A session gives one browser temporary access. The browser creates it with the key of a public application and sends the nonce to your backend. Until your backend authorizes the session with that nonce, the session key has no access. A nonce works once.',
  Tokens:
    'A token is a piece of sensitive data, stored encrypted. Its container, a path such as `/customers/42/`, determines which access rules apply. The rules decide whether a caller gets the plaintext, a masked value or no data.',
  Destinations:
    'A destination is an HTTPS service that may receive plaintext, such as a payment provider. Sallyport inserts the data of tokens into requests to it, so that the caller uses the data without seeing it.',
  Decisions:
    'Use decisions to protect data in your own services. Send the key that a caller presented to you, with a permission and a resource. The response says whether access is allowed, with which transform, and which rule decided.',
  'Access review':
    'An access review answers who can see or change data, and how much of it. It lists applications and active sessions, riskiest first.',
  AuthZEN:
    'The OpenID AuthZEN Authorization API 1.0, for API gateways and other programs that speak this standard. It also accepts `Authorization: Bearer KEY`, returns the `X-Request-ID` of the request, and ignores unknown fields.',
  Tenants:
    'Tenants are isolated from each other: a key never sees data of another tenant. Operators create, disable and delete tenants on the command line.',
  Logs: 'The audit log contains an entry for every change and every denied request. Entries are sealed into signed segments, so that altered or deleted entries are detected.',
  Requests:
    'The number of authenticated requests over time, and their response times. A key sees the numbers of its tenant.',
  Reference: 'Descriptions of the API. No key is required.',
  Health: 'Liveness and readiness checks for load balancers and process managers. No key is required.',
} as const;

export type Tag = keyof typeof tags;
