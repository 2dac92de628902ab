/**
 * Copies, and finds out whether it happened. Plain http has no clipboard interface, so there the older way is
 * taken; reading back is tried only where the browser lets this page without asking.
 */
export type Copied = 'checked' | 'copied' | 'failed';

export async function copy(
  text: string,
  field: HTMLInputElement | HTMLTextAreaElement | null,
): Promise<Copied> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return await readBack(text);
    } catch {
      // Refused by the browser or its user: the older way may still be open.
    }
  }
  return copyBySelection(text, field) ? 'copied' : 'failed';
}

async function readBack(text: string): Promise<Copied> {
  try {
    const name = 'clipboard-read' as PermissionName;
    const { state } = await navigator.permissions.query({ name });
    if (state !== 'granted') return 'copied';
    return (await navigator.clipboard.readText()) === text ? 'checked' : 'failed';
  } catch {
    return 'copied';
  }
}

function copyBySelection(text: string, field: HTMLInputElement | HTMLTextAreaElement | null): boolean {
  let happened = false;
  const write = (event: ClipboardEvent) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
    happened = event.clipboardData !== null;
  };
  field?.select();
  document.addEventListener('copy', write);
  document.execCommand('copy');
  document.removeEventListener('copy', write);
  return happened;
}

export const copiedWords: Record<Copied, string> = {
  checked: 'Copied, and checked: the clipboard holds it.',
  copied: 'Copied. This browser does not let the page check: paste it once to be sure.',
  failed: 'It could not be copied. Select it and copy it by hand.',
};
