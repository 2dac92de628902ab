/** The methods of the SDK client, for docs/reference/sdk.md. */
import { Sallyport } from '../sdk/src/sallyport.ts';
import { table } from './markdown.ts';

interface Method {
  /** Such as `tokens.create`. */
  readonly name: string;
  readonly call: (...given: unknown[]) => unknown;
}

/** Its own methods, and those of its fields, in the order of their declaration. */
export function methodsOf(client: Sallyport): Method[] {
  return [...Object.entries(client), ['', client] as const].flatMap(([field, owner]) =>
    Object.entries(Object.getOwnPropertyDescriptors(Object.getPrototypeOf(owner)))
      .filter(([name]) => name !== 'constructor')
      .map(([name, { value }]) => ({ name: field ? `${field}.${name}` : name, call: value.bind(owner) })),
  );
}

export function sdkMethodTable(): string {
  const names = methodsOf(new Sallyport({ url: 'http://127.0.0.1:8080' })).map(({ name }) => name);
  const groups = Map.groupBy(names, (name) => (name.includes('.') ? name.split('.')[0] : 'other'));
  const rows = [...groups].map(([group = '', some]) => [group, some.map((name) => `\`${name}\``).join(', ')]);
  return table(['endpoints', 'methods'], rows);
}
