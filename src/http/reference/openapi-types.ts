import type { Schema } from './json-schema.ts';

export interface Reference {
  readonly $ref: string;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description?: string;
  readonly style?: 'form';
  readonly explode?: boolean;
  readonly schema: Schema;
  readonly example?: unknown;
}
