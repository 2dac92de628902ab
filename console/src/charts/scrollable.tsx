/** A scrollable area that can be reached, and then scrolled, with the keyboard. */
import type { ReactNode } from 'react';

const reachable = { tabIndex: 0 };

export function Scrollable({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <div className="table-scroll" role="group" aria-label={label} {...reachable}>
      {children}
    </div>
  );
}
