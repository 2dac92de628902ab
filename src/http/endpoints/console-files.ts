/** The console: a page and what it loads, made when they are first asked for, and kept. */
import type { ConsoleFile } from '../../../console/build.ts';
import { fail } from '../../domain/error.ts';
import { pathOf } from '../pipeline/request-info.ts';
import { openEndpoint, type Reply } from '../pipeline/route.ts';

/** Nothing from elsewhere, nothing inline, no text that becomes markup or code. */
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

const always = {
  'Content-Security-Policy': consolePolicy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  Vary: 'Accept-Encoding',
};
const kept = { 'Cache-Control': 'public, max-age=31536000, immutable' };

let made: Promise<Map<string, ConsoleFile>> | undefined;

/** What failed once is tried again. */
function files(): Promise<Map<string, ConsoleFile>> {
  made ??= make().catch((error) => {
    made = undefined;
    throw error;
  });
  return made;
}

async function make(): Promise<Map<string, ConsoleFile>> {
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
    ...always,
    ...(file.lasting && kept),
    ...(encoding && { 'Content-Encoding': encoding }),
  };
  return { status: 200, body, headers };
}

export const getConsole = openEndpoint({
  name: 'getConsole',
  tag: 'Reference',
  summary: 'Open the console',
  replies: { 200: { description: 'The page.' } },
  handle: (_, request) => send(request),
});

export const getConsoleFile = openEndpoint({
  name: 'getConsoleFile',
  tag: 'Reference',
  summary: 'Get a file that the console loads',
  replies: { 200: { description: 'The file.' } },
  failures: ['path_unknown'],
  handle: (_, request) => send(request),
});
