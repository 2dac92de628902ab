/**
 * Copies text and reports whether it worked. Browsers have no clipboard API on plain HTTP, so there it falls back to a
 * copy event. Reads the clipboard back only if the browser allows that without a prompt.
 */
export type CopyResult = 'checked' | 'copied' | 'failed';

export async function copy(
  text: string,
  field: HTMLInputElement | HTMLTextAreaElement | null,
): Promise<CopyResult> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return await readBack(text);
    } catch {
      // Denied by the browser or the user. Try the fallback.
    }
  }
  return copyBySelection(text, field) ? 'copied' : 'failed';
}

async function readBack(text: string): Promise<CopyResult> {
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
  let done = false;
  const write = (event: ClipboardEvent) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
    done = event.clipboardData !== null;
  };
  field?.select();
  document.addEventListener('copy', write);
  document.execCommand('copy');
  document.removeEventListener('copy', write);
  return done;
}

export const copyMessages: Record<CopyResult, string> = {
  checked: 'Copied and verified.',
  copied: 'Copied. The browser does not allow verification, so paste it once to be sure.',
  failed: 'Copying failed. Select the text and copy it manually.',
};
