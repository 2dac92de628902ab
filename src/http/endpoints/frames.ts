/** Serves the frames, and the files that they load, on a separate origin. They are built on the first request. */
import { fail } from '../../domain/error.ts';
import { parseKey } from '../../domain/key.ts';
import type { Store } from '../../store/store.ts';
import { pathOf } from '../pipeline/request-info.ts';
import { openEndpoint } from '../pipeline/route.ts';
import { builtOnce, fileReply } from '../pipeline/static-file.ts';

const files = builtOnce(async () => (await import('../../../frames/build.ts')).buildFrames());

export const getFrame = openEndpoint({
  name: 'getFrame',
  tag: 'Reference',
  summary: 'Get a frame, or a file that it loads',
  replies: { 200: { description: 'The frame or the file.' } },
  failures: ['path_unknown', 'unauthenticated', 'key_type_refused', 'origin_refused', 'too_many_requests'],
  handle: async ({ store, limits }, request, requestInfo) => {
    const path = pathOf(request.url).replace(/\/$/, '');
    const file = (await files()).get(path);
    if (!file) throw fail('path_unknown');
    if (file.immutable) return fileReply(file, request, loadedHeaders);
    if (!file.type.startsWith('text/html')) return fileReply(file, request, libraryHeaders);
    limits.takeAddress(requestInfo);
    const ancestors = await ancestorsOf(request, store);
    return fileReply(file, request, frameHeaders(path.slice(path.lastIndexOf('/') + 1), ancestors));
  },
});

/** The origins that may embed frames of the application in the address. Throws if it has no allowed origins. */
async function ancestorsOf({ url, headers }: Request, { credentials }: Store): Promise<readonly string[]> {
  const key = parseKey(new URL(url).searchParams.get('application') ?? '');
  const principal = key && (await credentials.find(key));
  if (principal?.kind !== 'application') throw fail('unauthenticated');
  if (principal.application.type !== 'public')
    throw fail('key_type_refused', {
      detail: 'The address of a frame needs the key of a public application.',
    });
  if (!principal.origins)
    throw fail('origin_refused', {
      detail: 'Frames need `allowed_origins` of the application: the origins of the pages that embed them.',
    });
  // Only the script of a page sends its origin. It asks why a frame did not load.
  const page = headers.get('origin');
  if (page !== null && !principal.origins.includes(page))
    throw fail('origin_refused', {
      detail: '`allowed_origins` of the application does not contain the origin of this page.',
    });
  return principal.origins;
}

/** Only the coordinator sends requests, and only the reveal frame writes to the clipboard. */
function frameHeaders(frame: string, ancestors: readonly string[]): Record<string, string> {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    ...(frame === 'coordinator' ? ["connect-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
    `frame-ancestors ${ancestors.join(' ')}`,
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
  const clipboard = frame === 'reveal' ? ['clipboard-write=(self)'] : [];
  return {
    'Content-Security-Policy': policy,
    'Permissions-Policy': [...clipboard, ...denied.map((feature) => `${feature}=()`)].join(', '),
    // With these two, a page with Cross-Origin-Embedder-Policy can embed the frame.
    'Cross-Origin-Embedder-Policy': 'require-corp',
    'Cross-Origin-Resource-Policy': 'cross-origin',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Origin-Agent-Cluster': '?1',
    'Referrer-Policy': 'no-referrer',
  };
}

const denied = [
  ...['accelerometer', 'autoplay', 'camera', 'clipboard-read', 'display-capture', 'encrypted-media'],
  ...['fullscreen', 'geolocation', 'gyroscope', 'hid', 'magnetometer', 'microphone', 'midi', 'payment'],
  ...['picture-in-picture', 'publickey-credentials-get', 'screen-wake-lock', 'serial', 'usb'],
];

/** For scripts and styles of the frames. */
const loadedHeaders = { 'Cross-Origin-Resource-Policy': 'same-origin' };

/** For the script that a page loads, under an address that stays the same. */
const libraryHeaders = {
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Cache-Control': 'public, max-age=300',
};
