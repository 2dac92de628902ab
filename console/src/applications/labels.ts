import type { Application } from '../../../sdk/src/sallyport.ts';

/** The labels as `NAME=VALUE`. */
export function labelsOf({ labels = {} }: Application): string[] {
  return Object.entries(labels).map(([name, value]) => `${name}=${value}`);
}
