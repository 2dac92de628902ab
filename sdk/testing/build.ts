/** Bundles the test kit with the parts of the service that it runs, for Node. Called by ../build.mjs with the target. */
import { join } from 'node:path';

const [target = ''] = process.argv.slice(2);

/** Expressions that Node 20 does not know, and timers. */
const replacements = [
  [/\bBun\./g, 'node.bun.'],
  [/\b([\w.]+)\.toHex\(\)/g, 'node.hex($1)'],
  [/\bMap\.groupBy\b/g, 'node.groupBy'],
  [/\bPromise\.withResolvers\b(?:<\w+>)?/g, 'node.withResolvers'],
  [/(?<![.\w])setImmediate\(/g, 'node.setImmediate('],
] as const;
const runtime = join(import.meta.dirname, 'node.ts');
const sources = join(import.meta.dirname, '../../src/');

const forNode: Bun.BunPlugin = {
  name: 'for Node',
  setup: (build) => {
    build.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const text = await Bun.file(path).text();
      const replaced = replacements.reduce((code, [from, to]) => code.replace(from, to), text);
      if (!path.startsWith(sources) || replaced === text) return { contents: text, loader: 'ts' };
      return { contents: `import { node } from ${JSON.stringify(runtime)};\n${replaced}`, loader: 'ts' };
    });
  },
};

for (const format of ['esm', 'cjs'] as const) {
  const entry = join(import.meta.dirname, 'testing.ts');
  const outdir = join(target, format);
  const { success, logs } = await Bun.build({
    ...{ entrypoints: [entry], outdir, format, target: 'node', plugins: [forNode] },
    minify: { whitespace: true, syntax: true, identifiers: false },
    throw: false,
  });
  for (const message of logs) process.stderr.write(`${message}\n`);
  if (!success) process.exit(1);
}
