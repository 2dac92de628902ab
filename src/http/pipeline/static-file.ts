/** Files of the console, the frames and the documentation. They are built once, and sent compressed. */
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { fail } from '../../domain/error.ts';
import { pathOf } from './request-info.ts';
import type { Reply } from './route.ts';

export interface StaticFile {
  readonly path: string;
  readonly type: string;
  /** Whether the name contains a content hash, so that browsers may cache the file indefinitely. */
  readonly immutable: boolean;
  readonly plain: Uint8Array<ArrayBuffer>;
  /** Undefined for a file that is compressed by its own format. */
  readonly gzip?: Uint8Array<ArrayBuffer> | undefined;
  readonly brotli?: Uint8Array<ArrayBuffer> | undefined;
}

export interface BuildOptions {
  /** Brotli quality, 0 to 11. */
  readonly quality: number;
}

const defaultQuality = 7;

/** Compresses a file, unless it is an image. */
export async function pack(
  file: Pick<StaticFile, 'path' | 'type' | 'immutable'>,
  content: string | Uint8Array<ArrayBuffer>,
  { quality }: BuildOptions = { quality: defaultQuality },
): Promise<StaticFile> {
  const plain = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  if (file.type === 'image/png') return { ...file, plain };
  const [gzipped, compressed] = await Promise.all([
    promisify(gzip)(plain, { level: 9 }),
    promisify(brotliCompress)(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } }),
  ]);
  return { ...file, plain, gzip: new Uint8Array(gzipped), brotli: new Uint8Array(compressed) };
}

/** Builds the files once, at the first call. If the build fails, the next call tries again. */
export function builtOnce(build: () => Promise<StaticFile[]>): () => Promise<Map<string, StaticFile>> {
  let built: Promise<Map<string, StaticFile>> | undefined;
  return () => {
    built ??= build()
      .then((files) => new Map(files.map((file) => [file.path, file])))
      .catch((error) => {
        built = undefined;
        throw error;
      });
    return built;
  };
}

/** Returns a function that replies with the file at the path of a request, or throws `path_unknown`. */
export function fileSender(build: () => Promise<StaticFile[]>, headers: Record<string, string>) {
  const files = builtOnce(build);
  return async (request: Request): Promise<Reply> => {
    const file = (await files()).get(pathOf(request.url).replace(/\/$/, ''));
    if (!file) throw fail('path_unknown');
    return fileReply(file, request, headers);
  };
}

const immutableHeaders = { 'Cache-Control': 'public, max-age=31536000, immutable' };

export function fileReply(file: StaticFile, request: Request, common: Record<string, string>): Reply {
  const accepted = request.headers.get('accept-encoding');
  const [encoding, body] =
    file.brotli && accepts(accepted, 'br')
      ? (['br', file.brotli] as const)
      : file.gzip && accepts(accepted, 'gzip')
        ? (['gzip', file.gzip] as const)
        : [undefined, file.plain];
  const headers = {
    'Content-Type': file.type,
    Vary: 'Accept-Encoding',
    ...common,
    ...(file.immutable && immutableHeaders),
    ...(encoding && { 'Content-Encoding': encoding }),
  };
  return { status: 200, body, headers };
}

/** Whether an `Accept-Encoding` header accepts a coding (RFC 9110). Without the header, files are not compressed. */
export function accepts(header: string | null, coding: string): boolean {
  const weights = new Map<string, number>();
  for (const item of (header ?? '').split(',')) {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
    weights.set(name, weight === undefined ? 1 : Number(weight));
  }
  return (weights.get(coding) ?? weights.get('*') ?? 0) > 0;
}
