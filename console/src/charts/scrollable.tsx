/** A scrollable area that takes the keyboard focus, so that it can be scrolled with keys. */
import type { ReactNode } from 'react';

const reachable = { tabIndex: 0 };

export function Scrollable({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <div className="table-scroll" role="group" aria-label={label} {...reachable}>
      {children}
    </div>
  );
}
