/** The fixture of the AuthZEN 1.0 certification scenario, loaded through the API. */

type Call = (
  method: string,
  path: string,
  options: { key: string; body: unknown },
) => Promise<{ status: number; body: unknown }>;

/** The scenario's `status` of a record is a container here. */
const [active, archived] = ['/records/active/', '/records/archived/'];
const rule = (priority: number, container: string, ...permissions: string[]) => ({
  priority,
  container,
  transform: 'reveal',
  permissions,
});

const requests: [path: string, body: object][] = [
  ['/tokens', { id: 'record-1', type: 'record', container: active, data: { title: 'One' } }],
  ['/tokens', { id: 'record-2', type: 'record', container: archived, data: { title: 'Two' } }],
  [
    '/applications',
    {
      name: 'alice',
      type: 'private',
      rules: [
        rule(1, active, 'record:read', 'record:write', 'record:soft-delete'),
        rule(2, archived, 'record:read'),
      ],
    },
  ],
  [
    '/applications',
    {
      name: 'bob',
      type: 'private',
      rules: [rule(1, active, 'record:read'), rule(2, archived, 'record:read', 'record:write')],
    },
  ],
];

/** `key` needs `application:create` and `token:create`. */
export async function loadFixture(call: Call, key: string): Promise<void> {
  for (const [path, body] of requests) {
    const created = await call('POST', path, { key, body });
    if (created.status !== 201) throw new Error(`not created: ${JSON.stringify(created.body)}`);
  }
}
