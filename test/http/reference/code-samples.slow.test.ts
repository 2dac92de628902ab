/** Runs the examples of every operation, and compares the requests that they send. */
import { afterAll, expect, test } from 'bun:test';
import { formType } from '../../../src/http/pipeline/read-input.ts';
import { openApi, requestTarget } from '../../../src/http/reference/openapi.ts';
import { referencePage } from '../../../src/http/reference/page.ts';
import { routes } from '../../../src/http/routes.ts';
import { isMissing, noCurl } from '../../support/skip.ts';

interface RecordedRequest {
  method: string;
  path: string;
  key: string | null;
  type: string | null;
  body: unknown;
}

const document = openApi(routes, '1.2.3');
const page = referencePage(document);
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);
const keys = { SALLYPORT_KEY: 'management key', PUBLIC_KEY: 'public key', PRIVATE_KEY: 'private key' };

function parseBody(text: string, type: string | null): unknown {
  return type === formType ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text);
}

const recorded: RecordedRequest[] = [];
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const text = await request.text();
    const type = request.headers.get('content-type')?.split(';')[0] ?? null;
    recorded.push({
      method: request.method,
      path: request.url.slice(server.url.origin.length),
      key: request.headers.get('svc-api-key'),
      type: text === '' ? null : type,
      body: text === '' ? undefined : parseBody(text, type),
    });
    return Response.json({});
  },
});
afterAll(() => server.stop());

const expectedRequests = operations.map(({ path, method, operation }): RecordedRequest => {
  const content = operation.requestBody?.content ?? {};
  const type = 'application/json' in content ? 'application/json' : (Object.keys(content)[0] ?? null);
  const body = type === null ? undefined : content[type]?.example;
  const callers = operation['x-callers'] ?? ['management'];
  const ofBackend = callers.includes('private') ? keys.PRIVATE_KEY : keys.PUBLIC_KEY;
  const key = callers.includes('management') ? keys.SALLYPORT_KEY : ofBackend;
  return {
    method: method.toUpperCase(),
    path: requestTarget(path, operation.parameters),
    key: operation.security?.length === 0 ? null : key,
    type: body === undefined ? null : type,
    body,
  };
});

const entities: Record<string, string> = { quot: '"', '#x27': "'", lt: '<', gt: '>', amp: '&' };

/** The text of each example, as the Copy button copies it, with the address of the recording server. */
function samples(language: string): string[] {
  return operations.map(({ operation: { operationId } }) => {
    const [, article = ''] = page.split(`<article class="operation" id="${operationId}"`);
    const [, code = ''] = article.split(`<pre data-language="${language}"`);
    return code
      .slice(code.indexOf('<code>'), code.indexOf('</code>'))
      .replace(/<[^>]+>/g, '')
      .replace(/&([^;]+);/g, (_, name) => entities[name] ?? '?')
      .replaceAll('http://127.0.0.1:8080', server.url.origin);
  });
}

async function run(...command: string[]): Promise<RecordedRequest[]> {
  recorded.length = 0;
  const child = Bun.spawn(command, {
    env: { ...process.env, ...keys, no_proxy: '*' },
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const errors = await new Response(child.stderr).text();
  expect([await child.exited, errors]).toEqual([0, '']);
  return [...recorded];
}

/** The requests as text, so that a comparison includes the order of fields. */
const ordered = (requests: RecordedRequest[]) => requests.map((request) => JSON.stringify(request));

test.skipIf(noCurl())('the curl examples send the documented requests', async () => {
  const script = samples('curl').map((sample) => sample.replace(/^curl /, 'curl -sS --noproxy "*" '));
  expect(ordered(await run('sh', '-ec', script.join('\n')))).toEqual(ordered(expectedRequests));
});

test('the JavaScript examples send the documented requests', async () => {
  const script = samples('javascript').map((sample) => `{\n${sample}\n}`);
  expect(ordered(await run(process.execPath, '--no-env-file', '-e', script.join('\n')))).toEqual(
    ordered(expectedRequests),
  );
});

const noPython = isMissing(
  Bun.which('python3') !== null,
  'Python examples of the API reference: no python3 found',
);

test.skipIf(noPython)('the Python examples send the documented requests', async () => {
  const script = samples('python').join('\n\n');
  expect(ordered(await run('python3', '-c', script))).toEqual(ordered(expectedRequests));
});
