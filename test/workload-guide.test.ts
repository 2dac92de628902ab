/** Exchanges JWTs that have the shape of each platform's for keys of the applications in the guide. */
import { expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readAccessFile } from '../src/cli/commands/access-file.ts';
import { updateBody } from '../src/cli/commands/plan.ts';
import { IssuerKey, openIssuer, tokenExchange } from './support/issuer.ts';
import { shell } from './support/shell.ts';
import { openTestServer, sqlite } from './support/test-server.ts';

const guide = readFileSync(join(import.meta.dirname, '../docs/guides/workload-identity.md'), 'utf8');
const file = /```yaml workloads.yaml\n(.*?)```/s.exec(guide)?.[1] ?? '';
const { wanted } = readAccessFile(file, 'the guide');

/** Claims as the platforms document them. */
const jwts: Record<string, { alg: 'RS256' | 'ES256'; claims: object; strange: object }> = {
  'deploy from GitHub': {
    alg: 'RS256',
    claims: {
      jti: 'example-id',
      sub: 'repo:acme/shop:ref:refs/heads/main',
      ref: 'refs/heads/main',
      sha: 'example-sha',
      repository: 'acme/shop',
      repository_owner: 'acme',
      repository_id: '74',
      actor: 'octocat',
      workflow: 'deploy',
      event_name: 'push',
      ref_type: 'branch',
      runner_environment: 'github-hosted',
    },
    strange: { repository: 'mallory/shop', sub: 'repo:mallory/shop:ref:refs/heads/main' },
  },
  'deploy from GitLab': {
    alg: 'RS256',
    claims: {
      jti: 'c82eeb0c-5c6f-4a33-abf5-4c474b92b558',
      sub: 'project_path:acme/shop:ref_type:branch:ref:main',
      namespace_path: 'acme',
      project_path: 'acme/shop',
      pipeline_source: 'push',
      ref: 'main',
      ref_type: 'branch',
      ref_protected: 'true',
    },
    strange: { ref: 'feature', ref_protected: 'false' },
  },
  'reports in Kubernetes': {
    alg: 'RS256',
    claims: {
      jti: 'aed34954-b33a-4142-b1ec-389d6bbb4936',
      sub: 'system:serviceaccount:shop:reports',
      'kubernetes.io': { namespace: 'shop', serviceaccount: { name: 'reports', uid: '14ee3fa4' } },
    },
    strange: { sub: 'system:serviceaccount:shop:default' },
  },
  'reports with SPIFFE': {
    alg: 'ES256',
    claims: { sub: 'spiffe://shop.example/reports' },
    strange: { sub: 'spiffe://shop.example/reports/evil' },
  },
};

const server = await openTestServer(sqlite, { SALLYPORT_ISSUER_NETWORKS: '127.0.0.1' });
const key = (await server.tenant()).key;
const tag = key.slice(8, 14);

test('the guide has every platform', () => {
  expect(wanted.map(({ application }) => application.name)).toEqual(Object.keys(jwts));
});

test.each(wanted.map(({ application }) => [application.name, application] as const))(
  'an application of the guide accepts the JWT of its workload and no other: %s',
  async (name, application) => {
    const { alg, claims, strange } = jwts[name] as (typeof jwts)[string];
    const signer = new IssuerKey('platform', alg);
    const issuer = openIssuer(signer);
    const [entry] = application.trusted_issuers ?? [];
    const created = await server.application(key, {
      ...updateBody(application),
      trusted_issuers: [{ ...entry, issuer: issuer.url }],
    });
    const clientId = `${tag}.${created.id}`;
    const management = { SALLYPORT_URL: server.url, SALLYPORT_KEY: key };
    const shown = await shell(['apps', 'get', name], { env: management });
    expect(shown.out).toMatch(new RegExp(`^client id +${RegExp.escape(clientId)}$`, 'm'));
    const now = Math.floor(server.clock.now() / 1000);
    const jwt = (changed: object = {}) =>
      signer.jwt({
        ...{ iss: issuer.url, aud: [entry?.audience], iat: now, nbf: now, exp: now + 300 },
        ...claims,
        ...changed,
      });
    const send = async (subject_token: string) => {
      const body = new URLSearchParams({ ...tokenExchange, client_id: clientId, subject_token }).toString();
      const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
      return (await server.call('POST', '/oauth/token', { body, headers })).status;
    };
    expect(await send(jwt(strange))).toBe(400);
    const github = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: (request) => {
        const isAsked = new URL(request.url).searchParams.get('audience') === entry?.audience;
        const isJob = request.headers.get('authorization') === 'Bearer job';
        return isAsked && isJob
          ? Response.json({ value: jwt({ jti: crypto.randomUUID() }) })
          : new Response(null, { status: 401 });
      },
    });
    writeFileSync('token', `${jwt()}\n`);
    const env = {
      SALLYPORT_URL: server.url,
      SALLYPORT_CLIENT_ID: clientId,
      ...(name === 'deploy from GitHub'
        ? {
            SALLYPORT_AUDIENCE: entry?.audience,
            ACTIONS_ID_TOKEN_REQUEST_URL: `${github.url}?api-version=2.0`,
            ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'job',
          }
        : name === 'deploy from GitLab'
          ? { SALLYPORT_TOKEN: jwt() }
          : { SALLYPORT_TOKEN_FILE: 'token' }),
    };
    const exchanged = await shell(['keys', 'exchange'], { env });
    expect([exchanged.code, exchanged.err]).toEqual([0, '']);
    expect(exchanged.out).toMatch(/^slp_pvt_\w+\n$/);
    const used = await server.call('GET', '/permissions/own', { key: exchanged.out.trim() });
    expect(used.body.permissions).toEqual(application.permissions);
    // Every command exchanges a JWT. Only that of GitLab is always the same and works once.
    const { err } = await shell(['whoami'], { env });
    expect(err).toContain(name === 'deploy from GitLab' ? '(invalid_request)' : 'permission_missing');
    await github.stop(true);
  },
);
