/** Serves the console. Its files are built on the first request and cached. */
import type { ConsoleFile } from '../../../console/build.ts';
import { fail } from '../../domain/error.ts';
import { pathOf } from '../pipeline/request-info.ts';
import { openEndpoint, type Reply } from '../pipeline/route.ts';

/** Allows no other origins and no inline code. Trusted types block DOM injection. */
export const consolePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const commonHeaders = {
  'Content-Security-Policy': consolePolicy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  Vary: 'Accept-Encoding',
};
const immutableHeaders = { 'Cache-Control': 'public, max-age=31536000, immutable' };

let built: Promise<Map<string, ConsoleFile>> | undefined;

/** A failed build is retried by the next request. */
function files(): Promise<Map<string, ConsoleFile>> {
  built ??= build().catch((error) => {
    built = undefined;
    throw error;
  });
  return built;
}

async function build(): Promise<Map<string, ConsoleFile>> {
  const { buildConsole } = await import('../../../console/build.ts');
  return new Map((await buildConsole()).map((file) => [file.path, file]));
}

async function send(request: Request): Promise<Reply> {
  const path = pathOf(request.url).replace(/\/$/, '');
  const file = (await files()).get(path);
  if (!file) throw fail('path_unknown');
  const accepted = request.headers.get('accept-encoding') ?? '';
  const encoding = /\bbr\b/.test(accepted) ? 'br' : /\bgzip\b/.test(accepted) ? 'gzip' : undefined;
  const body = encoding === 'br' ? file.brotli : encoding === 'gzip' ? file.gzip : file.plain;
  const headers = {
    'Content-Type': file.type,
    ...commonHeaders,
    ...(file.immutable && immutableHeaders),
    ...(encoding && { 'Content-Encoding': encoding }),
  };
  return { status: 200, body, headers };
}

export const getConsole = openEndpoint({
  name: 'getConsole',
  tag: 'Reference',
  summary: 'Get the console page',
  replies: { 200: { description: 'The console page.' } },
  handle: (_, request) => send(request),
});

export const getConsoleFile = openEndpoint({
  name: 'getConsoleFile',
  tag: 'Reference',
  summary: 'Get a file of the console',
  replies: { 200: { description: 'The file.' } },
  failures: ['path_unknown'],
  handle: (_, request) => send(request),
});
