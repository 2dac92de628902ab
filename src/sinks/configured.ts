import type { Config } from '../config/settings.ts';
import type { Sink, SinkEnvironment } from './config.ts';

/**
 * Reads the configured sinks. Loads the code of sinks only if there are any, because YAML and HTTP clients take a tenth
 * of the time to start. Throws `ConfigError`.
 */
export async function configuredSinks(
  config: Pick<Config, 'sinksFile' | 'sink'>,
  context: SinkEnvironment,
): Promise<Sink[]> {
  if (config.sinksFile === undefined && config.sink === undefined) return [];
  const { readSinks } = await import('./config.ts');
  return readSinks(config, context);
}
