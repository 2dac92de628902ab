/** Builds the container tree. */
import type { Token } from '../../../sdk/src/sallyport.ts';

export interface Branch {
  /** In canonical form: lower case, with a leading and a trailing slash. */
  readonly path: string;
  readonly name: string;
  readonly branches: Branch[];
  /** 0 for the root. */
  readonly depth: number;
  /** Number of tokens in this container and below it. */
  count: number;
}

function canonical(container: string): string {
  return `/${container.toLowerCase().replace(/^\/|\/$/g, '')}/`.replace('//', '/');
}

export function treeOf(tokens: readonly Token[]): Branch {
  const root: Branch = { path: '/', name: '/', branches: [], depth: 0, count: 0 };
  for (const { container } of tokens) {
    let at = root;
    root.count += 1;
    for (const name of canonical(container).split('/').filter(Boolean)) {
      let next = at.branches.find((branch) => branch.name === name);
      if (!next) {
        next = { path: `${at.path}${name}/`, name, branches: [], depth: at.depth + 1, count: 0 };
        at.branches.push(next);
      }
      next.count += 1;
      at = next;
    }
  }
  sort(root);
  return root;
}

function sort(branch: Branch): void {
  branch.branches.sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
  for (const each of branch.branches) sort(each);
}
