import { PermissionError } from '../../../sdk/src/sallyport.ts';
import type { Call } from '../command.ts';

/** The API accepts this many ids in one filter. */
const maxIds = 100;

/** Looks up names of applications, to print them instead of ids. */
export class ApplicationNames {
  readonly #service: Call['service'];
  readonly #names = new Map<string, string>();

  constructor({ service }: Pick<Call, 'service'>) {
    this.#service = service;
  }

  /** Reads the names of these ids. Without `application:read`, and for deleted applications, the id is the name. */
  async load(ids: readonly (string | undefined)[]): Promise<void> {
    const unknown = new Set(ids.filter((id) => id !== undefined && !this.#names.has(id)) as string[]);
    const all = [...unknown];
    for (const id of all) this.#names.set(id, id);
    try {
      for (let from = 0; from < all.length; from += maxIds) {
        const id = all.slice(from, from + maxIds);
        for await (const app of this.#service.applications.all({ id })) this.#names.set(app.id, app.name);
      }
    } catch (error) {
      if (!(error instanceof PermissionError)) throw error;
    }
  }

  /** The name. Empty if the id is undefined. */
  of(id: string | undefined): string {
    return id === undefined ? '' : (this.#names.get(id) ?? id);
  }
}
