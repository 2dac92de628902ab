/** A part of a page that begins with a heading. */
export interface Section {
  readonly path: string;
  readonly page: string;
  readonly heading: string;
  readonly text: string;
}

export function search(sections: readonly Section[], query: string): Section[];
