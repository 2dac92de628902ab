/** Every mutant of src/domain against test/domain: see docs/mutation.md. */
export default {
  plugins: [import.meta.resolve('./prose.mjs')],
  mutate: ['src/domain/**/*.ts'],
  ignorePatterns: ['**', '!src/domain/**', '!test/domain/**', '!test/support/**', '!mutation/run.ts'],
  ignorers: ['prose'],
  testRunner: 'command',
  commandRunner: { command: 'node_modules/.bin/bun --no-env-file mutation/run.ts' },
  // Bun strips types without looking at them, so there is no tsconfig.json to rewrite.
  tsconfigFile: 'none.json',
  checkers: [],
  concurrency: 2,
  // The first run is of all tests, and takes longer than any other that comes to an end.
  timeoutMS: 10_000,
  timeoutFactor: 2,
  reporters: ['progress', 'clear-text', 'json'],
  jsonReporter: { fileName: '.stryker/report.json' },
  clearTextReporter: { logTests: false, allowColor: false },
  tempDirName: '.stryker',
  cleanTempDir: 'always',
  thresholds: { high: 100, low: 95, break: 95 },
  allowEmpty: false,
};
