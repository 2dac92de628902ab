/** Mutates src/domain and runs test/domain on each mutant. See mutation/README.md. */
export default {
  plugins: [import.meta.resolve('./ignore-descriptions.mjs')],
  mutate: ['src/domain/**/*.ts'],
  // A domain test reads the route table, so all of src is copied into the sandbox.
  ignorePatterns: [
    '**',
    '!src/**',
    '!console/**',
    '!package.json',
    '!test/domain/**',
    '!test/support/**',
    '!mutation/run.ts',
  ],
  ignorers: ['descriptions'],
  testRunner: 'command',
  commandRunner: { command: 'node_modules/.bin/bun --no-env-file mutation/run.ts' },
  // Bun does not check types, so Stryker need not rewrite tsconfig.json.
  tsconfigFile: 'none.json',
  checkers: [],
  concurrency: 2,
  // Added to the time of the first run, which runs all tests.
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
