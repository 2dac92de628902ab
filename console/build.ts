/**
 * Bundles the console in memory. The service does this at the first request for the console. The build of the single
 * executable does it ahead of time.
 */
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { page } from './page.ts';

export interface ConsoleFile {
  /** `/console` for the page. Other files have a path below it. */
  readonly path: string;
  readonly type: string;
  /** Whether the name contains a content hash, so that browsers may cache the file indefinitely. */
  readonly immutable: boolean;
  readonly plain: Uint8Array<ArrayBuffer>;
  readonly gzip: Uint8Array<ArrayBuffer>;
  readonly brotli: Uint8Array<ArrayBuffer>;
}

export const mount = '/console';
const types: Record<string, string> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
};

export interface BuildOptions {
  /** Brotli quality, 0 to 11. */
  readonly quality: number;
}

export async function buildConsole({ quality }: BuildOptions = { quality: 7 }): Promise<ConsoleFile[]> {
  const { outputs } = await Bun.build({
    entrypoints: [join(import.meta.dirname, 'src/main.ts')],
    target: 'browser',
    minify: true,
    splitting: true,
    publicPath: `${mount}/`,
    naming: { entry: '[name]-[hash].[ext]', chunk: 'part-[hash].[ext]', asset: '[name]-[hash].[ext]' },
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  const files = await Promise.all(
    outputs.map(async (output) => {
      const path = `${mount}/${output.path.split('/').at(-1)}`;
      const type = types[path.slice(path.lastIndexOf('.') + 1)] as string;
      return pack({ path, type, immutable: true }, new Uint8Array(await output.arrayBuffer()), quality);
    }),
  );
  const entry = outputs.findIndex(({ kind, path }) => kind === 'entry-point' && path.endsWith('.js'));
  const style = outputs.findIndex(({ path }) => path.endsWith('.css'));
  const script = files[entry] as ConsoleFile;
  const [, next = ''] = /import\("([^"]+)"\)/.exec(new TextDecoder().decode(script.plain)) ?? [];
  const html = page(script.path, next, (files[style] as ConsoleFile).path);
  const front = { path: mount, type: 'text/html; charset=utf-8', immutable: false };
  return [await pack(front, new TextEncoder().encode(html), quality), ...files];
}

/** Compresses a file. */
export async function pack(
  file: Pick<ConsoleFile, 'path' | 'type' | 'immutable'>,
  plain: Uint8Array<ArrayBuffer>,
  quality: number,
): Promise<ConsoleFile> {
  const [gzipped, compressed] = await Promise.all([
    promisify(gzip)(plain, { level: 9 }),
    promisify(brotliCompress)(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } }),
  ]);
  return { ...file, plain, gzip: new Uint8Array(gzipped), brotli: new Uint8Array(compressed) };
}
