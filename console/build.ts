/**
 * Bundles the console in memory. The service does this at the first request for the console. The build of the single
 * executable does it ahead of time.
 */
import { join } from 'node:path';
import { type BuildOptions, pack, type StaticFile } from '../src/http/pipeline/static-file.ts';
import { page } from './page.ts';

export const mount = '/console';
const types: Record<string, string> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
};

export async function buildConsole(options?: BuildOptions): Promise<StaticFile[]> {
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
      return pack({ path, type, immutable: true }, new Uint8Array(await output.arrayBuffer()), options);
    }),
  );
  const entry = outputs.findIndex(({ kind, path }) => kind === 'entry-point' && path.endsWith('.js'));
  const style = outputs.findIndex(({ path }) => path.endsWith('.css'));
  const script = files[entry] as StaticFile;
  const [, next = ''] = /import\("([^"]+)"\)/.exec(new TextDecoder().decode(script.plain)) ?? [];
  const html = page(script.path, next, (files[style] as StaticFile).path);
  const front = { path: mount, type: 'text/html; charset=utf-8', immutable: false };
  return [await pack(front, html, options), ...files];
}
