/**
 * Unsaved changes of applications, in the tab's sessionStorage. They survive a reload, an upgrade of the console, and
 * an automatic sign-out because the key is no longer valid. They contain no keys. Signing out deletes them.
 */
import type { Application } from '../../../sdk/src/sallyport.ts';
import type { Grants } from '../access/grants.ts';
import { href, navigate } from '../frame/route.ts';
import { type Draft, draftOf, emptyDraft } from './draft.ts';

export interface StoredDraft {
  /** The application when editing began, to detect later changes by others. Undefined for a new application. */
  readonly before?: Application | undefined;
  readonly draft: Draft;
}

const prefix = 'sallyport.draft.';

/** `id` is the id of the application, or `new`. Returns undefined without a draft. */
export function readDraft(id: string): StoredDraft | undefined {
  const text = sessionStorage.getItem(prefix + id);
  if (text === null) return undefined;
  try {
    const { before, draft } = JSON.parse(text) as StoredDraft;
    // Drafts of an older version of the console lack newer fields.
    return { before, draft: { ...(before ? draftOf(before) : emptyDraft), ...draft } };
  } catch {
    return undefined;
  }
}

export function storeDraft(id: string, stored: StoredDraft): void {
  try {
    sessionStorage.setItem(prefix + id, JSON.stringify(stored));
  } catch {
    // Storage is full or disabled. The draft then lives only in the page.
  }
}

/** Opens the form for a new application, filled in with these fields. */
export function openNew(fields: Partial<Draft>): void {
  storeDraft('new', { draft: { ...emptyDraft, ...fields } });
  navigate('applications', 'new');
}

/** Opens the edit form of the application, filled in with other grants. The user reviews them before saving. */
export function openDraft(application: Application, { permissions, rules }: Grants): void {
  storeDraft(application.id, {
    before: application,
    draft: { ...draftOf(application), permissions, rules },
  });
  navigate('applications', application.id, 'edit');
}

/** Opens the review of a draft that has the fields of another version of the application. */
export function openReview(application: Application, fields: Partial<Application>): void {
  const next = { ...application, ...fields };
  const end = next.expires_at;
  const isChanged = end !== application.expires_at && (end === undefined || Date.parse(end) > Date.now());
  const draft = { ...draftOf(next), expiry: isChanged ? (end ?? 'never') : '' };
  storeDraft(application.id, { before: application, draft });
  location.hash = `${href('applications', application.id, 'edit')}?review=true`;
}

export function removeDraft(id: string): void {
  sessionStorage.removeItem(prefix + id);
}

export function removeAllDrafts(): void {
  for (const name of Object.keys(sessionStorage))
    if (name.startsWith(prefix)) sessionStorage.removeItem(name);
}
