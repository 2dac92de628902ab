/**
 * Bundles the frames in memory. The service does this at the first request for a frame. The build of the single
 * executable does it ahead of time.
 */
import { join } from 'node:path';
import { fieldTypes } from '../sdk/src/frame-messages.ts';
import { type BuildOptions, pack, type StaticFile } from '../src/http/pipeline/static-file.ts';

const mount = '/frames/v1';
const script = 'text/javascript; charset=utf-8';

export async function buildFrames(options?: BuildOptions): Promise<StaticFile[]> {
  const sources = join(import.meta.dirname, 'src');
  const entrypoints = ['field.ts', 'coordinator.ts', 'reveal.ts', 'frame.css'].map((name) =>
    join(sources, name),
  );
  const { outputs } = await Bun.build({
    entrypoints,
    target: 'browser',
    minify: true,
    naming: '[name]-[hash].[ext]',
  });
  const library = await Bun.build({
    entrypoints: [join(import.meta.dirname, '../sdk/src/frames.ts')],
    target: 'browser',
    minify: true,
  });
  const named = new Map<string, string>();
  const files: Promise<StaticFile>[] = [];
  for (const output of outputs) {
    const file = output.path.split('/').at(-1) as string;
    const [, name = '', extension] = /^(\w+)-.*\.(js|css)$/.exec(file) ?? [];
    const path = `${mount}/${file}`;
    named.set(`${name}.${extension}`, path);
    const type = extension === 'css' ? 'text/css; charset=utf-8' : script;
    files.push(packed({ path, type, immutable: true }, output, options));
  }
  const [sdk] = library.outputs;
  if (!sdk) throw new Error('the library of the frames was not built');
  files.push(packed({ path: `${mount}/sdk.js`, type: script, immutable: false }, sdk, options));
  for (const frame of [...fieldTypes, 'coordinator', 'reveal']) {
    const name = frame === 'coordinator' || frame === 'reveal' ? frame : 'field';
    const html = frameHtml(named.get(`${name}.js`) as string, named.get('frame.css') as string);
    const type = 'text/html; charset=utf-8';
    files.push(packed({ path: `${mount}/${frame}`, type, immutable: false }, new Blob([html]), options));
  }
  return Promise.all(files);
}

async function packed(
  file: Pick<StaticFile, 'path' | 'type' | 'immutable'>,
  content: Blob,
  options: BuildOptions | undefined,
): Promise<StaticFile> {
  return pack(file, new Uint8Array(await content.arrayBuffer()), options);
}

function frameHtml(scriptPath: string, stylePath: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sallyport</title>
<link rel="stylesheet" href="${stylePath}">
<script type="module" src="${scriptPath}"></script>
</head>
<body></body>
</html>
`;
}
